/*
 * Programs that gktune starts: gktuned and gktune-worker, found beside its own executable.
 *
 * A child has a pipe on its standard input that nobody writes to: its end tells the child that
 * gktune is gone, also after kill -9. It is in a process group of its own, so that Ctrl-C reaches
 * gktune alone. Its standard error goes to a log file.
 */
#ifndef GK_CLI_PROGRAMS_H
#define GK_CLI_PROGRAMS_H

#include "core/buf.h"
#include "core/status.h"

#include <sys/types.h>

struct gk_child {
    pid_t pid;       /* 0: not running */
    int in_fd;       /* our end of its standard input; -1 */
    int out_fd;      /* our end of its standard output; -1 when it was not asked for */
    int wait_status; /* of waitpid, when it has ended */
    char *log_path;
    long log_start; /* where its part of the log begins */
};

/* argv[0] is the program's name, looked for in exe_dir only. GK_MISSING names the path. */
enum gk_status gk_child_start(const char *exe_dir, const char *const *argv, const char *log_path,
                              bool wants_output, struct gk_child *child_out, struct gk_err *err);
/* True while it runs; reaps it when it does not. */
bool gk_child_alive(struct gk_child *child);
/* Waits up to ms for its end; true if it has ended. */
bool gk_child_ended(struct gk_child *child, int ms);
/* Closes its input, then SIGTERM after grace_ms, SIGKILL after as much again; reaps; frees. */
void gk_child_stop(struct gk_child *child, int grace_ms);
/* How it ended, for people: "exit status 2", "signal 9 (Killed)". */
void gk_child_ending(const struct gk_child *child, char text_out[64]);
/* Last lines that it wrote to its log; "" if none. */
void gk_child_last_words(const struct gk_child *child, struct gk_buf *out);
/* Reads one line from its output, waiting up to timeout_ms. GK_TIMEOUT, GK_CLOSED at its end. */
enum gk_status gk_child_line(struct gk_child *child, int timeout_ms, struct gk_buf *line,
                             struct gk_err *err);
/* Reads its output to the end, however long that takes. GK_PROTOCOL past size_max bytes. */
enum gk_status gk_child_output(struct gk_child *child, size_t size_max, struct gk_buf *output,
                               struct gk_err *err);

#endif
