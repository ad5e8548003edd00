/* States of jobs and tasks, binding to devices, cancelling, ending. */
#include <stdio.h>

#include "daemon/core_internal.h"

static const char *const JOB_NAMES[] = {"submitted", "searching", "confirming", "paused",
                                        "done",      "failed",    "cancelled"};
static const char *const TASK_NAMES[] = {"waiting", "searching", "final",  "spread",
                                         "judged",  "done",      "failed", "cancelled"};

#define TO(state) (1u << (state))
/* Allowed moves: a row a state. Anything else is a bug of ours. */
static const uint32_t JOB_MOVES[] = {
    [JOB_SUBMITTED] = TO(JOB_SEARCHING) | TO(JOB_PAUSED) | TO(JOB_CONFIRMING) | TO(JOB_FAILED) |
                      TO(JOB_CANCELLED),
    [JOB_SEARCHING] =
        TO(JOB_CONFIRMING) | TO(JOB_PAUSED) | TO(JOB_DONE) | TO(JOB_FAILED) | TO(JOB_CANCELLED),
    /* back to searching: a retry of problems that failed while others were confirmed */
    [JOB_CONFIRMING] =
        TO(JOB_SEARCHING) | TO(JOB_DONE) | TO(JOB_FAILED) | TO(JOB_CANCELLED) | TO(JOB_PAUSED),
    [JOB_PAUSED] = TO(JOB_SEARCHING) | TO(JOB_CANCELLED),
    [JOB_DONE] = 0,
    [JOB_FAILED] = TO(JOB_SUBMITTED), /* retry */
    [JOB_CANCELLED] = 0,
};
static const uint32_t TASK_MOVES[] = {
    [TASK_WAITING] = TO(TASK_SEARCHING) | TO(TASK_FAILED) | TO(TASK_CANCELLED),
    /* done at once: the pick of today stands */
    [TASK_SEARCHING] = TO(TASK_FINAL) | TO(TASK_DONE) | TO(TASK_FAILED) | TO(TASK_CANCELLED),
    [TASK_FINAL] = TO(TASK_SPREAD) | TO(TASK_JUDGED) | TO(TASK_FAILED) | TO(TASK_CANCELLED),
    [TASK_SPREAD] = TO(TASK_JUDGED) | TO(TASK_CANCELLED),
    [TASK_JUDGED] = TO(TASK_DONE) | TO(TASK_FAILED) | TO(TASK_CANCELLED),
    [TASK_DONE] = 0,
    [TASK_FAILED] = TO(TASK_WAITING), /* retry */
    [TASK_CANCELLED] = 0,
};

const char *job_state_name(enum job_state state)
{
    return JOB_NAMES[state];
}

bool job_state_from(const char *name, enum job_state *out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(JOB_NAMES); i++) {
        if (strcmp(JOB_NAMES[i], name) == 0) {
            *out = (enum job_state)i;
            return true;
        }
    }
    return false;
}

bool task_state_from(const char *name, enum task_state *out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(TASK_NAMES); i++) {
        if (strcmp(TASK_NAMES[i], name) == 0) {
            *out = (enum task_state)i;
            return true;
        }
    }
    return false;
}

static bool task_ended(const struct task *task)
{
    return task->state >= TASK_JUDGED;
}

