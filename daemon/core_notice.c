/* What the shell is told of: a ring of notices, and counts for the metrics. */
#include <stdio.h>
#include <string.h>

#include "daemon/core_internal.h"

/* Of one result: a final round of 16 entries takes each batch four times at most. */
#define DROPPED_SAMPLES_MAX 64 /* a worker's number: one that lies moves the count by this much */

struct gk_notice *core_notice(struct gk_core *core, enum gk_event event, const char *format, ...)
{
    struct gk_notice *notice = &core->notice_scratch;
    if (core->notice_count < NOTICES_MAX) {
        notice = &core->notices[(core->notice_head + core->notice_count++) % NOTICES_MAX];
    } else {
        core->counters.notices_lost++;
    }
    *notice = (struct gk_notice){.event = event};
    if (format) {
        va_list ap;
        va_start(ap, format);
        (void)vsnprintf(notice->text, sizeof notice->text, format, ap); /* a longer one is cut */
        va_end(ap);
    }
    return notice;
}

void notice_name(struct gk_notice *notice, const char *name)
{
    (void)snprintf(notice->name, sizeof notice->name, "%s", name); /* a longer one is cut */
}

void notice_peer(struct gk_notice *notice, const struct gk_peer *peer)
{
    memcpy(notice->key, peer->key, sizeof notice->key);
    memcpy(notice->from, peer->host, sizeof notice->from);
}

void notice_lease(struct gk_notice *notice, const struct lease *lease)
{
    notice->job = lease->job->id;
    notice->task = lease->task->id;
    notice->trial = lease->trial;
    notice->worker = lease->worker;
    notice->token = lease->token;
}

bool gk_core_take_notice(struct gk_core *core, struct gk_notice *notice_out)
{
    if (core->notice_count == 0) {
        return false;
    }
    *notice_out = core->notices[core->notice_head];
    core->notice_head = (core->notice_head + 1) % NOTICES_MAX;
    core->notice_count--;
    return true;
}

/* ------------------------------------------------------------------ counts */

/* Results are what a daemon knows of the processes of workers: who was ended, or ended badly. */
void count_child_exit(struct gk_core *core, enum gk_failure failure)
{
    static const struct {
        enum gk_failure failure;
        enum gk_core_child_exit how;
    } exits[] = {{GK_FAILURE_CRASH, GK_CORE_EXECUTOR_CRASH},
                 {GK_FAILURE_TIMEOUT, GK_CORE_EXECUTOR_TIMEOUT},
                 {GK_FAILURE_COMPILE_CRASH, GK_CORE_COMPILER_CRASH},
                 {GK_FAILURE_COMPILE_TIMEOUT, GK_CORE_COMPILER_TIMEOUT},
                 {GK_FAILURE_COMPILE_MEMORY, GK_CORE_COMPILER_MEMORY}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(exits); i++) {
        core->counters.child_exits[exits[i].how] += exits[i].failure == failure;
    }
}

/* One reason a batch, the gravest: a hot GPU has two bits set at once. */
static enum gk_core_throttle throttle_of(int64_t bits)
{
    return bits < 0      ? GK_CORE_THROTTLE_OTHER
           : bits & 0x40 ? GK_CORE_THROTTLE_HW_THERMAL
           : bits & 0x80 ? GK_CORE_THROTTLE_POWER_BRAKE
           : bits & 0x8  ? GK_CORE_THROTTLE_HW_SLOWDOWN
           : bits & 0x20 ? GK_CORE_THROTTLE_SW_THERMAL
                         : GK_CORE_THROTTLE_OTHER;
}

static uint64_t dropped_in(const struct gk_json *environment, const char *member)
{
    int64_t count = gk_json_get_int(environment, member, 0);
    return count < 0 ? 0 : count < DROPPED_SAMPLES_MAX ? (uint64_t)count : DROPPED_SAMPLES_MAX;
}

void count_dropped(struct gk_core *core, const struct gk_json *environment)
{
    int64_t why = gk_json_get_int(environment, "dropped_throttle", -1);
    core->counters.throttled[throttle_of(why)] += dropped_in(environment, "dropped");
    core->counters.shared += dropped_in(environment, "dropped_shared");
}

