/*
 * Control of jobs: cancel, pause, resume, finish, retry. Each takes one job or a list, and a
 * reason; each may be sent again. Of a list all are changed or none: what one of them forbids is
 * said, and nothing has happened. What changes is a line of the audit trail in the same
 * transaction.
 */
#include <stdio.h>

#include "daemon/requests_internal.h"

#define JOBS_MAX 500 /* of one request */

enum gk_status read_reason(const struct request *r, const char **reason_out, struct gk_err *err)
{
    const struct gk_json *reason = gk_json_get(r->body, "reason");
    const char *text = gk_json_string(reason, "");
    if (reason && (!gk_json_is(reason, GK_JSON_STRING) || strlen(text) > REASON_MAX)) {
        return gk_fail(err, GK_INPUT, "reason: a text of at most %d bytes is allowed", REASON_MAX);
    }
    *reason_out = text;
    return GK_OK;
}

/* ------------------------------------------------------------------ what one verb does to one job
 */

struct target {
    int64_t id;
    struct job *job; /* NULL: it has ended */
    enum job_state state;
};

struct verb {
    const char *name;
    /* Whether the job's state allows it; *idle_out: it is so already. */
    enum gk_status (*may)(const struct target *target, bool *idle_out, struct gk_err *err);
    enum gk_status (*apply)(struct gk_core *core, const struct target *target, const char *reason,
                            struct gk_err *err);
};

static enum gk_status has_ended(const struct target *target, const char *verb, const char *advice,
                                struct gk_err *err)
{
    return gk_fail(err, GK_CONFLICT, "%s: job %" PRId64 " has ended (%s)%s", verb, target->id,
                   job_state_name(target->state), advice);
}

/* The event of a change, with its reason; takes it from nobody. */
static enum gk_status say(struct gk_core *core, int64_t job, const char *kind, const char *text,
                          const char *reason, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object();
    (void)((!text || gk_json_set_string(body, "text", text)) &&
           (!*reason || gk_json_set_string(body, "reason", reason))); /* may lack a member */
    return core_event(core, job, kind, body, err);
}

