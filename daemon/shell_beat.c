/*
 * Twice a second: has the loop been away, how full is the disk, how many descriptors are left; what
 * /healthz, /readyz and /metrics answer, and what the service manager is told. The watchdog is fed
 * here and nowhere else: a loop that stands feeds nobody, nor does one whose disk stands.
 */
#include "daemon/shell_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define STATUS_BEATS 20 /* the numbers in systemctl status are at most ten seconds old */

static uint64_t raw_ns(struct shell *shell)
{
    return shell->clock.monotonic_ns(shell->clock.context);
}

/* ------------------------------------------------------------------ the disk */

static void tell_disk(struct shell *shell, enum gk_event event, const char *text)
{
    struct gk_log *log = shell->options->log;
    if (gk_log_begin(log, event)) {
        gk_log_int(log, "free_bytes", (int64_t)shell->free_bytes);
        gk_log_int(log, "low_bytes", (int64_t)shell->options->settings->disk_low_bytes);
        gk_log_int(log, "resume_bytes", (int64_t)shell->options->settings->disk_resume_bytes);
        gk_log_text(log, "text", text);
        gk_log_end(log);
    }
}

static void change_disk(struct shell *shell, enum gk_core_disk to)
{
    enum gk_core_disk from = shell->disk;
    shell->disk = to;
    if (from == GK_CORE_DISK_FULL) {
        tick_leave_full(shell); /* tells it */
    }
    if (shell->disk == GK_CORE_DISK_LOW && from != GK_CORE_DISK_LOW) {
        tell_disk(shell, GK_EVENT_DISK_LOW,
                  "no new job and no lease until there is more; results are stored");
    } else if (shell->disk == GK_CORE_DISK_OK) {
        tell_disk(shell, GK_EVENT_DISK_OK, "new work is taken again");
    }
}

static void keep_ballast(struct shell *shell, const struct gk_disk_marks *marks)
{
    struct gk_err err = {0};
    bool made = false;
    uint64_t bytes = shell->options->settings->ballast_bytes;
    if (shell->options->is_private || shell->disk != GK_CORE_DISK_OK) {
        return; /* a private daemon lives as long as one command */
    }
    enum gk_status status =
        gk_ballast_keep(shell->options->state_dir, bytes, shell->free_bytes, marks, &made, &err);
    if (made || (status != GK_OK && !shell->ballast_told)) {
        shell->ballast_told = status != GK_OK;
        gk_log_say(shell->options->log, GK_EVENT_BALLAST, "%s",
                   status != GK_OK ? err.text
                   : bytes > 0     ? "made: gktune doctor --free-ballast gives it up"
                                   : "removed: the config says off");
    }
}

/* Whoever clears the state folder, or puts another store there, is not waited for: each result that
 * is acknowledged now would be lost with the next start. */
static void look_at_store(struct shell *shell)
{
    struct gk_err err = {0};
    enum gk_status status = gk_db_in_place(shell->db, &err);
    if (status == GK_IO) { /* where memory was short, the next beat looks */
        tick_store_failed(shell, status, &err);
    }
}

static void look_at_disk(struct shell *shell)
{
    const struct gk_settings *settings = shell->options->settings;
    const struct gk_disk_marks marks = {settings->disk_low_bytes, settings->disk_resume_bytes};
    struct gk_err err = {0};
    if (gk_disk_free(shell->options->state_dir, &shell->free_bytes, &err) != GK_OK) {
        shell->free_bytes = UINT64_MAX; /* a commit will say it if the disk is full */
        if (!shell->free_unknown) {
            gk_log_say(shell->options->log, GK_EVENT_DISK_UNKNOWN, "%s", err.text);
        }
        shell->free_unknown = true;
    }
    enum gk_core_disk next = gk_disk_next(shell->disk, shell->free_bytes, &marks);
    bool waits = shell->disk == GK_CORE_DISK_FULL && shell_now(shell) < shell->full_until_ns;
    if (next != shell->disk && !waits) {
        change_disk(shell, next);
    }
    if (shell->result != GK_OK || !shell->core) {
        return;
    }
    gk_core_set_disk(shell->core, shell->disk, shell->free_bytes, settings->disk_resume_bytes);
    keep_ballast(shell, &marks);
}

/* ------------------------------------------------------------------ descriptors */

/* The link lets nobody in near the limit; here it becomes visible. Back with as many again free, so
 * that it does not flap. */
static void look_at_fds(struct shell *shell)
{
    gk_own_stats(&shell->own);
    uint64_t open = shell->own.open_fds, limit = shell->own.max_fds;
    uint64_t left = limit > open ? limit - open : 0;
    bool low = shell->fds_low ? left < 2 * GK_FDS_RESERVED : left < GK_FDS_RESERVED;
    if (low == shell->fds_low) {
        return;
    }
    shell->fds_low = low;
    if (gk_log_begin(shell->options->log, low ? GK_EVENT_FDS_LOW : GK_EVENT_FDS_OK)) {
        gk_log_int(shell->options->log, "open", (int64_t)open);
        gk_log_int(shell->options->log, "limit", (int64_t)limit);
        gk_log_text(shell->options->log, "text",
                    low ? "nobody new is let in until peers go: raise the limit of descriptors"
                        : "there is room for new peers again");
        gk_log_end(shell->options->log);
    }
}

/* ------------------------------------------------------------------ the page */

static uint64_t file_bytes(const char *path, const char *suffix)
{
    struct stat info;
    char whole[4200];
    int size = snprintf(whole, sizeof whole, "%s%s", path, suffix);
    return size > 0 && (size_t)size < sizeof whole && stat(whole, &info) == 0
               ? (uint64_t)info.st_size
               : 0;
}