enum gk_status job_move(struct gk_core *core, struct job *job, enum job_state to,
                        struct gk_err *err)
{
    GK_ASSERT(JOB_MOVES[job->state] & TO(to));
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set_string(changes, "state", JOB_NAMES[to]) &&
              gk_json_set_int(changes, "done", job->done_count);
    if (to == JOB_DONE || to == JOB_FAILED || to == JOB_CANCELLED) {
        ok = ok && gk_json_set_int(changes, "ended_ms", (int64_t)core->wall_ms);
    } else if (job->state == JOB_FAILED) {
        ok = ok && gk_json_set(changes, "ended_ms", gk_json_new_null());
    }
    enum gk_status status = ok ? gk_db_job_update(core->db, job->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    struct gk_notice *notice =
        core_notice(core, GK_EVENT_JOB_STATE, "%s to %s", JOB_NAMES[job->state], JOB_NAMES[to]);
    notice->job = job->id;
    notice_name(notice, JOB_NAMES[to]);
    if (to == JOB_DONE) {
        *(job->suite ? &core->counters.night_done_ms : &core->counters.job_done_ms) = core->wall_ms;
    }
    core->counters.jobs_done += to == JOB_DONE;
    core->counters.jobs_failed += to == JOB_FAILED;
    core->counters.jobs_cancelled += to == JOB_CANCELLED;
    job->state = to;
    return status;
}

enum gk_status task_move(struct gk_core *core, struct task *task, enum task_state to,
                         const char *reason, struct gk_err *err)
{
    GK_ASSERT(TASK_MOVES[task->state] & TO(to));
    bool was_ended = task_ended(task);
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set_string(changes, "state", TASK_NAMES[to]);
    if (reason) {
        ok = ok && gk_json_set_string(changes, "reason", reason);
    }
    if (task->state == TASK_FAILED) { /* tried again: why it ended is history */
        ok = ok && gk_json_set(changes, "reason", gk_json_new_null()) &&
             gk_json_set(changes, "not_run", gk_json_new_null());
    }
    enum gk_status status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    core->spread_tasks -= task->state == TASK_SPREAD;
    core->spread_tasks += to == TASK_SPREAD;
    if (task->state == TASK_SPREAD) {
        free(task->spread_keys);
        task->spread_keys = NULL;
    }
    task->state = to;
    core->finals_maybe = core->finals_maybe || to == TASK_FINAL;
    task->job->full_tick = 0; /* one search less, perhaps */
    if (task_ended(task) && !was_ended) {
        task->job->done_count++;
        task_close(core, task);
    } else if (was_ended && !task_ended(task)) {
        task->job->done_count--;
    }
    if (to == TASK_FAILED) {
        struct gk_notice *notice = core_notice(core, GK_EVENT_TASK_FAILED, "%s: %s",
                                               reason ? reason : "no reason", task->canonical);
        notice->job = task->job->id;
        notice->task = task->id;
        notice_name(notice, task->arch);
    }
    bool stands = to == TASK_DONE && !was_ended;
    if (status == GK_OK && (to == TASK_JUDGED || to == TASK_FAILED || stands)) {
        struct gk_json *body = gk_json_new_object();
        (void)(gk_json_set_int(body, "task", task->id) &&
               gk_json_set_string(body, "state", TASK_NAMES[to]) &&
               gk_json_set_string(body, "problem", task->canonical) &&
               gk_json_set_string(body, "arch", task->arch) &&
               (!reason ||
                gk_json_set_string(body, "reason", reason))); /* an event may lack a member */
        status = core_event(core, task->job->id, "task_done", body, err);
    }
    return status;
}

/* ------------------------------------------------------------------ list */

struct job *job_find(struct gk_core *core, int64_t id)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i]->id == id) {
            return core->jobs[i];
        }
    }
    return NULL;
}

enum gk_status job_add(struct gk_core *core, struct job *job, struct gk_err *err)
{
    if (core->job_count == core->job_capacity) {
        uint32_t capacity = core->job_capacity ? core->job_capacity * 2 : 16;
        struct job **jobs = realloc(core->jobs, capacity * sizeof *jobs);
        if (!jobs) {
            return gk_fail(err, GK_NOMEM, "out of memory for a job");
        }
        core->jobs = jobs;
        core->job_capacity = capacity;
    }
    core->jobs[core->job_count++] = job;
    job->served_ns = core->now_ns;
    jobs_sort(core);
    return GK_OK;
}

void job_free(struct gk_core *core, struct job *job)
{
    if (!job) {
        return;
    }
    for (uint32_t i = 0; i < job->task_count; i++) {
        struct task *task = &job->tasks[i];
        task_close(core, task);
        free(task->op);
        free(task->canonical);
        free(task->nvrtc);
        free(task->default_config);
        free(task->incumbent);
        free(task->flags);
        gk_json_free(task->props);
        gk_json_free(task->hints);
        gk_json_free(task->round);
        free(task->spread_keys);
    }
    share_leave(core, job);
    free(job->tasks);
    free(job->strategy);
    free(job->policy);
    free(job->bundle);
    free(job->what);
    free(job->suite);
    free(job->slot);
    free(job->night);
    gk_json_free(job->incumbents);
    gk_json_free(job->files);
    free(job->files_text);
    free(job);
}