static enum gk_status store_reason(struct gk_core *core, int64_t job, const char *reason,
                                   struct gk_err *err)
{
    struct gk_json *changes = gk_json_new_object();
    bool ok =
        gk_json_set(changes, "reason", *reason ? gk_json_new_string(reason) : gk_json_new_null());
    enum gk_status status = ok ? gk_db_job_update(core->db, job, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    return status;
}

static enum gk_status may_cancel(const struct target *target, bool *idle_out, struct gk_err *err)
{
    *idle_out = target->state == JOB_CANCELLED;
    return target->job || *idle_out ? GK_OK : has_ended(target, "cancel", "", err);
}

static enum gk_status apply_cancel(struct gk_core *core, const struct target *target,
                                   const char *reason, struct gk_err *err)
{
    enum gk_status status = store_reason(core, target->id, reason, err);
    return status == GK_OK ? job_cancel(core, target->job, reason, err) : status;
}

static enum gk_status may_pause(const struct target *target, bool *idle_out, struct gk_err *err)
{
    *idle_out = target->state == JOB_PAUSED;
    return target->job ? GK_OK : has_ended(target, "pause", "", err);
}

static enum gk_status apply_pause(struct gk_core *core, const struct target *target,
                                  const char *reason, struct gk_err *err)
{
    /* Leases that are out go on and are stored. */
    enum gk_status status = job_move(core, target->job, JOB_PAUSED, err);
    target->job->mark_ns = 0;
    if (status == GK_OK) {
        status = store_reason(core, target->id, reason, err);
    }
    return status == GK_OK ? say(core, target->id, "paused", NULL, reason, err) : status;
}

static enum gk_status may_resume(const struct target *target, bool *idle_out, struct gk_err *err)
{
    *idle_out = target->state != JOB_PAUSED;
    return target->job ? GK_OK : has_ended(target, "resume", "", err);
}

static enum gk_status apply_resume(struct gk_core *core, const struct target *target,
                                   const char *reason, struct gk_err *err)
{
    enum gk_status status = job_move(core, target->job, JOB_SEARCHING, err);
    if (status == GK_OK) {
        status = store_reason(core, target->id, "", err); /* why it was paused */
    }
    if (status == GK_OK) {
        status = say(core, target->id, "resumed", NULL, reason, err);
    }
    return status == GK_OK ? job_bind(core, target->job, err) : status;
}

static enum gk_status may_finish(const struct target *target, bool *idle_out, struct gk_err *err)
{
    *idle_out = target->job && target->job->finishing;
    return target->job ? GK_OK : has_ended(target, "finish", "", err);
}

static enum gk_status apply_finish(struct gk_core *core, const struct target *target,
                                   const char *reason, struct gk_err *err)
{
    struct gk_json *changes = gk_json_new_object();
    target->job->finishing = true;
    enum gk_status status = gk_json_set_bool(changes, "finishing", true)
                                ? gk_db_job_update(core->db, target->id, changes, err)
                                : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    return status == GK_OK
               ? say(core, target->id, "note",
                     "finishing: no more asks, final rounds on what is there", reason, err)
               : status;
}

/* ------------------------------------------------------------------ retry */

/* Parked trials of the task get their attempts back; it is read anew, since its search was told
 * that they failed. */
static enum gk_status retry_trials(struct gk_core *core, struct task *task, int64_t *count,
                                   struct gk_err *err)
{
    int64_t trials = 0;
    enum gk_status status = gk_db_unpark(core->db, task->id, &trials, err);
    if (status == GK_OK && trials > 0) {
        status = gk_db_dead_settle_task(core->db, task->id, core->wall_ms, err);
        task_close(core, task);
    }
    *count += trials;
    return status;
}

enum gk_status job_retry(struct gk_core *core, struct job *job, int64_t *count_out,
                         struct gk_err *err)
{
    int64_t count = 0;
    bool searches = false;
    enum gk_status status = GK_OK;
    for (uint32_t t = 0; status == GK_OK && t < job->task_count; t++) {
        struct task *task = &job->tasks[t];
        if (task->state == TASK_SEARCHING && !job->finishing) {
            status = retry_trials(core, task, &count, err);
        } else if (task->state == TASK_FAILED) {
            task->attempt = 0;
            status = job_time_again(core, job, err);
            status = status == GK_OK ? retry_trials(core, task, &count, err) : status;
            status = status == GK_OK ? task_move(core, task, TASK_WAITING, NULL, err) : status;
            count++;
            searches = true;
        }
    }
    if (status == GK_OK && searches && job->state == JOB_CONFIRMING) {
        status = job_move(core, job, JOB_SEARCHING, err);
    }
    if (status == GK_OK) {
        status = gk_db_dead_count(core->db, &core->dead_letters, err);
    }
    *count_out = count;
    return status == GK_OK ? job_bind(core, job, err) : status;
}

enum gk_status job_reopen(struct gk_core *core, int64_t id, struct gk_err *err)
{
    struct gk_json *row = NULL;
    int64_t count = 0;
    enum gk_status status = gk_db_job_get(core->db, id, &row, err);
    if (status == GK_OK) {
        status = job_load(core, row, err);
    }
    gk_json_free(row);
    struct job *job = status == GK_OK ? job_find(core, id) : NULL;
    if (job) {
        status = job_move(core, job, JOB_SUBMITTED, err);
    }
    return status == GK_OK && job ? job_retry(core, job, &count, err) : status;
}

static enum gk_status may_retry(const struct target *target, bool *idle_out, struct gk_err *err)
{
    *idle_out = false;
    return target->job || target->state == JOB_FAILED
               ? GK_OK
               : has_ended(target, "retry",
                           "; only an open or a failed job can be tried again. Submit it anew: "
                           "what is measured is not measured again",
                           err);
}

static enum gk_status apply_retry(struct gk_core *core, const struct target *target,
                                  const char *reason, struct gk_err *err)
{
    int64_t count = 0;
    char text[96];
    enum gk_status status =
        target->job ? job_retry(core, target->job, &count, err) : job_reopen(core, target->id, err);
    if (target->job) {
        (void)snprintf(text, sizeof text, "retry: %" PRId64 " trials and problems again", count);
    } else {
        (void)snprintf(text, sizeof text, "retry: failed problems and parked trials again");
    }
    return status == GK_OK ? say(core, target->id, "note", text, reason, err) : status;
}

/* ------------------------------------------------------------------ the verbs */

static enum gk_status read_target(struct request *r, const struct gk_json *id, const char *verb,
                                  struct target *target, struct gk_err *err)
{
    struct gk_json *row = NULL;
    if (!gk_json_is(id, GK_JSON_INT) || gk_json_int(id, 0) < 1) {
        return gk_fail(err, GK_INPUT, "%s: jobs are whole numbers from 1", verb);
    }
    target->id = gk_json_int(id, 0);
    enum gk_status status = gk_db_job_get(r->core->db, target->id, &row, err);
    if (status == GK_NOT_FOUND) {
        return gk_fail(err, GK_NOT_FOUND, "there is no job %" PRId64, target->id);
    }
    if (status == GK_OK) {
        status = need_own(r, row, verb, err);
    }
    if (status == GK_OK && !job_state_from(gk_json_get_string(row, "state", ""), &target->state)) {
        status = gk_fail(err, GK_CORRUPT, "job %" PRId64 " is in no known state", target->id);
    }
    target->job = job_find(r->core, target->id);
    gk_json_free(row);
    return status;
}

static enum gk_status do_one(struct request *r, const struct verb *verb, struct target *target,
                             const char *reason, bool idle, struct gk_json *list,
                             struct gk_err *err)
{
    char name[40];
    struct gk_json *row = NULL, *item = gk_json_new_object();
    enum gk_status status = idle ? GK_OK : verb->apply(r->core, target, reason, err);
    (void)snprintf(name, sizeof name, "job %" PRId64, target->id);
    if (status == GK_OK) { /* cancel has freed the job */
        status = gk_db_job_get(r->core->db, target->id, &row, err);
    }
    const char *state = gk_json_get_string(row, "state", "");
    if (status == GK_OK) {
        status = core_audit(r->core, r->peer->key, verb->name, name, reason,
                            idle ? "unchanged" : state, err);
    }
    bool ok = gk_json_set_int(item, "job", target->id) &&
              gk_json_set_string(item, "state", state) && gk_json_set_bool(item, "changed", !idle);
    if (status == GK_OK && !(gk_json_push(list, gk_json_copy(item)) && ok)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(row);
    gk_json_free(item);
    return status;
}

/* A refusal of one job is a line of the trail too: somebody tried. */
static enum gk_status refused(struct request *r, const struct verb *verb,
                              const struct target *target, const char *reason,
                              enum gk_status status, struct gk_err *err)
{
    char name[40], outcome[96];
    struct gk_err why = {0};
    if (is_store_failure(status) || target->id == 0 || status == GK_NOT_FOUND) {
        return status;
    }
    (void)snprintf(name, sizeof name, "job %" PRId64, target->id);
    (void)snprintf(outcome, sizeof outcome, "refused: %s", gk_status_name(status));
    enum gk_status told =
        core_audit(r->core, r->peer->key, verb->name, name, reason, outcome, &why);
    return told == GK_OK ? status : gk_fail(err, told, "%s", why.text);
}

static enum gk_status control(struct request *r, const struct verb *verb, struct gk_err *err)
{
    const struct gk_json *ids = gk_json_get(r->body, "jobs");
    const char *reason = "";
    size_t count = ids ? gk_json_count(ids) : 1;
    struct target *targets = calloc(count ? count : 1, sizeof *targets);
    bool *idle = calloc(count ? count : 1, sizeof *idle);
    struct gk_json *list = gk_json_new_array();
    enum gk_status status = targets && idle && list ? read_reason(r, &reason, err)
                                                    : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && (count == 0 || count > JOBS_MAX)) {
        status = gk_fail(err, GK_INPUT, "%s: %zu jobs; allowed are 1 to %d", verb->name, count,
                         JOBS_MAX);
    }
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        status = read_target(r, ids ? gk_json_at(ids, i) : gk_json_get(r->body, "job"), verb->name,
                             &targets[i], err);
        for (size_t k = 0; status == GK_OK && k < i; k++) {
            if (targets[k].id == targets[i].id) {
                status = gk_fail(err, GK_INPUT, "%s: job %" PRId64 " is named twice", verb->name,
                                 targets[i].id);
            }
        }
        if (status == GK_OK) {
            status = verb->may(&targets[i], &idle[i], err);
        }
        if (status != GK_OK) {
            status = refused(r, verb, &targets[i], reason, status, err);
        }
    }
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        status = do_one(r, verb, &targets[i], reason, idle[i], list, err);
    }
    const struct gk_json *first = gk_json_at(list, 0);
    if (status == GK_OK &&
        !(gk_json_set_int(r->reply, "job", gk_json_get_int(first, "job", 0)) &&
          gk_json_set_string(r->reply, "state", gk_json_get_string(first, "state", "")) &&
          gk_json_set(r->reply, "jobs", gk_json_copy(list)))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_json_free(list);
    free(idle);
    free(targets);
    return status;
}

enum gk_status verb_cancel(struct request *r, struct gk_err *err)
{
    static const struct verb verb = {"cancel", may_cancel, apply_cancel};
    return control(r, &verb, err);
}

enum gk_status verb_pause(struct request *r, struct gk_err *err)
{
    static const struct verb verb = {"pause", may_pause, apply_pause};
    return control(r, &verb, err);
}

enum gk_status verb_resume(struct request *r, struct gk_err *err)
{
    static const struct verb verb = {"resume", may_resume, apply_resume};
    return control(r, &verb, err);
}

enum gk_status verb_finish(struct request *r, struct gk_err *err)
{
    static const struct verb verb = {"finish", may_finish, apply_finish};
    return control(r, &verb, err);
}

enum gk_status verb_retry(struct request *r, struct gk_err *err)
{
    static const struct verb verb = {"retry", may_retry, apply_retry};
    return control(r, &verb, err);
}