/* The conditions of a trial came as text and are stored as such; few of them have to be read. */
void count_conditions(struct gk_core *core, const struct gk_buf *environment)
{
    static const char member[] = "\"dropped\":", beside[] = "\"dropped_shared\":";
    struct gk_json *json = NULL;
    const char *text = environment->size > 0 ? gk_buf_text(environment) : "";
    const char *at = strstr(text, member);
    if (((at && at[sizeof member - 1] != '0') || strstr(text, beside)) &&
        gk_json_parse(gk_buf_text(environment), environment->size, "conditions", &json, NULL) ==
            GK_OK) {
        count_dropped(core, json);
    }
    gk_json_free(json);
}

void count_record(struct gk_core *core, const struct gk_record *record)
{
    struct gk_core_counters *counters = &core->counters;
    counters->verdicts[record->failure]++;
    count_child_exit(core, record->failure);
    if (record->compile_ns > 0 && !record->compile_cached) {
        gk_histogram_observe(&counters->compile_s, record->compile_ns / 1e9);
    }
    if (record->verify_ns > 0) {
        gk_histogram_observe(&counters->verify_s, record->verify_ns / 1e9);
    }
    if (record->measure_ns > 0) {
        gk_histogram_observe(&counters->measure_s, record->measure_ns / 1e9);
    }
}

/* Only what the protocol knows as such; a worker's words never become a label. */
void count_refusal(struct gk_core *core, enum gk_status status)
{
    static const enum gk_status known[] = GK_CORE_REFUSALS;
    size_t at = 0;
    while (at + 1 < GK_ARRAY_COUNT(known) && known[at] != status) {
        at++;
    }
    core->counters.refusals[at]++;
}

static void count_devices(const struct gk_core *core, struct gk_core_counters *counters)
{
    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        counters->workers_quiet += session->quiet;
        counters->drained_workers += session->drained;
        for (uint32_t d = 0; d < session->device_count; d++) {
            bool ok = session->devices[d].ok && !session->devices[d].fenced;
            counters->devices_ok += ok;
            counters->devices_fenced += !ok;
        }
    }
}

static enum gk_priority_class class_of(const struct job *job)
{
    return job->priority < 0   ? GK_PRIORITY_LOW
           : job->priority > 0 ? GK_PRIORITY_HIGH
                               : GK_PRIORITY_NORMAL;
}

static void count_jobs(const struct gk_core *core, struct gk_core_counters *counters)
{
    for (uint32_t j = 0; j < core->job_count; j++) {
        const struct job *job = core->jobs[j];
        uint32_t out = 0;
        counters->jobs_submitted += job->state == JOB_SUBMITTED;
        counters->jobs_searching += job->state == JOB_SEARCHING;
        counters->jobs_confirming += job->state == JOB_CONFIRMING;
        counters->jobs_paused += job->state == JOB_PAUSED;
        for (uint32_t t = 0; t < job->task_count; t++) {
            const struct task *task = &job->tasks[t];
            out += task->leases;
            for (uint32_t i = 0; task->search && i < task->search->count; i++) {
                counters->trials_ready += task->search->trials[i].state == TRIAL_PROPOSED;
                counters->trials_leased += task->search->trials[i].state == TRIAL_LEASED;
            }
        }
        if (out == 0 && job_runs(core, job)) {
            double waits_s = (double)(core->now_ns - job->served_ns) / 1e9;
            double *oldest = &counters->oldest_ready_s[class_of(job)];
            *oldest = waits_s > *oldest ? waits_s : *oldest;
        }
    }
}

struct gk_core_counters gk_core_counters(const struct gk_core *core)
{
    struct gk_core_counters counters = core->counters;
    counters.sessions = core->session_count;
    counters.open_jobs = core->job_count;
    counters.held_leases = core->lease_count;
    counters.watchers = core->watcher_count;
    counters.dead_letters = (uint32_t)core->dead_letters;
    counters.fences = core->fence_count;
    counters.draining = core->drain_ms != 0;
    count_devices(core, &counters);
    count_jobs(core, &counters);
    return counters;
}
