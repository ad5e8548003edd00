/*
 * A preloaded library that ends a process, or fails one of its calls, at the Nth write, sync,
 * rename, unlink, cut or send:
 *
 *     LD_PRELOAD=libfail_io.so GK_FAIL_NAME=gktuned GK_FAIL_AT=17 GK_FAIL_HOW=kill
 * GK_FAIL_ONCE=mark
 *
 * GK_FAIL_HOW: kill (SIGKILL before the call), half (a write leaves its first half, then SIGKILL),
 * power (SIGKILL, and files are as they were when they were last synced; names stay as they are),
 * eio or enospc (the call fails, once), full (that write and all later ones to files find no room).
 * GK_FAIL_STAND names a file: while it is there, syncs of write-ahead logs do not come back.
 * Only a program of the name is meant, and of several processes the first that gets there: it makes
 * the file `mark`. GK_FAIL_COUNT names a file that gets the number of calls when a process ends.
 * Writes to pipes and eventfds are no points: nothing outlives them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static atomic_bool is_full;

enum how { HOW_NOTHING, HOW_KILL, HOW_HALF, HOW_EIO, HOW_ENOSPC, HOW_FULL, HOW_POWER };

/* For power: the content of a file that was written, as of its last sync. Its descriptor is one of
 * ours that is never closed: closing any would drop the locks that the program has on the file. */
struct kept {
    dev_t device;
    ino_t inode;
    int fd;
    char *bytes;
    size_t size;
};
#define KEPT_MAX 256
static struct kept kept[KEPT_MAX];
static size_t kept_count;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

#define CALLS(X)                                                                                   \
    X(fdatasync)                                                                                   \
    X(fsync) X(ftruncate) X(open) X(pwrite) X(rename) X(send) X(sendmsg) X(unlink) X(write)        \
        X(writev)
#define AS_POINTER(name) __typeof__(&name) name;
static struct {
    CALLS(AS_POINTER)
} real;
#define RESOLVE(name) real.name = (__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name);

/* Once: a handler of signals writes too, and would wait for ever for the loader's lock if the call
 * that it came into were just asking for an address. */
__attribute__((constructor)) static void resolve(void)
{
    CALLS(RESOLVE)
}

#define REAL(name) (real.name)

static bool meant(void)
{
    const char *name = getenv("GK_FAIL_NAME");
    return name && strcmp(program_invocation_short_name, name) == 0;
}

static enum how wanted(void)
{
    static const char *const names[] = {"", "kill", "half", "eio", "enospc", "full", "power"};
    const char *how = getenv("GK_FAIL_HOW");
    for (size_t i = 1; how && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(how, names[i]) == 0) {
            return (enum how)i;
        }
    }
    return HOW_NOTHING;
}

static bool first_of_all(void)
{
    const char *mark = getenv("GK_FAIL_ONCE");
    int fd = mark ? (int)REAL(open)(mark, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    return fd >= 0;
}

/* ------------------------------------------------------------------ power */

static void too_bad(const char *what)
{
    (void)fprintf(stderr, "fail_io: %s\n", what);
    abort(); /* a test that would prove less than it says */
}

/* malloc'd. */
static char *content(int fd, size_t *size_out)
{
    struct stat info;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d",
                   fd); /* it may be open for writing alone */
    int own = (int)REAL(open)(path, O_RDONLY | O_CLOEXEC);
    char *bytes = own >= 0 && fstat(own, &info) == 0 ? malloc((size_t)info.st_size + 1) : NULL;
    size_t size = 0;
    ssize_t got = 1;
    while (bytes && size < (size_t)info.st_size && got > 0) {
        got = pread(own, bytes + size, (size_t)info.st_size - size, (off_t)size);
        size += got > 0 ? (size_t)got : 0;
    }
    if (!bytes || got < 0) {
        too_bad("a file cannot be read");
    }
    *size_out = size; /* own stays open, for the same reason */
    return bytes;
}

/* NULL: not a file that is looked after. Standard streams are not. */
static struct kept *keep(int fd, bool make)
{
    struct stat info;
    if (fd <= 2 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return NULL;
    }
    for (size_t i = 0; i < kept_count; i++) {
        if (kept[i].device == info.st_dev && kept[i].inode == info.st_ino) {
            return &kept[i];
        }
    }
    if (!make) {
        return NULL;
    }
    struct kept *one = &kept[kept_count++];
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    one->device = info.st_dev;
    one->inode = info.st_ino;
    one->fd = (int)REAL(open)(path, O_RDWR | O_CLOEXEC);
    if (kept_count == KEPT_MAX || one->fd < 0) {
        too_bad("too many files, or one that cannot be opened again");
    }
    one->bytes = content(one->fd, &one->size);
    return one;
}

static bool power_may_go(void)
{
    return meant() && wanted() == HOW_POWER;
}

static void before_write(int fd)
{
    if (power_may_go()) {
        (void)pthread_mutex_lock(&kept_lock);
        (void)keep(fd, true); /* what it was is what is kept */
        (void)pthread_mutex_unlock(&kept_lock);
    }
}

