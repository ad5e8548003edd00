/* See metrics.h. */
#include "daemon/metrics.h"

#include <inttypes.h>

#include "core/json.h"

static const char *const degraded_names[] = {"disk_low", "disk_full", "draining", "fds"};
static const char *const store_error_names[] = {"full", "io", "corrupt", "busy", "memory", "other"};
static const char *const class_names[] = {"low", "normal", "high"};
static const char *const throttle_names[] = {"hw_slowdown", "hw_thermal", "power_brake",
                                             "sw_thermal", "other"};
static const char *const exit_names[] = {"executor_crash", "executor_timeout", "compiler_crash",
                                         "compiler_timeout", "compiler_memory"};
_Static_assert(GK_ARRAY_COUNT(throttle_names) == GK_CORE_THROTTLES, "a name each");
_Static_assert(GK_ARRAY_COUNT(exit_names) == GK_CORE_CHILD_EXITS, "a name each");

const char *gk_degraded_name(enum gk_degraded reason)
{
    return degraded_names[reason];
}

static void family(struct gk_buf *out, const char *name, const char *type, const char *help)
{
    gk_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A number as it is: 17 digits only where they are needed. */
static void value(struct gk_buf *out, double number)
{
    char text[32];
    gk_real_text(number, text);
    gk_buf_printf(out, " %s\n", text);
}

static void plain(struct gk_buf *out, const char *name, const char *type, const char *help,
                  double number)
{
    family(out, name, type, help);
    gk_buf_puts(out, name);
    value(out, number);
}

static void labelled(struct gk_buf *out, const char *name, const char *label, const char *is,
                     double number)
{
    gk_buf_printf(out, "%s{%s=\"%s\"}", name, label, is);
    value(out, number);
}

/* label: "" or "phase=\"verify\"". */
static void histogram_over(struct gk_buf *out, const char *name, const char *label,
                           const struct gk_histogram *from, const double *bounds, size_t count)
{
    uint64_t so_far = 0;
    for (size_t i = 0; i <= count; i++) {
        char bound[32] = "+Inf";
        if (i < count) {
            gk_real_text(bounds[i], bound);
        }
        so_far += from->counts[i];
        gk_buf_printf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, label, *label ? "," : "",
                      bound, so_far);
    }
    const char *open = *label ? "{" : "", *close = *label ? "}" : "";
    gk_buf_printf(out, "%s_sum%s%s%s", name, open, label, close);
    value(out, from->sum_s);
    gk_buf_printf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, so_far);
}

static void histogram(struct gk_buf *out, const char *name, const char *label,
                      const struct gk_histogram *from)
{
    size_t count = 0;
    const double *bounds = gk_histogram_bounds(&count);
    histogram_over(out, name, label, from, bounds, count);
}

/* When something last ended well; what never did has no line, since 0 would be 1970. */
static void render_last_done(struct gk_buf *out, const struct gk_core_counters *core)
{
    static const char name[] = "gktune_run_last_success_timestamp_seconds";
    if (core->job_done_ms == 0 && core->night_done_ms == 0) {
        return;
    }
    family(out, name, "gauge", "When the last job ended with all its picks, by kind.");
    if (core->job_done_ms > 0) {
        labelled(out, name, "kind", "job", (double)core->job_done_ms / 1000);
    }
    if (core->night_done_ms > 0) {
        labelled(out, name, "kind", "suite", (double)core->night_done_ms / 1000);
    }
}

