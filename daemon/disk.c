/* See disk.h. */
#include "daemon/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/state_dir.h"

#define INODES_LEAST 64 /* files of a few bundles */

enum gk_core_disk gk_disk_next(enum gk_core_disk now, uint64_t free_bytes,
                               const struct gk_disk_marks *marks)
{
    if (free_bytes >= marks->resume_bytes) {
        return GK_CORE_DISK_OK;
    }
    switch (now) {
    case GK_CORE_DISK_OK:
        return free_bytes < marks->low_bytes ? GK_CORE_DISK_LOW : GK_CORE_DISK_OK;
    case GK_CORE_DISK_LOW:
        return GK_CORE_DISK_LOW;
    case GK_CORE_DISK_FULL:
        break;
    }
    return free_bytes >= marks->low_bytes / 2 ? GK_CORE_DISK_LOW : GK_CORE_DISK_FULL;
}

enum gk_status gk_disk_free(const char *path, uint64_t *bytes_out, struct gk_err *err)
{
    struct statvfs info;
    if (statvfs(path, &info) != 0) {
        return gk_fail(err, GK_IO, "free space of %s: %s", path, strerror(errno));
    }
    bool no_inodes = info.f_files > 0 && info.f_favail < INODES_LEAST;
    *bytes_out = no_inodes ? 0 : (uint64_t)info.f_bavail * info.f_frsize;
    return GK_OK;
}

static enum gk_status make_ballast(const char *path, uint64_t bytes, struct gk_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    }
    int rc = posix_fallocate(fd, 0, (off_t)bytes);
    if (rc == 0 && fsync(fd) != 0) {
        rc = errno;
    }
    (void)close(fd); /* nothing is in it that could be lost */
    if (rc != 0) {
        (void)unlink(path); /* a part of it is no ballast */
        return gk_fail(err, rc == ENOSPC ? GK_FULL : GK_IO, "%s: %" PRIu64 " bytes: %s", path,
                       bytes, strerror(rc));
    }
    return GK_OK;
}

enum gk_status gk_ballast_keep(const char *state_dir, uint64_t bytes, uint64_t free_bytes,
                               const struct gk_disk_marks *marks, bool *made_out,
                               struct gk_err *err)
{
    struct stat info;
    enum gk_status status = GK_OK;
    *made_out = false;
    char *path = gk_asprintf("%s/" GK_STATE_BALLAST, state_dir);
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory for the ballast's path");
    }
    bool there = lstat(path, &info) == 0;
    if (there && bytes == 0) {
        *made_out = unlink(path) == 0;
    } else if (!there && bytes > 0 && free_bytes >= marks->resume_bytes &&
               free_bytes - marks->resume_bytes >= bytes) {
        status = make_ballast(path, bytes, err);
        *made_out = status == GK_OK;
    }
    free(path);
    return status;
}
