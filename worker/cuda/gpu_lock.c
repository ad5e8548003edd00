/* Locks of GPUs: see gpu_lock.h. */
#include "worker/cuda/gpu_lock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ASKERS_MAX 128 /* connections that nobody accepts; beyond them the holder is not told */

struct gk_gpu_lock {
    int fd;
};

static socklen_t name_of(const char *uuid, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "gktune-gpu-%.80s", uuid);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

int64_t gk_gpu_lock_holder(const char *uuid)
{
    struct sockaddr_un address;
    struct ucred holder = {0};
    socklen_t size = name_of(uuid, &address), holder_size = sizeof holder;
    int64_t pid = -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&address, size) != 0) {
        pid = errno == ECONNREFUSED ? 0 : -1;
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &holder_size) == 0 &&
               holder.pid > 0) {
        pid = holder.pid;
    }
    (void)close(fd);
    return pid;
}

enum gk_status gk_gpu_lock_take(const char *uuid, struct gk_gpu_lock **lock_out, struct gk_err *err)
{
    struct sockaddr_un address;
    socklen_t size = name_of(uuid, &address);
    struct gk_gpu_lock *lock = calloc(1, sizeof *lock);
    if (!lock) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    lock->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lock->fd >= 0 && bind(lock->fd, (struct sockaddr *)&address, size) == 0 &&
        listen(lock->fd, ASKERS_MAX) == 0) {
        *lock_out = lock;
        return GK_OK;
    }
    int error = errno;
    gk_gpu_lock_free(lock);
    if (error != EADDRINUSE) {
        return gk_fail(err, GK_IO, "lock of %s: %s", uuid, strerror(error));
    }
    int64_t holder = gk_gpu_lock_holder(uuid);
    return holder > 0 ? gk_fail(err, GK_BUSY,
                                "%s is held by process %" PRId64
                                ", another gktune-worker; end it or choose another device",
                                uuid, holder)
                      : gk_fail(err, GK_BUSY, "%s is held by another gktune-worker", uuid);
}

void gk_gpu_lock_tend(struct gk_gpu_lock *lock)
{
    for (int i = 0; lock && i < ASKERS_MAX; i++) {
        int fd = accept4(lock->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* nobody left, or descriptors are short: next time */
        }
        (void)close(fd);
    }
}

void gk_gpu_lock_free(struct gk_gpu_lock *lock)
{
    if (lock) {
        if (lock->fd >= 0) {
            (void)close(lock->fd);
        }
        free(lock);
    }
}
