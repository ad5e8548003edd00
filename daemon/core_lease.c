/* Leases: granted against credit, fairly over tasks; ended by a result, a loss or a deadline. */
#include <stdio.h>

#include "daemon/core_internal.h"

struct lease *lease_find(struct gk_core *core, int64_t token)
{
    for (uint32_t i = 0; i < core->lease_count; i++) {
        if (core->leases[i].token == token) {
            return &core->leases[i];
        }
    }
    return NULL;
}

struct lease *lease_add(struct gk_core *core, const struct lease *lease, struct gk_err *err)
{
    if (core->lease_count == core->lease_capacity) {
        uint32_t capacity = core->lease_capacity ? core->lease_capacity * 2 : 64;
        struct lease *leases = realloc(core->leases, capacity * sizeof *leases);
        if (!leases) {
            (void)gk_fail(err, GK_NOMEM, "out of memory for a lease");
            return NULL;
        }
        core->leases = leases;
        core->lease_capacity = capacity;
    }
    core->leases[core->lease_count] = *lease;
    lease->task->leases++;
    return &core->leases[core->lease_count++];
}

void lease_remove(struct gk_core *core, struct lease *lease)
{
    struct session *session = session_find(core, lease->session);
    if (session && lease->device < session->device_count) {
        session->devices[lease->device].leases -= session->devices[lease->device].leases > 0;
        session->devices[lease->device].in_final =
            session->devices[lease->device].in_final && !lease->is_final;
    }
    lease->task->leases--;
    *lease = core->leases[--core->lease_count];
}

/* ------------------------------------------------------------------ losses */

static enum gk_status park(struct gk_core *core, struct task *task, struct trial *trial,
                           const char *why, struct gk_err *err)
{
    struct gk_record record;
    gk_record_init(&record);
    gk_record_fail(&record, GK_STAGE_RUN, GK_FAILURE_INFRA,
                   "parked after %d attempts; the last one: %s", ATTEMPTS_MAX, why);
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    enum gk_status status = json ? trial_recorded(core, task, trial, 0, "parked", json, 0, err)
                                 : gk_fail(err, GK_NOMEM, "out of memory for a record");
    gk_json_free(json);
    core->counters.parked++;
    struct gk_notice *notice = core_notice(core, GK_EVENT_TRIAL_PARKED, "%s", why);
    notice->job = task->job->id;
    notice->task = task->id;
    notice->trial = trial->id;
    notice->count = ATTEMPTS_MAX;
    return status;
}

