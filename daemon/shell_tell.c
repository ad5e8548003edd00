/* Lines of the log, and what signals change about them. */
#include "daemon/shell_internal.h"

#include <inttypes.h>
#include <unistd.h>

/* What the text and the name of an event are called in its line. */
static const char *name_key(enum gk_event event)
{
    switch (event) {
    case GK_EVENT_WORKER_CAME:
    case GK_EVENT_WORKER_WENT:
    case GK_EVENT_WORKER_LOST:
        return "host";
    case GK_EVENT_DEVICE_FENCED:
    case GK_EVENT_DEVICE_OK:
        return "device";
    case GK_EVENT_LEASE_LOST:
        return "attempt_is";
    case GK_EVENT_TRIAL_KILLED:
        return "failure";
    case GK_EVENT_REQUEST:
    case GK_EVENT_DRAIN:
        return "verb";
    case GK_EVENT_REFUSED:
    case GK_EVENT_MALFORMED:
    case GK_EVENT_WORKER_REJECTED:
        return "what";
    case GK_EVENT_JOB_STATE:
        return "state";
    case GK_EVENT_TASK_FAILED:
        return "arch";
    default:
        return "name";
    }
}

static const char *count_key(enum gk_event event)
{
    switch (event) {
    case GK_EVENT_WORKER_CAME:
        return "devices";
    case GK_EVENT_WORKER_LOST:
    case GK_EVENT_WORKER_WENT:
        return "leases";
    case GK_EVENT_LEASE_LOST:
    case GK_EVENT_TRIAL_PARKED:
        return "attempt";
    default:
        return "count";
    }
}

static void tell(struct gk_log *log, const struct gk_notice *notice)
{
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"job", notice->job},     {"task", notice->task},
                   {"trial", notice->trial}, {"worker", notice->worker},
                   {"token", notice->token}, {count_key(notice->event), notice->count}};
    if (!gk_log_begin(log, notice->event)) {
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers); i++) {
        if (numbers[i].value != 0) { /* what is not known is no field; numbers of things begin at 1
                                      */
            gk_log_int(log, numbers[i].key, numbers[i].value);
        }
    }
    gk_log_text(log, "key", notice->key[0] ? notice->key : NULL);
    gk_log_text(log, "from", notice->from[0] ? notice->from : NULL);
    gk_log_text(log, name_key(notice->event), notice->name[0] ? notice->name : NULL);
    gk_log_text(log, "text", notice->text[0] ? notice->text : NULL);
    gk_log_end(log);
}

void tell_notices(struct shell *shell)
{
    struct gk_notice notice;
    while (gk_core_take_notice(shell->core, &notice)) {
        tell(shell->options->log, &notice);
    }
}

void tell_start(struct shell *shell)
{
    const struct gk_shell_options *options = shell->options;
    struct gk_log *log = options->log;
    for (uint32_t i = 0; gk_link_endpoint_at(shell->link, i); i++) {
        if (gk_log_begin(log, GK_EVENT_LISTENING)) {
            gk_log_text(log, "endpoint", gk_link_endpoint_at(shell->link, i));
            gk_log_end(log);
        }
    }
    if (options->settings->http && gk_log_begin(log, GK_EVENT_LISTENING)) {
        gk_log_text(log, "http", options->settings->http);
        gk_log_end(log);
    }
    if (gk_log_begin(log, GK_EVENT_LIMITS)) {
        gk_log_int(log, "fds", (int64_t)options->limits.fds);
        gk_log_int(log, "fds_before", (int64_t)options->limits.fds_before);
        gk_log_int(log, "fds_reserved", GK_FDS_RESERVED);
        gk_log_text(log, "core_dumps", options->limits.dumps_off ? "off" : "on");
        gk_log_end(log);
    }
    if (gk_log_begin(log, GK_EVENT_READY)) {
        gk_log_int(log, "pid", getpid());
        gk_log_int(log, "epoch", shell->epoch);
        gk_log_int(log, "schema", gk_db_schema(shell->db));
        gk_log_text(log, "version", options->version);
        gk_log_text(log, "state", options->state_dir);
        gk_log_int(log, "jobs_open", gk_core_counters(shell->core).open_jobs);
        gk_log_int(log, "leases_out", gk_core_counters(shell->core).held_leases);
        gk_log_end(log);
    }
}

/* Debug and back: what the config says is what it goes back to. */
void tell_level(struct shell *shell)
{
    struct gk_log *log = shell->options->log;
    enum gk_log_level to =
        gk_log_get_level(log) == GK_LOG_DEBUG ? shell->options->settings->log_level : GK_LOG_DEBUG;
    gk_log_set_level(log, GK_LOG_DEBUG); /* this line is written at any level */
    if (gk_log_begin(log, GK_EVENT_LOG_LEVEL)) {
        gk_log_text(log, "to", gk_log_level_name(to));
        gk_log_end(log);
    }
    gk_log_set_level(log, to);
}

/* The list of admitted keys may have changed: what a revoked one had ends in this tick. */
static void reload_keys(struct shell *shell)
{
    struct gk_err err = {0};
    uint32_t valid = 0;
    if (!shell->gate.has_keys || !shell->core) {
        return;
    }
    enum gk_status status =
        gk_core_reload_keys(shell->core, shell_now(shell), shell_wall(shell), &valid, &err);
    if (status != GK_OK && status != GK_INPUT) {
        tick_store_failed(shell, status, &err);
        return;
    }
    if (gk_log_begin(shell->options->log,
                     status == GK_OK ? GK_EVENT_KEYS_RELOADED : GK_EVENT_CONFIG_REFUSED)) {
        gk_log_int(shell->options->log, "valid", valid);
        gk_log_text(shell->options->log, "text", status == GK_OK ? NULL : err.text);
        gk_log_end(shell->options->log);
    }
    tick_finish(shell);
}

void tell_reload(struct shell *shell)
{
    const struct gk_shell_options *options = shell->options;
    struct gk_buf restart = {0};
    struct gk_err err = {0};
    struct gk_log *log = options->log;
    (void)gk_notify_send(options->notify, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                         shell->clock.monotonic_ns(shell->clock.context) / 1000);
    enum gk_status status =
        options->config ? gk_settings_reload(options->settings, options->config, &restart, &err)
                        : GK_OK;
    if (status != GK_OK) {
        if (gk_log_begin(log, GK_EVENT_CONFIG_REFUSED)) {
            gk_log_text(log, "text", err.text);
            gk_log_text(log, "effect", "what was read before goes on");
            gk_log_end(log);
        }
    } else {
        gk_log_set_level(log, options->settings->log_level);
        if (gk_log_begin(log, GK_EVENT_CONFIG_RELOADED)) {
            gk_log_text(log, "config", options->config);
            gk_log_text(log, "log_level", gk_log_level_name(options->settings->log_level));
            gk_log_text(log, "needs_restart", restart.size ? gk_buf_text(&restart) : NULL);
            gk_log_end(log);
        }
    }
    gk_buf_fini(&restart);
    reload_keys(shell);
    beat_look(shell);
    beat_ready(shell);
}
