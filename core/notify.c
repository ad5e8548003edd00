/* See notify.h. */
#include "core/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

_Static_assert(sizeof(struct sockaddr_un) <= sizeof((struct gk_notify *)0)->address,
               "an address of a unix socket fits");

static uint64_t number(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return errno == 0 && end && *end == '\0' ? value : 0;
}

enum gk_status gk_notify_init(struct gk_notify *notify_out, const char *socket_name,
                              const char *watchdog_usec, const char *watchdog_pid, int64_t pid,
                              struct gk_err *err)
{
    struct gk_notify notify = {.fd = -1};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = socket_name ? strlen(socket_name) : 0;
    if (size == 0) {
        *notify_out = notify;
        return GK_OK;
    }
    if ((socket_name[0] != '/' && socket_name[0] != '@') || size < 2 ||
        size >= sizeof address.sun_path) {
        return gk_fail(err, GK_USAGE,
                       "NOTIFY_SOCKET '%s': a path or @name of at most %zu bytes is needed",
                       socket_name, sizeof address.sun_path - 1);
    }
    memcpy(address.sun_path, socket_name, size);
    if (socket_name[0] == '@') {
        address.sun_path[0] = '\0'; /* an abstract name */
    }
    notify.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify.fd < 0) {
        return gk_fail(err, GK_IO, "NOTIFY_SOCKET: %s", strerror(errno));
    }
    notify.address_size = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + size);
    memcpy(notify.address, &address, sizeof address);
    if (!watchdog_pid || number(watchdog_pid) == (uint64_t)pid) {
        notify.watchdog_us = number(watchdog_usec);
    }
    *notify_out = notify;
    return GK_OK;
}

void gk_notify_fini(struct gk_notify *notify)
{
    if (notify && notify->address_size > 0 && notify->fd >= 0) {
        (void)close(notify->fd); /* datagrams were sent whole */
    }
    if (notify) {
        *notify = (struct gk_notify){.fd = -1};
    }
}

bool gk_notify_send(const struct gk_notify *notify, const char *format, ...)
{
    char text[MESSAGE_MAX];
    if (notify->fd < 0 || notify->address_size == 0) {
        return false;
    }
    va_list ap;
    va_start(ap, format);
    int size = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (size < 0 || (size_t)size >= sizeof text) {
        return false;
    }
    struct sockaddr_un address;
    memcpy(&address, notify->address, sizeof address);
    ssize_t sent = sendto(notify->fd, text, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&address, notify->address_size);
    return sent == size;
}
