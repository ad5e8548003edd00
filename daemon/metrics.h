/*
 * The page that /metrics answers: Prometheus' text format. Labels come from closed sets of ours
 * alone; nothing that a job, a worker or a client named is one. What is not known is left out: a
 * zero would be a value.
 */
#ifndef GK_DAEMON_METRICS_H
#define GK_DAEMON_METRICS_H

#include "core/buf.h"
#include "core/log.h"
#include "daemon/core.h"
#include "daemon/own_process.h"

/* What the shell counts. */
enum gk_store_error {
    GK_STORE_ERROR_FULL,
    GK_STORE_ERROR_IO,
    GK_STORE_ERROR_CORRUPT,
    GK_STORE_ERROR_BUSY,
    GK_STORE_ERROR_MEMORY,
    GK_STORE_ERROR_OTHER,
    GK_STORE_ERRORS
};

enum gk_degraded {
    GK_DEGRADED_DISK_LOW,
    GK_DEGRADED_DISK_FULL,
    GK_DEGRADED_DRAINING,
    GK_DEGRADED_FDS,
    GK_DEGRADED_COUNT
};

/* "disk_low": a label and a reason of /readyz. */
const char *gk_degraded_name(enum gk_degraded reason);

struct gk_shell_stats {
    struct gk_histogram commit_s, lag_s;
    struct gk_histogram batch_rows; /* of each commit; counts, no times */
    uint64_t commits, store_errors[GK_STORE_ERRORS];
    uint64_t send_again, send_closed; /* a peer's queue is full; it is gone */
    uint64_t stalls, turns;
    double busy_s;
};

struct gk_metrics {
    const char *version;
    int64_t epoch;
    const struct gk_core_counters *core;
    const struct gk_shell_stats *shell;
    const struct gk_link_refusals *refusals;
    struct gk_log_counters log;
    struct gk_own_stats own;
    bool degraded[GK_DEGRADED_COUNT];
    uint64_t disk_free_bytes; /* UINT64_MAX: not known */
    uint64_t store_bytes, wal_bytes;
    uint64_t backup_wall_ms; /* of the last backup; 0: none is known of */
};

void gk_metrics_render(const struct gk_metrics *metrics, struct gk_buf *out);

#endif
