/*
 * Whole files in and out: gk_file_load and gk_file_store of json.h, apart from the parser so that
 * the JSON library stays in one file. Blocking; any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/json.h"

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
        return "a character device";
    case S_IFBLK:
        return "a block device";
    default:
        return "no regular file";
    }
}

static enum gk_status fail_open(const char *path, struct gk_err *err)
{
    if (errno == ENOENT || errno == ENOTDIR) {
        return gk_fail(err, GK_NOT_FOUND, "%s: no such file", path);
    }
    if (errno == ENXIO) { /* what open() says of a socket */
        return gk_fail(err, GK_INPUT, "%s: is no regular file", path);
    }
    return gk_fail(err, GK_IO, "%s: cannot open: %s", path, strerror(errno));
}

/* Reads to the end of the file or one byte past size_max, whichever comes first: the size fstat()
 * told may be stale, and is 0 for files of /proc. */
static enum gk_status read_all(int fd, const char *path, size_t size_guess, size_t size_max,
                               char **text_out, size_t *size_out, struct gk_err *err)
{
    size_t capacity = size_guess + 2; /* the NUL and one byte that shows growth */
    size_t size = 0;
    char *text = malloc(capacity);
    enum gk_status status = GK_OK;
    while (text) {
        ssize_t got = read(fd, text + size, capacity - 1 - size);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = gk_fail(err, GK_IO, "%s: cannot read: %s", path, strerror(errno));
            goto out;
        }
        if (got == 0) {
            text[size] = '\0';
            *text_out = text;
            *size_out = size;
            return GK_OK;
        }
        size += (size_t)got;
        if (size > size_max) {
            status = gk_fail(err, GK_LIMIT, "%s: more than %zu bytes, the most that is read", path,
                             size_max);
            goto out;
        }
        if (size == capacity - 1) {
            capacity *= 2;
            char *grown = realloc(text, capacity);
            if (!grown) {
                break;
            }
            text = grown;
        }
    }
    status = gk_fail(err, GK_NOMEM, "%s: out of memory for %zu bytes", path, capacity);
out:
    free(text);
    return status;
}

enum gk_status gk_file_load(const char *path, size_t size_max, char **text_out, size_t *size_out,
                            struct gk_err *err)
{
    enum gk_status status;
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return fail_open(path, err);
    }
    if (fstat(fd, &info) != 0) {
        status = gk_fail(err, GK_IO, "%s: cannot stat: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status = gk_fail(err, GK_INPUT, "%s: is %s, a regular file is needed", path,
                         kind_of(info.st_mode));
        goto out;
    }
    if ((uint64_t)info.st_size > size_max) {
        status = gk_fail(err, GK_LIMIT, "%s: has %" PRIu64 " bytes, at most %zu are read", path,
                         (uint64_t)info.st_size, size_max);
        goto out;
    }
    status = read_all(fd, path, (size_t)info.st_size, size_max, text_out, size_out, err);
out:
    close(fd);
    return status;
}

/* ------------------------------------------------------------------ storing */

static enum gk_status fail_write(const char *what, const char *path, struct gk_err *err)
{
    enum gk_status status = errno == ENOSPC || errno == EDQUOT ? GK_FULL : GK_IO;
    return gk_fail(err, status, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* Opens "<path>.<random>.tmp" beside the target: same folder, so that rename() is atomic; a mode
 * that obeys the umask, which mkstemp() would not. */
static int open_aside(const char *path, char **aside_out)
{
    for (int attempt = 0; attempt < 16; attempt++) {
        uint64_t word = 0;
        if (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word) {
            return -1;
        }
        char *aside = gk_asprintf("%s.%016" PRIx64 ".tmp", path, word);
        if (!aside) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            *aside_out = aside;
            return fd;
        }
        free(aside);
        if (errno != EEXIST) {
            return -1;
        }
    }
    return -1;
}

static bool write_whole(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return false;
        }
        at += put;
        size -= (size_t)put;
    }
    return true;
}

static bool sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? gk_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : gk_strdup(".");
    if (!folder) {
        errno = ENOMEM;
        return false;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) {
        return false;
    }
    /* Some file systems cannot fsync a folder and say EINVAL: there is nothing better to do there.
     */
    bool done = fsync(fd) == 0 || errno == EINVAL;
    int saved = errno;
    close(fd);
    errno = saved;
    return done;
}

enum gk_status gk_file_store(const char *path, const void *bytes, size_t size, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    char *aside = NULL;
    struct stat info = {0};
    bool is_there = stat(path, &info) == 0;
    if (is_there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        /* root could put a file in the place of /dev/null */
        return gk_fail(err, GK_INPUT, "%s: is %s, it is not replaced by a file", path,
                       kind_of(info.st_mode));
    }
    int fd = open_aside(path, &aside);
    if (fd < 0) {
        return fail_write("create a file beside it", path, err);
    }
    if (is_there && S_ISREG(info.st_mode)) {
        (void)fchmod(fd, info.st_mode & 07777); /* kept if we may; the default else */
    }
    if (!write_whole(fd, bytes, size) || fsync(fd) != 0) {
        status = fail_write("write", path, err);
        goto out;
    }
    if (close(fd) != 0) {
        fd = -1;
        status = fail_write("close", path, err);
        goto out;
    }
    fd = -1;
    if (rename(aside, path) != 0) {
        status = fail_write("rename into place", path, err);
        goto out;
    }
    free(aside);
    aside = NULL;
    if (!sync_folder_of(path)) {
        status = fail_write("sync the folder of", path, err);
    }
out:
    if (fd >= 0) {
        close(fd);
    }
    if (aside) {
        (void)unlink(aside); /* best effort: the error that brought us here is the one to tell */
        free(aside);
    }
    return status;
}

enum gk_status gk_file_store_new(const char *path, const void *bytes, size_t size,
                                 struct gk_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return errno == EEXIST ? gk_fail(err, GK_EXISTS, "%s: exists already", path)
                               : fail_write("create", path, err);
    }
    enum gk_status status = GK_OK;
    if (!write_whole(fd, bytes, size) || fsync(fd) != 0) {
        status = fail_write("write", path, err);
    }
    if (close(fd) != 0 && status == GK_OK) {
        status = fail_write("close", path, err);
    }
    if (status == GK_OK && !sync_folder_of(path)) {
        status = fail_write("sync the folder of", path, err);
    }
    if (status != GK_OK) {
        (void)unlink(path); /* half a file is none */
    }
    return status;
}
