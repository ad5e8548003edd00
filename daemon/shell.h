/*
 * The loop: receives, steps the core, commits, sends. Everything that the core must not know stands
 * here: libuv, the socket, signals, the disk, the log, the service manager.
 */
#ifndef GK_DAEMON_SHELL_H
#define GK_DAEMON_SHELL_H

#include "core/log.h"
#include "core/notify.h"
#include "daemon/own_process.h"
#include "daemon/settings.h"

struct gk_shell_options {
    const char *state_dir; /* exists */
    /* Where to listen: the first one is local and stands in the lock; at least one. */
    const char *const *listen;
    uint32_t listen_count;
    const char *config;           /* read again on SIGHUP; NULL: there is none */
    struct gk_settings *settings; /* what may change at a reload changes here */
    const char *version;
    bool is_private; /* ends when stdin ends; says "ready <endpoint>" on stdout */
    int lock_fd;
    struct gk_log *log; /* its table is GK_EVENT_MAP */
    const struct gk_notify *notify;
    struct gk_own_limits limits;
};

/* Runs until a signal, `stop` or the end of stdin. GK_OK after an orderly end.
 * Signals: TERM and INT end; HUP reads the config again; USR1 switches between debug and the level
 * of the config. */
enum gk_status gk_shell_run(const struct gk_shell_options *options, struct gk_err *err);

#endif