/* A disk that stands still. */
static void wait_for_disk(int fd)
{
    const char *path = meant() ? getenv("GK_FAIL_STAND") : NULL;
    char link[64], name[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = path ? readlink(link, name, sizeof name) : -1;
    bool is_log = size > 4 && memcmp(name + size - 4, "-wal", 4) == 0;
    while (is_log && access(path, F_OK) == 0) {
        (void)usleep(10000);
    }
}

/* What a sync makes last is what was written before it began. */
static int synced(int fd, int (*sync_call)(int))
{
    char *bytes = NULL;
    size_t size = 0;
    bool may = power_may_go();
    if (may) {
        (void)pthread_mutex_lock(&kept_lock);
        bytes = keep(fd, false) ? content(fd, &size) : NULL;
        (void)pthread_mutex_unlock(&kept_lock);
    }
    wait_for_disk(fd);
    int rc = sync_call(fd);
    if (rc == 0 && bytes) {
        (void)pthread_mutex_lock(&kept_lock);
        struct kept *one = keep(fd, false);
        free(one->bytes);
        one->bytes = bytes;
        one->size = size;
        (void)pthread_mutex_unlock(&kept_lock);
    } else {
        free(bytes);
    }
    return rc;
}

static void lose_unsynced(void)
{
    (void)pthread_mutex_lock(&kept_lock); /* and never let go */
    for (size_t i = 0; i < kept_count; i++) {
        const struct kept *one = &kept[i];
        if (REAL(ftruncate)(one->fd, 0) != 0 ||
            REAL(pwrite)(one->fd, one->bytes, one->size, 0) != (ssize_t)one->size) {
            too_bad("a file cannot be put back");
        }
    }
}

static void die(void)
{
    if (wanted() == HOW_POWER) {
        lose_unsynced();
    }
    (void)kill(getpid(), SIGKILL); /* does not come back */
    for (;;) {
        (void)pause();
    }
}

/* What is to be done at this call. The number is counted in any case. */
static enum how point(void)
{
    if (!meant()) {
        return HOW_NOTHING;
    }
    const char *at = getenv("GK_FAIL_AT");
    long now = atomic_fetch_add(&calls, 1) + 1;
    if (!at || now != strtol(at, NULL, 10) || !first_of_all()) {
        return HOW_NOTHING;
    }
    return wanted();
}

static bool is_kind(int fd, bool file, bool socket)
{
    struct stat info;
    return fstat(fd, &info) == 0 &&
           ((file && S_ISREG(info.st_mode)) || (socket && S_ISSOCK(info.st_mode)));
}

/* 0: go on; else errno is set. A socket does not say EIO: it says that the other end is gone. */
static int spoil(int fd, bool sync_call)
{
    if (!is_kind(fd, true, !sync_call)) {
        return 0;
    }
    bool file = is_kind(fd, true, false);
    enum how how = point();
    if (how == HOW_KILL || how == HOW_POWER || (how == HOW_HALF && sync_call)) {
        die();
    }
    if (file && !sync_call) {
        before_write(fd);
    }
    if (how == HOW_FULL) {
        atomic_store(&is_full, true);
    }
    if (file && !sync_call && atomic_load(&is_full)) {
        errno = ENOSPC;
        return -1;
    }
    if (how == HOW_EIO) {
        errno = file ? EIO : ECONNRESET;
        return -1;
    }
    if (how == HOW_ENOSPC && file && !sync_call) {
        errno = ENOSPC;
        return -1;
    }
    return how == HOW_HALF ? 1 : 0;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    int what = spoil(fd, false);
    if (what < 0) {
        return -1;
    }
    if (what > 0) {
        (void)!REAL(write)(fd, bytes, size / 2);
        die();
    }
    return REAL(write)(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    int what = spoil(fd, false);
    if (what < 0) {
        return -1;
    }
    if (what > 0) {
        (void)!REAL(pwrite)(fd, bytes, size / 2, offset);
        die();
    }
    return REAL(pwrite)(fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    return pwrite(fd, bytes, size, offset);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    int what = spoil(fd, false);
    if (what < 0) {
        return -1;
    }
    if (what > 0) {
        die();
    }
    return REAL(writev)(fd, pieces, count);
}

static int before_sync(int fd)
{
    return spoil(fd, true);
}

int fsync(int fd)
{
    return before_sync(fd) < 0 ? -1 : synced(fd, REAL(fsync));
}

int fdatasync(int fd)
{
    return before_sync(fd) < 0 ? -1 : synced(fd, REAL(fdatasync));
}

/* Calls that name no descriptor. */
static int spoil_path(void)
{
    enum how how = point();
    if (how == HOW_KILL || how == HOW_HALF || how == HOW_POWER) {
        die();
    }
    if (how == HOW_EIO) {
        errno = EIO;
        return -1;
    }
    return 0;
}

int rename(const char *from, const char *to)
{
    return spoil_path() < 0 ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path)
{
    return spoil_path() < 0 ? -1 : REAL(unlink)(path);
}

int ftruncate(int fd, off_t size)
{
    if (is_kind(fd, true, false)) {
        if (spoil_path() < 0) {
            return -1;
        }
        before_write(fd);
    }
    return REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    int what = spoil(fd, false);
    if (what > 0) {
        (void)!REAL(send)(fd, bytes, size / 2, flags);
        die();
    }
    return what < 0 ? -1 : REAL(send)(fd, bytes, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int what = spoil(fd, false);
    if (what > 0) {
        die();
    }
    return what < 0 ? -1 : REAL(sendmsg)(fd, message, flags);
}

__attribute__((destructor)) static void tell_count(void)
{
    const char *path = getenv("GK_FAIL_COUNT");
    if (!path || !meant()) {
        return;
    }
    char text[32];
    int fd = REAL(open)(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    int size = snprintf(text, sizeof text, "%ld\n", atomic_load(&calls));
    if (fd >= 0) {
        (void)!REAL(write)(fd, text, (size_t)size);
        (void)close(fd); /* a count that is missing fails the test */
    }
}