void job_remove(struct gk_core *core, struct job *job)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        if (core->jobs[i] == job) {
            memmove(&core->jobs[i], &core->jobs[i + 1],
                    (core->job_count - i - 1) * sizeof core->jobs[0]);
            core->job_count--;
            job_free(core, job);
            return;
        }
    }
}

bool job_runs(const struct gk_core *core, const struct job *job)
{
    return (job->state == JOB_SUBMITTED || job->state == JOB_SEARCHING ||
            job->state == JOB_CONFIRMING) &&
           (!core->is_private || job->private_ok);
}

/* ------------------------------------------------------------------ binding */

static enum gk_status bind_task(struct gk_core *core, struct task *task,
                                const struct session *session, uint32_t device, struct gk_err *err)
{
    const struct gk_device_props *props = &session->devices[device].props;
    struct gk_json *changes = gk_json_new_object();
    (void)snprintf(task->gpu, sizeof task->gpu, "%s", props->gpu);
    gk_json_free(task->props);
    free(task->nvrtc);
    task->props = gk_json_copy(session->devices[device].json);
    task->nvrtc = gk_strdup(session->nvrtc);
    bool ok = task->props && task->nvrtc && gk_json_set_string(changes, "gpu", task->gpu) &&
              gk_json_set(changes, "props", gk_json_copy(task->props)) &&
              gk_json_set_string(changes, "nvrtc", task->nvrtc);
    enum gk_status status =
        ok ? gk_db_task_update(core->db, task->id, changes, err)
           : gk_fail(err, GK_NOMEM, "out of memory for task %" PRId64, task->id);
    gk_json_free(changes);
    return status == GK_OK ? task_move(core, task, TASK_SEARCHING, NULL, err) : status;
}

/* The first device of the task's arch (and gpu, where `--arch all` fixed it) that is connected. */
static bool device_for(struct gk_core *core, const struct task *task, struct session **session_out,
                       uint32_t *device_out)
{
    for (uint32_t s = 0; s < core->session_count; s++) {
        for (uint32_t d = 0; d < core->sessions[s]->device_count; d++) {
            const struct gk_device_props *props = &core->sessions[s]->devices[d].props;
            if (strcmp(props->arch, task->arch) == 0 &&
                (!task->gpu[0] || strcmp(props->gpu, task->gpu) == 0)) {
                *session_out = core->sessions[s];
                *device_out = d;
                return true;
            }
        }
    }
    return false;
}

enum gk_status job_bind(struct gk_core *core, struct job *job, struct gk_err *err)
{
    int64_t bound = 0;
    enum gk_status status = GK_OK;
    if (core->session_count == 0 || !job_runs(core, job)) {
        return GK_OK;
    }
    const char *arch = NULL, *gpu = NULL;
    for (uint32_t i = 0; status == GK_OK && i < job->task_count; i++) {
        struct session *session;
        uint32_t device;
        if (job->tasks[i].state == TASK_WAITING &&
            device_for(core, &job->tasks[i], &session, &device)) {
            status = bind_task(core, &job->tasks[i], session, device, err);
            arch = job->tasks[i].arch;
            gpu = job->tasks[i].gpu;
            bound++;
        }
    }
    if (status == GK_OK && bound > 0) {
        struct gk_json *body = gk_json_new_object();
        (void)(gk_json_set_int(body, "tasks", bound) && gk_json_set_string(body, "arch", arch) &&
               gk_json_set_string(body, "gpu", gpu)); /* an event may lack a member */
        status = core_event(core, job->id, "task_bound", body, err);
    }
    if (status == GK_OK && bound > 0 && job->state == JOB_SUBMITTED) {
        status = job_move(core, job, JOB_SEARCHING, err);
    }
    return status;
}

/* ------------------------------------------------------------------ ending */

enum gk_status job_drop_leases(struct gk_core *core, struct job *job, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = core->lease_count; status == GK_OK && i-- > 0;) {
        struct lease *lease = &core->leases[i];
        if (lease->job != job) {
            continue;
        }
        status = gk_db_lease_delete(core->db, lease->token, err);
        lease_cancel(core, lease);
        lease_remove(core, lease);
    }
    return status;
}

