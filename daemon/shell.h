/*
 * The loop: receives, steps the core, commits, sends. Everything that the core must not know stands
 * here: libuv, the socket, signals, the disk's free space.
 */
#ifndef GK_DAEMON_SHELL_H
#define GK_DAEMON_SHELL_H

#include "core/status.h"

struct gk_shell_options {
    const char *state_dir; /* exists */
    const char *endpoint;
    const char *http; /* NULL: off */
    const char *version;
    bool is_private; /* ends when stdin ends; says "ready <endpoint>" on stdout */
    bool may_migrate;
    int lock_fd;
};

/* Runs until a signal, `stop` or the end of stdin. GK_OK after an orderly end. */
enum gk_status gk_shell_run(const struct gk_shell_options *options, struct gk_err *err);

#endif