static void render_work(struct gk_buf *out, const struct gk_core_counters *core)
{
    family(out, "gktune_jobs", "gauge", "Open jobs by state.");
    labelled(out, "gktune_jobs", "state", "submitted", core->jobs_submitted);
    labelled(out, "gktune_jobs", "state", "searching", core->jobs_searching);
    labelled(out, "gktune_jobs", "state", "confirming", core->jobs_confirming);
    labelled(out, "gktune_jobs", "state", "paused", core->jobs_paused);
    family(out, "gktune_jobs_ended_total", "counter", "Jobs that ended, by state.");
    labelled(out, "gktune_jobs_ended_total", "state", "done", (double)core->jobs_done);
    labelled(out, "gktune_jobs_ended_total", "state", "failed", (double)core->jobs_failed);
    labelled(out, "gktune_jobs_ended_total", "state", "cancelled", (double)core->jobs_cancelled);
    render_last_done(out, core);
    family(out, "gktune_configs", "gauge",
           "Trials of the searches in memory: ready to be leased, or out.");
    labelled(out, "gktune_configs", "state", "ready", (double)core->trials_ready);
    labelled(out, "gktune_configs", "state", "leased", (double)core->trials_leased);
    family(out, "gktune_oldest_ready_seconds", "gauge",
           "How long the job that waits longest has had no lease out, by priority.");
    for (size_t i = 0; i < GK_PRIORITIES; i++) {
        labelled(out, "gktune_oldest_ready_seconds", "class", class_names[i],
                 core->oldest_ready_s[i]);
    }
    plain(out, "gktune_picks_total", "counter", "Picks made.", (double)core->picks);
    plain(out, "gktune_trials_parked_total", "counter",
          "Trials parked because their attempts were used up.", (double)core->parked);
    plain(out, "gktune_deadletter_configs", "gauge",
          "Trials and configs that wait for an operator.", core->dead_letters);
    plain(out, "gktune_watchers", "gauge", "Clients that watch a job.", core->watchers);
}

static void render_leases(struct gk_buf *out, const struct gk_core_counters *core)
{
    plain(out, "gktune_leases_active", "gauge", "Leases that are out.", core->held_leases);
    plain(out, "gktune_leases_granted_total", "counter", "Leases given.", (double)core->leases);
    family(out, "gktune_leases_expired_total", "counter", "Leases whose deadline passed.");
    labelled(out, "gktune_leases_expired_total", "cause", "deadline",
             (double)(core->expired - core->expired_silent));
    labelled(out, "gktune_leases_expired_total", "cause", "worker_gone",
             (double)core->expired_silent);
    family(out, "gktune_results_total", "counter", "Trials recorded, by verdict.");
    for (size_t i = 0; i < GK_CORE_VERDICTS; i++) {
        const char *name = gk_failure_name((enum gk_failure)i);
        labelled(out, "gktune_results_total", "verdict", i == GK_FAILURE_NONE ? "verified" : name,
                 (double)core->verdicts[i]);
    }
    plain(out, "gktune_results_received_total", "counter",
          "RESULT messages, passes of final rounds and repetitions included.",
          (double)core->results);
    plain(out, "gktune_results_duplicate_total", "counter", "Results that were stored before.",
          (double)core->duplicates);
    plain(out, "gktune_results_stale_total", "counter", "Results of leases that were over.",
          (double)core->stale);
    family(out, "gktune_compile_duration_seconds", "histogram",
           "Compiling one config; answers of the cache are not counted.");
    histogram(out, "gktune_compile_duration_seconds", "", &core->compile_s);
    family(out, "gktune_trial_duration_seconds", "histogram", "What a trial took on its device.");
    histogram(out, "gktune_trial_duration_seconds", "phase=\"verify\"", &core->verify_s);
    histogram(out, "gktune_trial_duration_seconds", "phase=\"measure\"", &core->measure_s);
}

