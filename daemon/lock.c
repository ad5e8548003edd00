/* See lock.h. */
#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/json.h"
#include "core/state_dir.h"

#define LOCK_BYTES_MAX 4096 /* a few endpoints */

enum gk_status gk_lock_take(const char *state_dir, int *fd_out, struct gk_err *err)
{
    char *path = gk_asprintf("%s/%s", state_dir, GK_STATE_LOCK);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory for the lock's path");
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum gk_status status = GK_OK;
    if (fd < 0) {
        status = gk_fail(err, GK_USAGE, "%s: %s", path, strerror(errno));
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        char text[LOCK_BYTES_MAX] = {0};
        struct gk_json *json = NULL;
        ssize_t got = pread(fd, text, sizeof text - 1, 0);
        if (got > 0 && gk_json_parse(text, (size_t)got, path, &json, NULL) == GK_OK) {
            status = gk_fail(err, GK_BUSY, "%s belongs to gktuned with pid %" PRId64 " at %s",
                             state_dir, gk_json_get_int(json, "pid", 0),
                             gk_json_get_string(json, "endpoint", "an unknown endpoint"));
        } else {
            status = gk_fail(err, GK_BUSY, "%s belongs to another gktuned, which is starting",
                             state_dir);
        }
        gk_json_free(json);
        (void)close(fd); /* nothing was written to it */
    } else {
        *fd_out = fd;
    }
    free(path);
    return status;
}

enum gk_status gk_lock_write(int fd, int64_t pid, const char *const *endpoints, uint32_t count,
                             int64_t epoch, struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object(), *listen = gk_json_new_array();
    bool ok = gk_json_set_int(json, "pid", pid) &&
              gk_json_set_string(json, "endpoint", endpoints[0]) &&
              gk_json_set_int(json, "epoch", epoch);
    for (uint32_t i = 0; i < count; i++) {
        ok = gk_json_push(listen, gk_json_new_string(endpoints[i])) && ok;
    }
    ok = gk_json_set(json, "listen", listen) && ok;
    char *text = ok ? gk_json_text(json) : NULL;
    enum gk_status status = text ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for the lock");
    if (text &&
        (ftruncate(fd, 0) != 0 || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))) {
        status = gk_fail(err, GK_IO, "%s: %s", GK_STATE_LOCK, strerror(errno));
    }
    free(text);
    gk_json_free(json);
    return status;
}

void gk_lock_release(int fd)
{
    if (fd >= 0) {
        (void)ftruncate(fd, 0); /* a reader sees an empty file: nobody there */
        (void)close(fd);
    }
}
