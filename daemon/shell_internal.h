/*
 * Inside of the shell: shell.c start, loop, end; shell_tick.c one tick and what a failing store
 * means; shell_beat.c what is looked at twice a second (disk, descriptors, metrics, watchdog);
 * shell_tell.c lines of the log.
 */
#ifndef GK_DAEMON_SHELL_INTERNAL_H
#define GK_DAEMON_SHELL_INTERNAL_H

#include <uv.h>

#include "core/loop.h"
#include "daemon/blobs.h"
#include "daemon/disk.h"
#include "daemon/gate.h"
#include "daemon/http.h"
#include "daemon/metrics.h"
#include "daemon/shell.h"

#define BEAT_MS 500
/* Away for so long: what peers sent meanwhile was not seen. */
#define STALL_NS UINT64_C(1000000000)

#define SHELL_SIGNALS 4

struct shell {
    const struct gk_shell_options *options;
    uv_loop_t loop;
    uv_timer_t timer, beat;
    uv_signal_t signals[SHELL_SIGNALS];
    uv_pipe_t input;
    bool input_open;
    struct gk_gate gate;
    struct gk_link *link; /* of the gate */
    struct gk_buf body;   /* of the message that came, or that is sent */
    struct gk_loop_link *watch;
    struct gk_db *db;
    struct gk_blobs *blobs;
    struct gk_core *core;
    struct gk_http *http;
    struct gk_clock clock;
    char *store; /* path */
    int64_t epoch;
    uint64_t last_work_ns;
    uint64_t care_after_ns; /* when work beside serving may take its next step */
    /* The core's time is the monotonic clock without stalls: while the loop was away nobody was
     * heard, so nothing may expire of it. */
    uint64_t turned_ns, skipped_ns, beat_due_ns;
    bool wal_dirty, ending;
    /* What is committed is synced by a thread of libuv's pool: see shell_tick.c. */
    uv_work_t sync_work;
    uv_sem_t sync_done; /* posted by the thread */
    struct gk_db_sync sync;
    bool syncing;     /* the thread is at it, or has not come back to the loop */
    bool sync_open;   /* a sync is on its way, or has ended and was not looked at */
    bool unsynced;    /* something was committed that no sync is for */
    uint32_t covered; /* messages that wait for the sync; what is queued behind them does not */
    uint32_t taken;   /* messages since the last tick */
    /* When the first commit that is not synced, and that of the sync on its way, began. */
    uint64_t commit_ns, synced_from_ns;
    /* The disk. */
    enum gk_core_disk disk;
    uint64_t free_bytes; /* UINT64_MAX: not known */
    bool free_unknown, ballast_told;
    uint64_t full_until_ns, full_wait_ns; /* a full disk is tried again no earlier */
    bool fds_low;
    struct gk_own_stats own; /* as of the last look */
    /* What was told to the service manager, and when. */
    char status_line[160];
    uint64_t watchdog_ns;
    uint32_t beats;
    struct gk_shell_stats stats;
    struct gk_link_refusals refusals; /* as last looked at */
    uint64_t notices_lost_told, backup_wall_ms;
    uint64_t rows_before; /* written by the store when the transaction before was over */
    enum gk_status result;
    struct gk_err why;
};

/* ---- shell.c ---- */
uint64_t shell_now(struct shell *shell);  /* the core's time */
uint64_t shell_wall(struct shell *shell); /* ms since 1970 */
void shell_end(struct shell *shell, enum gk_status status, const struct gk_err *why);
/* Every callback begins with this: notices that the loop was away. */
void shell_turn(struct shell *shell);
enum gk_status shell_make_core(struct shell *shell, const struct gk_core_counters *counters,
                               struct gk_err *err);

/* ---- shell_tick.c ---- */
void tick_finish(struct shell *shell); /* step, commit, send, set the clock */
/* At an orderly end: commits, syncs and sends what is queued. */
void tick_last(struct shell *shell);
void tick_store_failed(struct shell *shell, enum gk_status status, const struct gk_err *why);
void tick_on_ready(void *context); /* of the link */
void tick_on_timer(uv_timer_t *timer);
/* The disk has room again: a new core from the store. */
void tick_leave_full(struct shell *shell);

/* ---- shell_beat.c ---- */
void beat_start(struct shell *shell);
void beat_look(struct shell *shell); /* disk, descriptors, the page, the service manager */
void beat_on_timer(uv_timer_t *timer);
void beat_ready(struct shell *shell);

/* ---- shell_tell.c ---- */
void tell_notices(struct shell *shell); /* what the core has queued */
void tell_start(struct shell *shell);
void tell_reload(struct shell *shell); /* SIGHUP */
void tell_level(struct shell *shell);  /* SIGUSR1 */

#endif