static void render_peers(struct gk_buf *out, const struct gk_core_counters *core,
                         const struct gk_shell_stats *shell)
{
    static const enum gk_status refusals[] = GK_CORE_REFUSALS;
    _Static_assert(GK_ARRAY_COUNT(refusals) == GK_CORE_REFUSAL_COUNT, "a count each");
    family(out, "gktune_workers", "gauge", "Connected workers by state.");
    labelled(out, "gktune_workers", "state", "active", core->sessions - core->workers_quiet);
    labelled(out, "gktune_workers", "state", "quiet", core->workers_quiet);
    plain(out, "gktune_workers_drained", "gauge", "Connected workers that an operator empties.",
          core->drained_workers);
    plain(out, "gktune_workers_came_total", "counter", "Sessions that workers began.",
          (double)core->workers_came);
    plain(out, "gktune_workers_lost_total", "counter", "Sessions that ended without BYE.",
          (double)core->workers_lost);
    plain(out, "gktune_workers_rejected_total", "counter", "HELLO that was refused.",
          (double)core->workers_rejected);
    family(out, "gktune_gpus", "gauge", "Devices of connected workers by state.");
    labelled(out, "gktune_gpus", "state", "ok", core->devices_ok);
    labelled(out, "gktune_gpus", "state", "fenced", core->devices_fenced);
    plain(out, "gktune_gpu_fenced_total", "counter", "Devices that were taken out.",
          (double)core->devices_fenced_total);
    family(out, "gktune_gpu_throttled_samples_total", "counter",
           "Samples left out because the clock was throttled, by the gravest reason.");
    for (size_t i = 0; i < GK_CORE_THROTTLES; i++) {
        labelled(out, "gktune_gpu_throttled_samples_total", "reason", throttle_names[i],
                 (double)core->throttled[i]);
    }
    plain(out, "gktune_gpu_shared_samples_total", "counter",
          "Samples left out because another process was on the GPU.", (double)core->shared);
    family(out, "gktune_child_exits_total", "counter",
           "Processes of workers that ended badly or were ended, as results tell of them.");
    for (size_t i = 0; i < GK_CORE_CHILD_EXITS; i++) {
        labelled(out, "gktune_child_exits_total", "how", exit_names[i],
                 (double)core->child_exits[i]);
    }
    plain(out, "gktune_messages_total", "counter", "Messages received.", (double)core->messages);
    plain(out, "gktune_messages_malformed_total", "counter", "Messages that did not decode.",
          (double)core->malformed);
    plain(out, "gktune_messages_dropped_total", "counter",
          "Messages to peers that found the queue full.", (double)core->queue_dropped);
    family(out, "gktune_protocol_errors_total", "counter",
           "Requests and messages that were answered with an error, by code.");
    for (size_t i = 0; i < GK_CORE_REFUSAL_COUNT; i++) {
        const char *name = gk_status_name(refusals[i]);
        labelled(out, "gktune_protocol_errors_total", "code",
                 i + 1 == GK_CORE_REFUSAL_COUNT ? "other" : name, (double)core->refusals[i]);
    }
    family(out, "gktune_zmq_send_failures_total", "counter", "Messages that could not be sent.");
    labelled(out, "gktune_zmq_send_failures_total", "errno", "EAGAIN", (double)shell->send_again);
    labelled(out, "gktune_zmq_send_failures_total", "errno", "EHOSTUNREACH",
             (double)shell->send_closed);
}

static void render_door(struct gk_buf *out, const struct gk_core_counters *core,
                        const struct gk_link_refusals *refusals)
{
    family(out, "gktune_auth_failures_total", "counter",
           "Connections and messages that were refused for their key, by reason.");
    for (int i = 0; i < GK_REFUSAL_COUNT; i++) {
        if (i != GK_REFUSED_CROWDED) {
            labelled(out, "gktune_auth_failures_total", "reason",
                     gk_refusal_name((enum gk_refusal)i), (double)refusals->counts[i]);
        }
    }
    labelled(out, "gktune_auth_failures_total", "reason", "role", (double)core->forbidden);
    plain(out, "gktune_accept_pauses_total", "counter",
          "Times that no connection was accepted for want of descriptors.",
          (double)refusals->counts[GK_REFUSED_CROWDED]);
    plain(out, "gktune_messages_replayed_total", "counter",
          "Messages of workers that came a second time.", (double)core->replayed);
    plain(out, "gktune_message_gaps_total", "counter",
          "Times that messages of a worker were missing; it began a new session.",
          (double)core->gaps);
    plain(out, "gktune_keys_suspended_total", "counter", "Keys that were suspended for errors.",
          (double)core->suspended);
    plain(out, "gktune_results_not_owner_total", "counter",
          "Results for what another worker holds.", (double)core->not_owner);
    plain(out, "gktune_results_conflict_total", "counter",
          "Results that came again with other content.", (double)core->conflicts);
}