enum gk_status job_cancel(struct gk_core *core, struct job *job, const char *reason,
                          struct gk_err *err)
{
    enum gk_status status = job_drop_leases(core, job, err);
    for (uint32_t i = 0; status == GK_OK && i < job->task_count; i++) {
        if (!task_ended(&job->tasks[i]) || job->tasks[i].state == TASK_JUDGED) {
            status = task_move(core, &job->tasks[i], TASK_CANCELLED, "the job was cancelled", err);
        }
    }
    if (status == GK_OK) {
        status = job_move(core, job, JOB_CANCELLED, err);
    }
    if (status == GK_OK) {
        struct gk_json *body = *reason ? gk_json_new_object() : NULL;
        (void)(!body || gk_json_set_string(body, "reason", reason)); /* an event may lack it */
        status = core_event(core, job->id, "cancelled", body, err);
    }
    if (status == GK_OK) {
        job_remove(core, job);
    }
    return status;
}

/* The body of job_done: which tasks have no pick, and why. At most 500 are named. */
static struct gk_json *done_body(struct gk_core *core, const struct job *job, uint32_t picked,
                                 uint32_t *without_out)
{
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array(), *rows = NULL;
    *without_out = 0;
    if (gk_db_tasks_of(core->db, job->id, &rows, NULL) == GK_OK) {
        for (size_t i = 0; i < gk_json_count(rows); i++) {
            const struct gk_json *row = gk_json_at(rows, i);
            if (strcmp(gk_json_get_string(row, "state", ""), "failed") == 0 &&
                ++*without_out <= 500) {
                struct gk_json *item = gk_json_new_object();
                (void)(gk_json_set_int(item, "task", gk_json_get_int(row, "task", 0)) &&
                       gk_json_set_string(item, "problem",
                                          gk_json_get_string(row, "canonical", "")) &&
                       gk_json_set_string(item, "arch", gk_json_get_string(row, "arch", "")) &&
                       gk_json_set_string(
                           item, "reason",
                           gk_json_get_string(row, "reason", "no reason is stored")) &&
                       (!gk_json_get(row, "not_run") ||
                        gk_json_set_string(item, "not_run",
                                           gk_json_get_string(row, "not_run", ""))));
                (void)gk_json_push(list, item); /* an event may lack a member */
            }
        }
    }
    gk_json_free(rows);
    (void)(gk_json_set_int(body, "picks", picked) &&
           gk_json_set_int(body, "without_pick", *without_out) &&
           gk_json_set(body, "failed", list)); /* set() takes the list in any case */
    return body;
}

enum gk_status job_step(struct gk_core *core, struct job *job, struct gk_err *err)
{
    if (!job_runs(core, job)) {
        return GK_OK;
    }
    enum gk_status status = GK_OK;
    if (job->done_count < job->task_count) {
        bool searching = false;
        for (uint32_t i = 0; !searching && i < job->task_count; i++) {
            searching = job->tasks[i].state < TASK_FINAL;
        }
        if (!searching && job->state == JOB_SEARCHING) {
            status = job_move(core, job, JOB_CONFIRMING, err);
        }
        return status;
    }
    uint32_t picked = 0, without = 0;
    status = final_picks(core, job, &picked, err);
    if (status == GK_OK && job->state == JOB_SUBMITTED) {
        status = job_move(core, job, JOB_SEARCHING, err);
    }
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *body = done_body(core, job, picked, &without), *rates = NULL;
    if (rates_json(core, job->id, &rates, NULL) == GK_OK) {
        (void)gk_json_set(body, "rates", rates); /* an event may lack a member */
    }
    enum job_state to = picked > 0 || job->task_count == 0 ? JOB_DONE : JOB_FAILED;
    (void)gk_json_set_string(body, "state", JOB_NAMES[to]); /* an event may lack a member */
    status = job_move(core, job, to, err);
    if (status == GK_OK) {
        status = core_event(core, job->id, "job_done", body, err);
    } else {
        gk_json_free(body);
    }
    if (status == GK_OK) {
        job_remove(core, job);
    }
    return status;
}