static enum gk_status trial_again(struct gk_core *core, struct task *task, struct trial *trial,
                                  bool counts, const char *why, struct gk_err *err)
{
    trial->attempt += counts;
    trial->token = 0;
    trial->state = TRIAL_PROPOSED;
    if (trial->attempt >= ATTEMPTS_MAX) {
        return park(core, task, trial, why, err);
    }
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set_string(changes, "state", "proposed") &&
              gk_json_set_int(changes, "attempt", trial->attempt);
    enum gk_status status = ok ? gk_db_trial_update(core->db, trial->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    return status;
}

enum gk_status lease_lost(struct gk_core *core, struct lease *lease, bool counts, const char *why,
                          struct gk_err *err)
{
    struct lease gone = *lease;
    struct gk_notice *notice = core_notice(core, GK_EVENT_LEASE_LOST, "%s", why);
    notice_lease(notice, lease);
    notice_name(notice, counts ? "counts" : "free");
    notice->count = gone.attempt + 1;
    gone.job->served_ns = core->now_ns;
    enum gk_status status = gk_db_lease_delete(core->db, gone.token, err);
    lease_remove(core, lease);
    if (status != GK_OK) {
        return status;
    }
    if (gone.is_final) {
        /* The round starts anew: passes of two leases are never paired. */
        gone.task->attempt += counts;
        gone.task->reserved_session = 0;
        struct gk_json *changes = gk_json_new_object();
        status = gk_json_set_int(changes, "attempt", gone.task->attempt)
                     ? gk_db_task_update(core->db, gone.task->id, changes, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(changes);
        if (status == GK_OK && gone.task->attempt >= ATTEMPTS_MAX) {
            char reason[256];
            (void)snprintf(reason, sizeof reason,
                           "the final round was lost %d times; the last time: %.150s", ATTEMPTS_MAX,
                           why);
            status = task_move(core, gone.task, TASK_FAILED, reason, err);
        }
        return status;
    }
    status = task_open(core, gone.task, err);
    struct trial *trial =
        status == GK_OK && gone.task->search ? task_trial(gone.task, gone.trial) : NULL;
    /* A task that was opened just now reads a lease that is gone as proposed: its token tells. */
    return trial && trial->state <= TRIAL_LEASED && trial->token == gone.token
               ? trial_again(core, gone.task, trial, counts, why, err)
               : status;
}

static struct gk_json *tokens_body(int64_t token)
{
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    bool ok = gk_json_push(tokens, gk_json_new_int(token));
    if (!gk_json_set(body, "tokens", tokens) || !ok) {
        gk_json_free(body);
        return NULL;
    }
    return body;
}

enum gk_status leases_step(struct gk_core *core, struct gk_err *err)
{
    for (uint32_t i = core->lease_count; i-- > 0;) {
        struct lease *lease = &core->leases[i];
        if (i >= core->lease_count || lease->deadline_ns > core->now_ns) {
            continue;
        }
        struct session *session = session_find(core, lease->session);
        if (session) {
            core_send_session(core, session, GK_MSG_CANCEL, 0, tokens_body(lease->token));
        }
        core->counters.expired++;
        core->counters.expired_silent += !session;
        enum gk_status status =
            lease_lost(core, lease, lease->started,
                       session ? "its deadline passed" : "its worker is gone", err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ granting */

static bool set_common(struct gk_json *lease, const struct task *task, int64_t token,
                       int64_t attempt, const char *kind, uint32_t device, bool modelled)
{
    struct gk_json *bundle = gk_json_new_object();
    bool ok = gk_json_set(bundle, "files", gk_json_copy(task->job->files)) &&
              gk_json_set_string(bundle, "id", task->job->bundle);
    return gk_json_set(lease, "bundle", bundle) && ok && gk_json_set_int(lease, "token", token) &&
           gk_json_set_int(lease, "attempt", attempt) && gk_json_set_string(lease, "kind", kind) &&
           gk_json_set_int(lease, "device", device) &&
           gk_json_set_int(lease, "job", task->job->id) &&
           gk_json_set_int(lease, "task", task->id) && gk_json_set_string(lease, "op", task->op) &&
           gk_json_set_string(lease, "problem", task->canonical) &&
           gk_json_set_string(lease, "policy", task->job->policy) &&
           gk_json_set_int(lease, "compile_s", COMPILE_S) &&
           gk_json_set_int(lease, "run_s", modelled ? RUN_MODELLED_S : RUN_S);
}

/* Of a budget in seconds a fifth is kept back for the final round. */
static int64_t final_budget_s(const struct job *job)
{
    int64_t kept = (int64_t)(job->budget_ns * 0.2 / 1e9);
    return job->budget_ns <= 0        ? FINAL_BUDGET_S
           : kept < FINAL_SECONDS_MIN ? FINAL_SECONDS_MIN
           : kept > FINAL_BUDGET_S    ? FINAL_BUDGET_S
                                      : kept;
}

static enum gk_status store_lease(struct gk_core *core, const struct lease *lease,
                                  struct gk_err *err)
{
    struct gk_json *row = gk_json_new_object();
    bool ok = gk_json_set_int(row, "token", lease->token) &&
              gk_json_set_string(row, "kind", lease->is_final ? "final" : "trial") &&
              gk_json_set_int(row, "job", lease->job->id) &&
              gk_json_set_int(row, "task", lease->task->id) &&
              (lease->is_final || gk_json_set_int(row, "trial", lease->trial)) &&
              gk_json_set_int(row, "worker", lease->worker) &&
              gk_json_set_int(row, "device", lease->device) &&
              gk_json_set_int(row, "attempt", lease->attempt) &&
              gk_json_set_int(row, "epoch", core->epoch) &&
              gk_json_set_bool(row, "started", false) &&
              gk_json_set_int(row, "granted_ms", (int64_t)core->wall_ms);
    enum gk_status status =
        ok ? gk_db_lease_insert(core->db, row, err) : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(row);
    return status;
}

/* Stores and books a lease; *body_out is what the LEASE message says of it. */
static enum gk_status grant(struct gk_core *core, struct session *session, uint32_t device,
                            struct task *task, struct trial *trial, struct gk_json **body_out,
                            struct gk_err *err)
{
    struct lease lease = {.is_final = !trial,
                          .trial = trial ? trial->id : 0,
                          .attempt = trial ? trial->attempt : task->attempt,
                          .worker = session->worker,
                          .job = task->job,
                          .task = task,
                          .session = session->id,
                          .device = device,
                          .deadline_ns = UINT64_MAX};
    bool modelled = session->devices[device].props.modelled;
    enum gk_status status = gk_db_take_tokens(core->db, 1, &lease.token, err);
    if (status == GK_OK) {
        status = store_lease(core, &lease, err);
    }
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *body = gk_json_new_object();
    bool ok = set_common(body, task, lease.token, lease.attempt, trial ? "trial" : "final", device,
                         modelled);
    if (trial) {
        struct gk_json *changes = gk_json_new_object();
        ok = ok && gk_json_set_int(body, "trial", trial->id) &&
             gk_json_set_string(body, "template", trial->template_name) &&
             gk_json_set_string(body, "config", trial->config) &&
             gk_json_set_string(body, "config_id", trial->config_id) &&
             gk_json_set_int(body, "input_set", trial->seq % 4) &&
             (task->search->best_ns <= 0 ||
              gk_json_set_real(body, "best_ns", task->search->best_ns)) &&
             gk_json_set_string(changes, "state", "leased") &&
             gk_json_set_int(changes, "token", lease.token) &&
             gk_json_set_int(changes, "worker", session->worker) &&
             gk_json_set_int(changes, "leased_ms", (int64_t)core->wall_ms);
        status = ok ? gk_db_trial_update(core->db, trial->id, changes, err) : GK_OK;
        gk_json_free(changes);
        trial->state = TRIAL_LEASED;
        trial->token = lease.token;
    } else {
        ok = ok && gk_json_set(body, "configs", final_lease_configs(task)) &&
             gk_json_set_int(body, "seed", task->job->seed) &&
             gk_json_set_int(body, "passes_max", modelled ? PASSES_MODELLED : PASSES_REAL) &&
             gk_json_set_int(body, "budget_s", final_budget_s(task->job));
    }
    if (status == GK_OK && (!ok || !lease_add(core, &lease, err))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a lease");
    }
    if (status != GK_OK) {
        gk_json_free(body);
        return status;
    }
    session->devices[device].leases++;
    session->devices[device].in_final |= !trial;
    task->job->served_ns = core->now_ns;
    rates_granted(core, task->job, session->worker, device);
    core->counters.leases++;
    *body_out = body;
    return GK_OK;
}

bool device_fits(const struct session *session, uint32_t device, const struct task *task)
{
    const struct gk_device_props *props = &session->devices[device].props;
    return strcmp(props->arch, task->arch) == 0 && strcmp(props->gpu, task->gpu) == 0 &&
           (!task->nvrtc || strcmp(task->nvrtc, session->nvrtc) == 0);
}

/* A task whose final round this device should take: the one it is being emptied for, or one that
 * nobody has. */
static struct task *final_for(struct gk_core *core, struct session *session, uint32_t device)
{
    struct task *found = NULL;
    for (uint32_t j = 0; j < core->job_count; j++) {
        struct job *job = core->jobs[j];
        for (uint32_t t = 0; job_runs(core, job) && t < job->task_count; t++) {
            struct task *task = &job->tasks[t];
            if (task->state != TASK_FINAL || task->leases > 0 ||
                !device_fits(session, device, task)) {
                continue;
            }
            if (task->reserved_session == session->id && task->reserved_device == device) {
                return task;
            }
            found = found || task->reserved_session ? found : task;
        }
    }
    return found;
}

static uint32_t devices_for(const struct gk_core *core, const struct task *task)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        for (uint32_t d = 0; d < session->device_count; d++) {
            count += session->devices[d].ok && device_fits(session, d, task);
        }
    }
    return count;
}

/* May this problem be searched too? Those of its job that run on the same devices count, but for
 * those that wait for their final round or are in it. */
static bool may_open(const struct gk_core *core, const struct job *job, const struct task *task)
{
    uint32_t searches = 0;
    for (uint32_t t = 0; t < job->task_count; t++) {
        const struct task *other = &job->tasks[t];
        searches += other->search && other->state == TASK_SEARCHING &&
                    strcmp(other->arch, task->arch) == 0 && strcmp(other->gpu, task->gpu) == 0;
    }
    return core->open_tasks < OPEN_TASKS_MAX &&
           searches < SEARCHES_A_DEVICE * devices_for(core, task);
}

/* The next trial of the tasks that this device serves: jobs by priority, tasks of a job in turn. */
static enum gk_status next_trial(struct gk_core *core, struct session *session, uint32_t device,
                                 struct task **task_out, struct trial **trial_out,
                                 struct gk_err *err)
{
    *trial_out = NULL;
    for (uint32_t j = 0; j < core->job_count; j++) {
        struct job *job = core->jobs[j];
        for (uint32_t n = 0; job_runs(core, job) && n < job->task_count; n++) {
            struct task *task = &job->tasks[(job->cursor + n) % job->task_count];
            if (task->state != TASK_SEARCHING || !device_fits(session, device, task) ||
                (!task->search && !may_open(core, job, task))) {
                continue;
            }
            if (!task->search) {
                enum gk_status status = task_step(core, task, err);
                if (status != GK_OK) {
                    return status;
                }
            }
            struct trial *trial = task->search ? task_proposed(task) : NULL;
            if (trial) {
                job->cursor = (uint32_t)(task - job->tasks + 1) % job->task_count;
                *task_out = task;
                *trial_out = trial;
                return GK_OK;
            }
        }
    }
    return GK_OK;
}

static void send_leases(struct gk_core *core, struct session *session, struct gk_json **list)
{
    if (gk_json_count(*list) > 0) {
        struct gk_json *body = gk_json_new_object();
        if (gk_json_set(body, "leases", *list)) {
            core_send_session(core, session, GK_MSG_LEASE, 0, body);
        } else {
            gk_json_free(body);
        }
    } else {
        gk_json_free(*list);
    }
    *list = gk_json_new_array();
}

static enum gk_status grant_device(struct gk_core *core, struct session *session, uint32_t device,
                                   struct gk_err *err)
{
    struct gk_json *list = gk_json_new_array();
    enum gk_status status = GK_OK;
    while (status == GK_OK && session->devices[device].credit > 0 &&
           !session->devices[device].in_final) {
        struct gk_json *body = NULL;
        struct trial *trial = NULL;
        struct task *task = final_for(core, session, device);
        if (task) {
            task->reserved_session = session->id;
            task->reserved_device = device;
            if (session->devices[device].leases > 0) {
                break; /* it is being emptied: a final round has its device alone */
            }
        } else {
            status = next_trial(core, session, device, &task, &trial, err);
            if (status == GK_OK && !trial && final_for(core, session, device)) {
                continue; /* stepping the tasks brought one to its final round */
            }
            if (status != GK_OK || !trial) {
                break;
            }
        }
        status = grant(core, session, device, task, trial, &body, err);
        if (status == GK_OK) {
            session->devices[device].credit--;
            if (!gk_json_push(list, body)) {
                status = gk_fail(err, GK_NOMEM, "out of memory for leases");
            }
        }
        if (status == GK_OK && !trial) {
            struct gk_json *event = gk_json_new_object();
            (void)(gk_json_set_int(event, "task", task->id) && /* an event may lack a member */
                   gk_json_set_int(event, "configs", (int64_t)gk_json_count(task->round)));
            status = core_event(core, task->job->id, "final_started", event, err);
        }
        if (gk_json_count(list) >= LEASES_A_MESSAGE || gk_json_count(task->job->files) > 64) {
            send_leases(core, session, &list);
        }
    }
    if (status == GK_OK) {
        send_leases(core, session, &list);
    }
    gk_json_free(list);
    return status;
}

enum gk_status leases_grant(struct gk_core *core, struct gk_err *err)
{
    if (core->disk != GK_CORE_DISK_OK) {
        return GK_OK; /* what is out may still be stored; nothing more goes out */
    }
    for (uint32_t i = 0; i < core->session_count; i++) {
        struct session *session = core->sessions[i];
        for (uint32_t d = 0; !session->quiet && d < session->device_count; d++) {
            if (session->devices[d].ok) {
                enum gk_status status = grant_device(core, session, d, err);
                if (status != GK_OK) {
                    return status;
                }
            }
        }
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ results */

struct gk_json *ack_body(int64_t token, int64_t pass, const char *status)
{
    struct gk_json *body = gk_json_new_object(), *results = gk_json_new_array(),
                   *item = gk_json_new_object();
    bool ok = gk_json_set_int(item, "token", token) && gk_json_set_string(item, "status", status) &&
              (pass <= 0 || gk_json_set_int(item, "pass", pass));
    ok = gk_json_push(results, item) && ok;
    ok = gk_json_set(body, "results", results) && ok;
    if (!ok) {
        gk_json_free(body);
        return NULL;
    }
    return body;
}

static enum gk_status late_result(struct gk_core *core, struct session *session, int64_t token,
                                  int64_t pass, struct gk_err *err)
{
    enum gk_status status = gk_db_token_recorded(core->db, token, pass, NULL);
    if (is_store_failure(status)) {
        return gk_fail(err, status, "token %" PRId64, token);
    }
    bool duplicate = status == GK_OK;
    core->counters.duplicates += duplicate;
    core->counters.stale += !duplicate;
    struct gk_notice *notice =
        core_notice(core, duplicate ? GK_EVENT_RESULT_DUPLICATE : GK_EVENT_RESULT_STALE,
                    duplicate ? NULL : "its lease is over or another worker's: it changes nothing");
    notice->worker = session->worker;
    notice->token = token;
    struct gk_json *body = ack_body(token, pass, duplicate ? "duplicate" : "stale");
    if (body && pass > 0) {
        (void)gk_json_set_bool(body, "go_on", false); /* the worker treats a missing one as false */
    }
    core_send_session(core, session, GK_MSG_ACK, (uint64_t)token, body);
    return GK_OK;
}

enum gk_status lease_result(struct gk_core *core, struct session *session,
                            const struct gk_message *message, struct gk_err *err)
{
    int64_t token = (int64_t)message->token, pass = gk_json_get_int(message->body, "pass", 0);
    struct lease *lease = lease_find(core, token);
    core->counters.results++;
    if (!lease || lease->session != session->id) {
        return late_result(core, session, token, pass, err);
    }
    if (lease->is_final) {
        return final_pass(core, session, lease, message, err);
    }
    struct gk_err why = {0};
    struct gk_record record;
    const struct gk_json *json = gk_json_get(message->body, "record");
    enum gk_status status = gk_record_from_json(json, &record, &why);
    if (status != GK_OK) {
        /* Kept for ever by the worker unless it is acknowledged; the lease has failed. */
        core->counters.malformed++;
        core_error(core, &session->peer, message->seq, message->token, GK_PROTOCOL, "RESULT: %s",
                   why.text);
        core_send_session(core, session, GK_MSG_ACK, message->token, ack_body(token, 0, "dropped"));
        return lease_lost(core, lease, true, "its record was malformed", err);
    }
    bool infra = record.failure == GK_FAILURE_INFRA;
    count_record(core, &record);
    if (record.failure == GK_FAILURE_CRASH || record.failure == GK_FAILURE_TIMEOUT ||
        record.failure == GK_FAILURE_COMPILE_CRASH) {
        struct gk_notice *notice =
            core_notice(core, GK_EVENT_TRIAL_KILLED, "%s", record.message ? record.message : "");
        notice_lease(notice, lease);
        notice_name(notice, gk_failure_name(record.failure));
    }
    gk_record_fini(&record);
    if (infra) {
        core_send_session(core, session, GK_MSG_ACK, message->token, ack_body(token, 0, "stored"));
        return lease_lost(core, lease, true,
                          gk_json_get_string(json, "message", "the worker's infrastructure failed"),
                          err);
    }
    struct task *task = lease->task;
    int64_t id = lease->trial;
    lease->job->served_ns = core->now_ns;
    status = rates_clock(core, lease, -1, err);
    lease_remove(core, lease);
    if (status == GK_OK) {
        status = task_open(core, task, err);
    }
    struct trial *trial = status == GK_OK && task->search ? task_trial(task, id) : NULL;
    if (trial) {
        status = trial_recorded(core, task, trial, token, "recorded", json, 0, err);
    } else if (status == GK_OK) { /* nobody asks for it any more, and nothing was stored */
        status = gk_db_lease_delete(core->db, token, err);
        core->counters.stale++;
    }
    if (status == GK_OK) {
        core_send_session(core, session, GK_MSG_ACK, message->token,
                          ack_body(token, 0, trial ? "stored" : "stale"));
    }
    return status;
}