static void render_store(struct gk_buf *out, const struct gk_metrics *metrics)
{
    const struct gk_shell_stats *shell = metrics->shell;
    family(out, "gktune_store_commit_duration_seconds", "histogram",
           "A transaction's commit, fsync included.");
    histogram(out, "gktune_store_commit_duration_seconds", "", &shell->commit_s);
    size_t bound_count = 0;
    const double *bounds = gk_histogram_count_bounds(&bound_count);
    family(out, "gktune_store_batch_rows", "histogram", "Rows that one transaction wrote.");
    histogram_over(out, "gktune_store_batch_rows", "", &shell->batch_rows, bounds, bound_count);
    family(out, "gktune_store_errors_total", "counter", "Failures of the store, by code.");
    for (size_t i = 0; i < GK_STORE_ERRORS; i++) {
        labelled(out, "gktune_store_errors_total", "code", store_error_names[i],
                 (double)shell->store_errors[i]);
    }
    plain(out, "gktune_store_damaged_rows_total", "counter",
          "Trials that the scrub found to be not what was stored.", (double)metrics->core->damaged);
    plain(out, "gktune_store_bytes", "gauge", "Size of the store.", (double)metrics->store_bytes);
    plain(out, "gktune_store_wal_bytes", "gauge", "Size of its write-ahead log.",
          (double)metrics->wal_bytes);
    if (metrics->disk_free_bytes != UINT64_MAX) {
        plain(out, "gktune_disk_free_bytes", "gauge", "Free space where the store lies.",
              (double)metrics->disk_free_bytes);
    }
    plain(out, "gktune_backups_total", "counter", "Backups made by this process.",
          (double)metrics->core->backups);
    if (metrics->backup_wall_ms > 0) {
        plain(out, "gktune_backup_last_success_timestamp_seconds", "gauge",
              "When the last backup was made.", (double)metrics->backup_wall_ms / 1000);
    }
}

static void render_service(struct gk_buf *out, const struct gk_metrics *metrics)
{
    const struct gk_shell_stats *shell = metrics->shell;
    bool ready = true;
    family(out, "gktune_build_info", "gauge", "Always 1; the version is the label.");
    labelled(out, "gktune_build_info", "version", metrics->version, 1);
    plain(out, "gktune_daemon_epoch", "gauge", "Grows with each start over this store.",
          (double)metrics->epoch);
    family(out, "gktune_degraded", "gauge", "1: this is why not everything is done.");
    for (size_t i = 0; i < GK_DEGRADED_COUNT; i++) {
        labelled(out, "gktune_degraded", "reason", degraded_names[i], metrics->degraded[i]);
        ready = ready && !metrics->degraded[i];
    }
    plain(out, "gktune_ready", "gauge", "1: /readyz says yes.", ready);
    family(out, "gktune_loop_lag_seconds", "histogram",
           "How late the loop came to its half-second beat.");
    histogram(out, "gktune_loop_lag_seconds", "", &shell->lag_s);
    plain(out, "gktune_loop_stalls_total", "counter", "Times that the loop was away for a second.",
          (double)shell->stalls);
    plain(out, "gktune_loop_busy_seconds_total", "counter", "Time spent in the loop's callbacks.",
          shell->busy_s);
    family(out, "gktune_log_lines_total", "counter", "Lines of the log, by level.");
    for (int i = GK_LOG_ERROR; i <= GK_LOG_DEBUG; i++) {
        labelled(out, "gktune_log_lines_total", "level", gk_log_level_name((enum gk_log_level)i),
                 (double)metrics->log.lines[i]);
    }
    family(out, "gktune_log_dropped_total", "counter", "Lines that are not in the log.");
    labelled(out, "gktune_log_dropped_total", "reason", "rate", (double)metrics->log.suppressed);
    labelled(out, "gktune_log_dropped_total", "reason", "write", (double)metrics->log.lost);
    labelled(out, "gktune_log_dropped_total", "reason", "burst",
             (double)metrics->core->notices_lost);
}

static void render_process(struct gk_buf *out, const struct gk_own_stats *own)
{
    plain(out, "process_cpu_seconds_total", "counter", "User and system time.", own->cpu_s);
    plain(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
          (double)own->resident_bytes);
    plain(out, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
          (double)own->virtual_bytes);
    plain(out, "process_open_fds", "gauge", "Open descriptors.", (double)own->open_fds);
    plain(out, "process_max_fds", "gauge", "Limit of descriptors.", (double)own->max_fds);
    if (own->start_s > 0) {
        plain(out, "process_start_time_seconds", "gauge", "Start, in seconds since 1970.",
              own->start_s);
    }
}

void gk_metrics_render(const struct gk_metrics *metrics, struct gk_buf *out)
{
    render_service(out, metrics);
    render_work(out, metrics->core);
    render_leases(out, metrics->core);
    render_peers(out, metrics->core, metrics->shell);
    render_door(out, metrics->core, metrics->refusals);
    render_store(out, metrics);
    render_process(out, &metrics->own);
}