static void find_degraded(const struct shell *shell, const struct gk_core_counters *counters,
                          bool degraded_out[GK_DEGRADED_COUNT])
{
    memset(degraded_out, 0, GK_DEGRADED_COUNT * sizeof *degraded_out);
    degraded_out[GK_DEGRADED_DISK_LOW] = shell->disk == GK_CORE_DISK_LOW;
    degraded_out[GK_DEGRADED_DISK_FULL] = shell->disk == GK_CORE_DISK_FULL;
    degraded_out[GK_DEGRADED_DRAINING] = shell->ending || counters->draining;
    degraded_out[GK_DEGRADED_FDS] = shell->fds_low;
}

static void publish(struct shell *shell)
{
    struct gk_core_counters counters = gk_core_counters(shell->core);
    struct gk_metrics metrics = {.version = shell->options->version,
                                 .epoch = shell->epoch,
                                 .core = &counters,
                                 .shell = &shell->stats,
                                 .refusals = &shell->refusals,
                                 .log = gk_log_counters(shell->options->log),
                                 .disk_free_bytes = shell->free_bytes,
                                 .store_bytes = file_bytes(shell->store, ""),
                                 .wal_bytes = file_bytes(shell->store, "-wal"),
                                 .backup_wall_ms = counters.backup_wall_ms};
    struct gk_buf page = {0};
    metrics.own = shell->own;
    find_degraded(shell, &counters, metrics.degraded);
    gk_metrics_render(&metrics, &page);
    if (gk_buf_status(&page, NULL) == GK_OK) {
        gk_http_publish(shell->http, metrics.degraded, gk_buf_detach(&page));
    }
    gk_buf_fini(&page);
}

/* ------------------------------------------------------------------ the service manager */

static void make_status(struct shell *shell, char line[160])
{
    struct gk_core_counters counters = gk_core_counters(shell->core);
    const char *state = shell->disk == GK_CORE_DISK_FULL  ? "DISK FULL, nothing is written: "
                        : shell->disk == GK_CORE_DISK_LOW ? "disk low, no new work: "
                        : shell->fds_low                  ? "descriptors low: "
                        : counters.draining               ? "draining, no new work: "
                                                          : "";
    (void)snprintf(line, 160,
                   "%s%" PRIu32 " workers, %" PRIu32 " open jobs, %" PRIu32 " leases out", state,
                   counters.sessions, counters.open_jobs, counters.held_leases);
}

/* The disk takes more than a moment: the loop turns, and nobody gets an answer. */
static bool sync_stands(const struct shell *shell, uint64_t now)
{
    return shell->syncing && now - shell->synced_from_ns > STALL_NS;
}

static void tell_manager(struct shell *shell)
{
    char line[160];
    uint64_t every = shell->options->notify->watchdog_us * 1000 / 3, now = raw_ns(shell);
    if (every > 0 && now - shell->watchdog_ns >= every && !sync_stands(shell, now)) {
        shell->watchdog_ns = now;
        (void)gk_notify_send(shell->options->notify, "WATCHDOG=1"); /* missing ones end us: right */
    }
    if (shell->options->notify->fd >= 0 && shell->beats % STATUS_BEATS == 0) {
        make_status(shell, line);
        if (strcmp(line, shell->status_line) != 0 &&
            gk_notify_send(shell->options->notify, "STATUS=%s", line)) {
            memcpy(shell->status_line, line, sizeof line);
        }
    }
}

void beat_ready(struct shell *shell)
{
    char line[160];
    make_status(shell, line);
    (void)gk_notify_send(shell->options->notify, "READY=1\nSTATUS=%s",
                         line); /* nobody may listen */
}

/* ------------------------------------------------------------------ the beat */

/* At most GK_REFUSALS_KEPT lines a second, however many knock. */
static void look_at_door(struct shell *shell)
{
    gk_link_refusals(shell->link, &shell->refusals);
    for (uint32_t i = 0; i < shell->refusals.line_count; i++) {
        gk_log_say(shell->options->log, GK_EVENT_AUTH_REFUSED, "%s", shell->refusals.lines[i]);
    }
    if (!gk_link_is_guarded(shell->link)) {
        shell_end(shell, GK_INTERNAL,
                  &(struct gk_err){.status = GK_INTERNAL,
                                   .text = "the authentication handler has ended: nobody could "
                                           "connect any more"});
    }
}

void beat_look(struct shell *shell)
{
    look_at_store(shell);
    if (shell->result != GK_OK || !shell->core) {
        return;
    }
    look_at_disk(shell);
    look_at_fds(shell);
    look_at_door(shell);
    if (shell->result == GK_OK && shell->core && shell->http) {
        publish(shell);
    }
}

void beat_on_timer(uv_timer_t *timer)
{
    struct shell *shell = timer->data;
    shell_turn(shell);
    uint64_t now = raw_ns(shell);
    double late_s = now > shell->beat_due_ns ? (double)(now - shell->beat_due_ns) / 1e9 : 0;
    gk_histogram_observe(&shell->stats.lag_s, late_s);
    shell->beat_due_ns = now + BEAT_MS * UINT64_C(1000000);
    shell->beats++;
    if (!sync_stands(shell, now)) {
        gk_http_alive(shell->http, now);
    }
    tell_manager(shell);
    gk_log_beat(shell->options->log);
    if (shell->beats % 2 == 0) {
        beat_look(shell);
    }
}

void beat_start(struct shell *shell)
{
    shell->beat_due_ns = raw_ns(shell) + BEAT_MS * UINT64_C(1000000);
    gk_http_alive(shell->http, raw_ns(shell));
    /* The handle is valid. */
    (void)uv_timer_start(&shell->beat, beat_on_timer, BEAT_MS, BEAT_MS);
}
