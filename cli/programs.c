/* Programs that gktune starts: see programs.h. Single-threaded. */
#include "cli/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define LOG_BYTES_MAX    (8 << 20) /* a log that is larger is begun anew */
#define LAST_WORDS_BYTES 2000
#define LINE_BYTES_MAX   (256 << 10) /* a list of 64 devices */

static int open_log(const char *path, long *start_out)
{
    struct stat info;
    int begin = stat(path, &info) == 0 && info.st_size > LOG_BYTES_MAX ? O_TRUNC : 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | begin, 0600);
    if (fd >= 0) {
        *start_out = fstat(fd, &info) == 0 ? (long)info.st_size : 0;
    }
    return fd;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* a pipe's end or a log of another process: nothing is lost */
    }
    *fd = -1;
}

/* Spawns with the three descriptors; a new group, default signals, nothing blocked. */
static int spawn_with(const char *path, const char *const *argv, int in, int out, int log,
                      pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGINT);
    (void)sigaddset(&defaults, SIGTERM);
    (void)sigaddset(&defaults, SIGPIPE);
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attr);
    if (rc != 0) {
        (void)posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawnattr_setpgroup(&attr, 0);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setsigdefault(&attr, &defaults);
    if ((rc = posix_spawn_file_actions_adddup2(&actions, in, 0)) == 0 &&
        (rc = posix_spawn_file_actions_adddup2(&actions, out, 1)) == 0 &&
        (rc = posix_spawn_file_actions_adddup2(&actions, log, 2)) == 0) {
        rc = posix_spawn(pid_out, path, &actions, &attr, (char *const *)(uintptr_t)argv, environ);
    }
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

enum gk_status gk_child_start(const char *exe_dir, const char *const *argv, const char *log_path,
                              bool wants_output, struct gk_child *child_out, struct gk_err *err)
{
    struct gk_child child = {.in_fd = -1, .out_fd = -1};
    int in[2] = {-1, -1}, out[2] = {-1, -1}, log = -1, rc = 0;
    enum gk_status status = GK_OK;
    char *path = gk_asprintf("%s/%s", exe_dir ? exe_dir : ".", argv[0]);
    child.log_path = gk_strdup(log_path);
    if (!path || !child.log_path) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    if (access(path, X_OK) != 0) {
        status =
            gk_fail(err, GK_MISSING, "%s: %s; it must stand beside gktune", path, strerror(errno));
        goto out;
    }
    log = open_log(log_path, &child.log_start);
    if (log < 0) {
        status = gk_fail(err, GK_IO, "cannot write '%s': %s", log_path, strerror(errno));
        goto out;
    }
    if (pipe2(in, O_CLOEXEC) != 0 || (wants_output && pipe2(out, O_CLOEXEC) != 0)) {
        status = gk_fail(err, GK_IO, "pipe: %s", strerror(errno));
        goto out;
    }
    rc = spawn_with(path, argv, in[0], wants_output ? out[1] : log, log, &child.pid);
    if (rc != 0) {
        status = gk_fail(err, GK_MISSING, "cannot start %s: %s", path, strerror(rc));
        goto out;
    }
    child.in_fd = in[1];
    child.out_fd = out[0];
    in[1] = out[0] = -1;
    *child_out = child;
    child.log_path = NULL;
out:
    close_fd(&in[0]);
    close_fd(&in[1]);
    close_fd(&out[0]);
    close_fd(&out[1]);
    close_fd(&log);
    free(child.log_path);
    free(path);
    return status;
}

bool gk_child_alive(struct gk_child *child)
{
    if (child->pid <= 0) {
        return false;
    }
    pid_t rc = waitpid(child->pid, &child->wait_status, WNOHANG);
    if (rc == child->pid || (rc < 0 && errno == ECHILD)) {
        child->pid = 0;
    }
    return child->pid > 0;
}

bool gk_child_ended(struct gk_child *child, int ms)
{
    const struct timespec step = {.tv_nsec = 5000000};
    for (int waited = 0; gk_child_alive(child); waited += 5) {
        if (waited >= ms) {
            return false;
        }
        (void)nanosleep(&step, NULL); /* a child's end has no descriptor to wait for here */
    }
    return true;
}

void gk_child_stop(struct gk_child *child, int grace_ms)
{
    /* {0} and a stopped child have pid 0 and no descriptors of their own */
    if (child->log_path) {
        close_fd(&child->in_fd);
        close_fd(&child->out_fd);
        if (child->pid > 0 && !gk_child_ended(child, grace_ms)) {
            (void)kill(child->pid, SIGTERM);
            if (!gk_child_ended(child, grace_ms)) {
                (void)kill(child->pid, SIGKILL);
                (void)gk_child_ended(child, 10000);
            }
        }
        free(child->log_path);
    }
    *child = (struct gk_child){.in_fd = -1, .out_fd = -1};
}

void gk_child_ending(const struct gk_child *child, char text_out[64])
{
    if (WIFSIGNALED(child->wait_status)) {
        int number = WTERMSIG(child->wait_status);
        const char *name = sigdescr_np(number);
        (void)snprintf(text_out, 64, "signal %d (%s)", number, name ? name : "unknown");
    } else {
        (void)snprintf(text_out, 64, "exit status %d", WEXITSTATUS(child->wait_status));
    }
}

void gk_child_last_words(const struct gk_child *child, struct gk_buf *out)
{
    char bytes[LAST_WORDS_BYTES];
    int fd = child->log_path ? open(child->log_path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0) {
        close_fd(&fd);
        return;
    }
    off_t start = child->log_start;
    if (info.st_size - start > LAST_WORDS_BYTES) {
        start = info.st_size - LAST_WORDS_BYTES;
    }
    ssize_t size = pread(fd, bytes, sizeof bytes, start);
    close_fd(&fd);
    while (size > 0 && bytes[size - 1] == '\n') {
        size--;
    }
    if (size > 0) {
        gk_buf_add(out, bytes, (size_t)size);
    }
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum gk_status gk_child_line(struct gk_child *child, int timeout_ms, struct gk_buf *line,
                             struct gk_err *err)
{
    gk_buf_reset(line);
    int64_t end = now_ms() + timeout_ms;
    while (line->size < LINE_BYTES_MAX) {
        int64_t left = end - now_ms();
        struct pollfd item = {.fd = child->out_fd, .events = POLLIN};
        int rc = poll(&item, 1, left > 0 ? (int)left : 0);
        if (rc < 0 && errno == EINTR) {
            continue;
        }
        if (rc <= 0) {
            return gk_fail(err, GK_TIMEOUT, "no answer within %d ms", timeout_ms);
        }
        char c = 0; /* a byte at a time: one line in a program's life */
        ssize_t got = read(child->out_fd, &c, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return gk_fail(err, GK_CLOSED, "it ended without a word");
        }
        if (c == '\n') {
            return gk_buf_status(line, err);
        }
        gk_buf_putc(line, c);
    }
    return gk_fail(err, GK_PROTOCOL, "its first line is longer than %d bytes", LINE_BYTES_MAX);
}

enum gk_status gk_child_output(struct gk_child *child, size_t size_max, struct gk_buf *output,
                               struct gk_err *err)
{
    char bytes[16384];
    gk_buf_reset(output);
    for (;;) {
        ssize_t got = read(child->out_fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return gk_fail(err, GK_IO, "its output: %s", strerror(errno));
        }
        if (got == 0) {
            return gk_buf_status(output, err);
        }
        if (output->size + (size_t)got > size_max) {
            return gk_fail(err, GK_PROTOCOL, "it says more than %zu bytes", size_max);
        }
        gk_buf_add(output, bytes, (size_t)got);
    }
}
