/*
 * A preloaded library that ends a process, or fails one of its calls, at the Nth write, sync,
 * rename, unlink, cut or send:
 *
 *     LD_PRELOAD=libfail_io.so GK_FAIL_NAME=gktuned GK_FAIL_AT=17 GK_FAIL_HOW=kill
 * GK_FAIL_ONCE=mark
 *
 * GK_FAIL_HOW: kill (SIGKILL before the call), half (a write leaves its first half, then SIGKILL),
 * eio or enospc (the call fails, once), full (that write and all later ones to files find no room).
 * Only a program of the name is meant, and of several processes the first that gets there: it makes
 * the file `mark`. GK_FAIL_COUNT names a file that gets the number of calls when a process ends.
 * Writes to pipes and eventfds are no points: nothing outlives them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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

enum how { HOW_NOTHING, HOW_KILL, HOW_HALF, HOW_EIO, HOW_ENOSPC, HOW_FULL };

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

static bool meant(void)
{
    const char *name = getenv("GK_FAIL_NAME");
    return name && strcmp(program_invocation_short_name, name) == 0;
}

static enum how wanted(void)
{
    static const char *const names[] = {"", "kill", "half", "eio", "enospc", "full"};
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

static void die(void)
{
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
    if (how == HOW_KILL || (how == HOW_HALF && sync_call)) {
        die();
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
    return before_sync(fd) < 0 ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return before_sync(fd) < 0 ? -1 : REAL(fdatasync)(fd);
}

/* Calls that name no descriptor. */
static int spoil_path(void)
{
    enum how how = point();
    if (how == HOW_KILL || how == HOW_HALF) {
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
    return is_kind(fd, true, false) && spoil_path() < 0 ? -1 : REAL(ftruncate)(fd, size);
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
