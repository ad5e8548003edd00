/* Children of the bench: see load.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/service/load.h"
#include "core/clock.h"
#include "core/key_list.h"
#include "core/state_dir.h"

extern char **environ;

uint64_t load_now_ns(void)
{
    struct gk_clock clock = gk_clock_real();
    return clock.monotonic_ns(clock.context);
}

void load_die(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)fputs("bench_load: ", stderr);
    (void)vfprintf(stderr, format, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    exit(4);
}

void load_need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        load_die("%s", err->text);
    }
}

pid_t load_spawn(const char *const *argv, int *output_out)
{
    int ends[2];
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        (output_out && posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) != 0)) {
        load_die("pipe: %s", strerror(errno));
    }
    /* posix_spawn does not change what argv points to. */
    int rc = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions); /* frees memory only */
    (void)close(ends[1]);                             /* the child has its own */
    if (rc != 0) {
        load_die("%s: %s", argv[0], strerror(rc));
    }
    if (output_out) {
        *output_out = ends[0];
    } else {
        (void)close(ends[0]); /* nobody writes to it */
    }
    return pid;
}

/* One line, or what came within 60 s. */
static void read_line(int fd, char *line, size_t size)
{
    size_t used = 0;
    uint64_t until = load_now_ns() + 60000000000u;
    while (used + 1 < size && load_now_ns() < until) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 1000) > 0) {
            ssize_t got = read(fd, line + used, 1);
            if (got <= 0 || line[used] == '\n') {
                break;
            }
            used++;
        }
    }
    line[used] = '\0';
}

/* A port of the loopback that nobody uses now. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        load_die("no free port: %s", strerror(errno));
    }
    (void)close(fd); /* it was never used */
    return ntohs(address.sin_port);
}

void load_daemon_curve(struct load_daemon *daemon, const char *state)
{
    struct gk_err err = {0};
    struct gk_key server;
    struct gk_key_list list = {0};
    load_need(gk_state_dir_make(state, &err), &err);
    load_need(gk_key_server(state, &server, &err), &err);
    load_need(gk_key_make("bench", &daemon->key, &err), &err);
    struct gk_admitted admitted = {.roles = GK_ROLE_WORK, .is_pool = true, .added_ms = 1};
    memcpy(admitted.name, daemon->key.name, sizeof admitted.name);
    memcpy(admitted.public_key, daemon->key.public_key, sizeof admitted.public_key);
    memcpy(daemon->key.server_key, server.public_key, sizeof daemon->key.server_key);
    load_need(gk_key_list_add(&list, &admitted, &err), &err);
    load_need(gk_key_list_save(state, &list, &err), &err);
    gk_key_list_fini(&list);
    gk_key_wipe(&server);
    (void)snprintf(daemon->endpoint, sizeof daemon->endpoint, "tcp://127.0.0.1:%d", free_port());
}

void load_daemon_start(struct load_daemon *daemon, const char *state)
{
    char line[256];
    (void)snprintf(daemon->state, sizeof daemon->state, "%s", state);
    (void)snprintf(daemon->local, sizeof daemon->local, "ipc://%s/" GK_STATE_SOCKET, daemon->state);
    const char *argv[] = {
        GK_BIN_DIR "/gktuned", "--state",     state,   "--listen",
        daemon->local,         "--log-level", "error", daemon->endpoint[0] ? "--listen" : NULL,
        daemon->endpoint,      NULL};
    uint64_t start = load_now_ns();
    daemon->pid = load_spawn(argv, &daemon->output);
    read_line(daemon->output, line, sizeof line);
    daemon->ready_ms = (double)(load_now_ns() - start) / 1e6;
    if (strncmp(line, "ready ", 6) != 0) {
        load_die("gktuned --state %s did not get ready: '%s'", state, line);
    }
}

void load_daemon_stop(struct load_daemon *daemon, int signal)
{
    int status = 0;
    if (daemon->pid > 0) {
        (void)kill(daemon->pid, signal); /* ours */
        if (waitpid(daemon->pid, &status, 0) != daemon->pid) {
            load_die("waitpid: %s", strerror(errno));
        }
        (void)close(daemon->output); /* it was only read */
        if (signal != SIGKILL && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
            load_die("gktuned ended with status %d", status);
        }
        daemon->pid = 0;
    }
}

char *load_run(const char *const *argv, int wanted)
{
    int output = -1, status = 0;
    char piece[4096];
    struct gk_buf text = {0};
    pid_t pid = load_spawn(argv, &output);
    for (ssize_t got; (got = read(output, piece, sizeof piece)) > 0;) {
        gk_buf_add(&text, piece, (size_t)got);
    }
    (void)close(output); /* it was only read */
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != wanted) {
        load_die("%s %s ended with status %d, %d is wanted: %s", argv[0], argv[1],
                 WIFEXITED(status) ? WEXITSTATUS(status) : -1, wanted, gk_buf_text(&text));
    }
    return gk_buf_detach(&text);
}

double load_resident_mb(pid_t pid)
{
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtod(line + 6, NULL);
        }
    }
    if (file) {
        (void)fclose(file); /* it was only read */
    }
    return kb / 1024.0;
}

double load_cpu_s(pid_t pid)
{
    char path[64], text[1024] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file) {
        size_t got = fread(text, 1, sizeof text - 1, file);
        text[got] = '\0';
        (void)fclose(file); /* it was only read */
    }
    char *at = strrchr(text, ')'); /* a name may hold spaces */
    for (int field = 2; at && field < 13; field++) {
        at = strchr(at + 1, ' ');
    }
    char *rest = at;
    double user = at ? strtod(at, &rest) : 0, system = at ? strtod(rest, NULL) : 0;
    return (user + system) / (double)sysconf(_SC_CLK_TCK);
}

void load_folder_make(char folder_out[64])
{
    (void)snprintf(folder_out, 64, "%s/gkload_XXXXXX",
                   getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 40 ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder_out)) {
        load_die("%s: %s", folder_out, strerror(errno));
    }
}

void load_folder_remove(const char *folder)
{
    const char *argv[] = {"/bin/rm", "-rf", folder, NULL};
    free(load_run(argv, 0));
}
