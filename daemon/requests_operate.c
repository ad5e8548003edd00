/* The operators' verbs beside those of jobs: drain, workers, dead, audit. */
#include <stdio.h>

#include "daemon/requests_internal.h"

#define LETTERS_MAX 500 /* of one request */

static enum gk_status need_reason(const struct request *r, const char *what,
                                  const char **reason_out, struct gk_err *err)
{
    enum gk_status status = read_reason(r, reason_out, err);
    return status == GK_OK && !**reason_out
               ? gk_fail(err, GK_INPUT, "%s: a reason is needed; whoever finds it so will ask",
                         what)
               : status;
}

/* ------------------------------------------------------------------ drain */

/* The whole daemon: no new jobs, no new leases; what is out ends. */
enum gk_status verb_drain(struct request *r, struct gk_err *err)
{
    struct gk_core *core = r->core;
    bool on = gk_json_get_bool(r->body, "on", true), was = core->drain_ms != 0;
    const char *reason = "";
    enum gk_status status = read_reason(r, &reason, err);
    if (status == GK_OK && on != was) {
        status = gk_db_drain_put(core->db, on, core->wall_ms, reason, err);
    }
    if (status == GK_OK && on != was) {
        core->drain_ms = on ? (int64_t)core->wall_ms : 0;
        core->drain_ms += on && core->drain_ms == 0; /* a clock at 1970 drains too */
        (void)snprintf(core->drain_reason, sizeof core->drain_reason, "%s", on ? reason : "");
        for (uint32_t s = 0; on && s < core->session_count; s++) {
            reservations_drop(core, core->sessions[s]->id, UINT32_MAX);
        }
    }
    if (status == GK_OK) {
        status = core_audit(core, r->peer->key, on ? "drain" : "drain off", "daemon", reason,
                            on == was ? "unchanged"
                            : on      ? "draining"
                                      : "serving",
                            err);
    }
    return status == GK_OK && !(gk_json_set_bool(r->reply, "draining", on) &&
                                gk_json_set_bool(r->reply, "changed", on != was) &&
                                gk_json_set_int(r->reply, "leases", core->lease_count))
               ? gk_fail(err, GK_NOMEM, "out of memory")
               : status;
}

/* ------------------------------------------------------------------ workers */

static struct session *session_of_worker(struct gk_core *core, int64_t worker)
{
    for (uint32_t s = 0; s < core->session_count; s++) {
        if (core->sessions[s]->worker == worker) {
            return core->sessions[s];
        }
    }
    return NULL;
}

static uint32_t leases_of(const struct gk_core *core, int64_t worker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->lease_count; i++) {
        count += core->leases[i].worker == worker;
    }
    return count;
}

static enum gk_status drain_worker(struct request *r, bool on, struct gk_err *err)
{
    struct gk_core *core = r->core;
    struct gk_json *row = NULL;
    const char *reason = "";
    char target[40];
    int64_t worker = 0;
    enum gk_status status = gk_json_need_int(r->body, "worker", 1, INT64_MAX, &worker,
                                             on ? "workers drain" : "workers resume", err);
    if (status == GK_OK) {
        status = read_reason(r, &reason, err);
    }
    if (status == GK_OK) {
        status = gk_db_worker_row(core->db, worker, &row, err);
        status = status == GK_NOT_FOUND
                     ? gk_fail(err, GK_NOT_FOUND, "there is no worker %" PRId64, worker)
                     : status;
    }
    bool was = gk_json_get(row, "drain_ms") != NULL;
    gk_json_free(row);
    if (status == GK_OK && on != was) {
        status = gk_db_worker_drain(core->db, worker, on, core->wall_ms, reason, err);
    }
    (void)snprintf(target, sizeof target, "worker %" PRId64, worker);
    if (status == GK_OK) {
        status = core_audit(core, r->peer->key, on ? "drain" : "resume", target, reason,
                            on == was ? "unchanged"
                            : on      ? "draining"
                                      : "serving",
                            err);
    }
    struct session *session = session_of_worker(core, worker);
    if (status == GK_OK && session) {
        session->drained = on;
        if (on) { /* final rounds that waited for its devices go elsewhere */
            reservations_drop(core, session->id, UINT32_MAX);
        }
    }
    return status == GK_OK && !(gk_json_set_int(r->reply, "worker", worker) &&
                                gk_json_set_bool(r->reply, "draining", on) &&
                                gk_json_set_bool(r->reply, "changed", on != was) &&
                                gk_json_set_int(r->reply, "leases", leases_of(core, worker)))
               ? gk_fail(err, GK_NOMEM, "out of memory")
               : status;
}

/* The key of a device that somebody names: its UUID, or WORKER/DEVICE. */
static enum gk_status named_device(struct gk_core *core, const char *name,
                                   char key_out[DEVICE_KEY_SIZE], struct gk_err *err)
{
    struct gk_json *row = NULL;
    const char *slash = strchr(name, '/');
    char *end = NULL;
    int64_t worker = slash ? strtoll(name, &end, 10) : 0;
    bool numbered = slash && end == slash && worker > 0;
    enum gk_status status = numbered ? gk_db_device_at(core->db, worker, slash + 1, &row, err)
                                     : gk_db_device_by_uuid(core->db, name, &row, err);
    if (status == GK_NOT_FOUND && fence_find(core, name)) {
        status = GK_OK; /* fenced, and its worker pruned or of another store */
    } else if (status == GK_NOT_FOUND) {
        return gk_fail(err, GK_NOT_FOUND,
                       "there is no device '%.80s'; a UUID or WORKER/DEVICE is needed, as `gktune "
                       "workers` shows them",
                       name);
    }
    const char *uuid = gk_json_get_string(row, "uuid", "");
    int size = snprintf(key_out, DEVICE_KEY_SIZE, "%s", uuid[0] ? uuid : name);
    gk_json_free(row);
    if (status == GK_OK && (size < 0 || size >= DEVICE_KEY_SIZE)) {
        status =
            gk_fail(err, GK_INPUT, "a device's name has at most %d bytes", DEVICE_KEY_SIZE - 1);
    }
    return status;
}

static enum gk_status fence_or_lift(struct request *r, bool fences, struct gk_err *err)
{
    const char *name = "", *reason = "";
    char key[DEVICE_KEY_SIZE];
    enum gk_status status = gk_json_need_string(r->body, "device", DEVICE_KEY_SIZE - 1, &name,
                                                fences ? "workers fence" : "workers unfence", err);
    if (status == GK_OK) {
        status = need_reason(r, fences ? "workers fence" : "workers unfence", &reason, err);
    }
    if (status == GK_OK) {
        status = named_device(r->core, name, key, err);
    }
    bool was = status == GK_OK && fence_find(r->core, key);
    if (status == GK_OK) {
        status = fences ? fence_device(r->core, key, "operator", reason, r->peer->key, err)
                        : unfence_device(r->core, key, reason, r->peer->key, err);
    }
    if (status == GK_OK && was && !fences) {
        tell_unfenced(r->core, key, reason);
    }
    return status == GK_OK && !(gk_json_set_string(r->reply, "device", key) &&
                                gk_json_set_bool(r->reply, "fenced", fences) &&
                                gk_json_set_bool(r->reply, "changed", was != fences))
               ? gk_fail(err, GK_NOMEM, "out of memory")
               : status;
}

/* The device of a listing with its key, and its fence if it has one. */
static bool add_fence(const struct gk_core *core, struct gk_json *device, int64_t worker)
{
    char key[DEVICE_KEY_SIZE];
    device_key(worker, gk_json_get_string(device, "device", ""),
               gk_json_get_string(device, "uuid", ""), key);
    const struct fence *fence = fence_find(core, key);
    bool ok = gk_json_set_string(device, "key", key);
    if (fence) {
        struct gk_json *json = gk_json_new_object();
        ok = gk_json_set_string(json, "cause", fence->cause) &&
             gk_json_set_string(json, "origin", fence->origin) &&
             gk_json_set_int(json, "since_ms", fence->since_ms) && ok;
        ok = gk_json_set(device, "fenced", json) && ok;
    }
    return ok;
}

/* What the store does not know of a connected worker, and how far its drain is. */
static bool add_state(struct gk_core *core, struct gk_json *row)
{
    int64_t worker = gk_json_get_int(row, "worker", 0);
    const struct gk_json *devices = gk_json_get(row, "devices");
    const struct session *session = session_of_worker(core, worker);
    bool drains = gk_json_get(row, "drain_ms") != NULL, ok = true;
    for (size_t d = 0; ok && d < gk_json_count(devices); d++) {
        ok = add_fence(core, (struct gk_json *)(uintptr_t)gk_json_at(devices, d), /* ours */
                       worker);
    }
    uint32_t leases = leases_of(core, worker);
    if (ok && !session && strcmp(gk_json_get_string(row, "state", ""), "connected") == 0) {
        /* It was when the daemon before this one ended, and has not come back: whoever believes
         * that it serves its devices waits for ever. */
        ok = gk_json_set_string(row, "state", "lost");
    }
    if (ok && session && (drains || session->quiet)) {
        ok = gk_json_set_string(row, "state",
                                !drains       ? "quiet"
                                : leases == 0 ? "drained"
                                              : "draining");
    }
    return ok;
}

static enum gk_status list_workers(struct request *r, struct gk_err *err)
{
    struct gk_json *page = NULL;
    enum gk_status status = gk_db_list_workers(r->core->db, cursor_of(r), &page, err);
    const struct gk_json *rows = gk_json_get(page, "workers");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        if (!add_state(r->core, (struct gk_json *)(uintptr_t)gk_json_at(rows, i))) { /* ours */
            status = gk_fail(err, GK_NOMEM, "out of memory for workers");
        }
    }
    if (status != GK_OK) {
        gk_json_free(page);
        return status;
    }
    return merge(r, page, status, err);
}

enum gk_status verb_workers(struct request *r, struct gk_err *err)
{
    const char *action = gk_json_get_string(r->body, "action", "list");
    if (strcmp(action, "list") == 0) {
        return list_workers(r, err);
    }
    enum gk_status status = role_need(r->core, r->peer, GK_ROLE_ADMIN, "workers", err);
    if (status != GK_OK) {
        return status;
    }
    if (strcmp(action, "drain") == 0 || strcmp(action, "resume") == 0) {
        return drain_worker(r, action[0] == 'd', err);
    }
    if (strcmp(action, "fence") == 0 || strcmp(action, "unfence") == 0) {
        return fence_or_lift(r, action[0] == 'f', err);
    }
    return gk_fail(err, GK_INPUT,
                   "workers: action '%.40s'; there are list, drain, resume, fence and unfence",
                   action);
}

/* The same config on several GPUs. */
enum gk_status verb_spread(struct request *r, struct gk_err *err)
{
    struct gk_json *page = NULL;
    enum gk_status status = gk_db_list_spreads(r->core->db, gk_json_get_string(r->body, "op", NULL),
                                               cursor_of(r), &page, err);
    return merge(r, page, status, err);
}

/* ------------------------------------------------------------------ dead letters */

/* A parked trial is run again where its problem is still searched, or its failed job can be; else
 * its config is free for the next job that asks for it, as it is anyway. */
static enum gk_status retry_parked(struct gk_core *core, const struct gk_json *letter,
                                   const char **outcome_out, struct gk_err *err)
{
    int64_t id = gk_json_get_int(letter, "job", 0), task_id = gk_json_get_int(letter, "task", 0);
    struct job *job = job_find(core, id);
    struct gk_json *row = NULL;
    *outcome_out = "released";
    for (uint32_t t = 0; job && t < job->task_count; t++) {
        struct task *task = &job->tasks[t];
        if (task->id == task_id && task->state == TASK_SEARCHING && !job->finishing) {
            *outcome_out = "requeued";
            task_close(core, task); /* its search was told that the trial failed */
            return gk_db_unpark_trial(core->db, gk_json_get_int(letter, "trial", 0), err);
        }
    }
    if (job) {
        return GK_OK;
    }
    enum gk_status status = gk_db_job_get(core->db, id, &row, err);
    enum job_state state = JOB_DONE;
    bool failed = status == GK_OK && job_state_from(gk_json_get_string(row, "state", ""), &state) &&
                  state == JOB_FAILED;
    gk_json_free(row);
    if (failed) {
        *outcome_out = "reopened";
        return job_reopen(core, id, err);
    }
    return status == GK_NOT_FOUND ? GK_OK : status;
}

static enum gk_status settle(struct request *r, const struct gk_json *letter, bool retries,
                             const char *reason, struct gk_json *list, struct gk_err *err)
{
    struct gk_core *core = r->core;
    int64_t id = gk_json_get_int(letter, "dead", 0);
    const char *outcome = retries ? "released" : "forgotten";
    char target[48];
    enum gk_status status = GK_OK;
    if (retries && strcmp(gk_json_get_string(letter, "kind", ""), "parked") == 0) {
        status = retry_parked(core, letter, &outcome, err);
    } else if (retries) {
        core->any_pardons = true;
        status = gk_db_pardon(core->db, gk_json_get_string(letter, "config_id", ""),
                              gk_json_get_string(letter, "arch", ""), err);
    }
    if (status == GK_OK) {
        status =
            gk_db_dead_settle(core->db, id, retries ? "retried" : "forgotten", core->wall_ms, err);
    }
    (void)snprintf(target, sizeof target, "letter %" PRId64, id);
    if (status == GK_OK) {
        status = core_audit(core, r->peer->key, retries ? "dead retry" : "dead forget", target,
                            reason, outcome, err);
    }
    struct gk_json *item = gk_json_new_object();
    bool ok = gk_json_set_int(item, "dead", id) && gk_json_set_string(item, "outcome", outcome);
    return (gk_json_push(list, item) && ok) || status != GK_OK
               ? status
               : gk_fail(err, GK_NOMEM, "out of memory");
}

/* One letter, or the next few hundred of all. */
static enum gk_status letters_of(struct request *r, struct gk_json **letters_out, bool *more_out,
                                 struct gk_err *err)
{
    struct gk_json *page = NULL, *row = NULL, *letters = NULL;
    int64_t id = 0;
    *more_out = false;
    if (gk_json_get_bool(r->body, "all", false)) {
        enum gk_status status = gk_db_list_dead(r->core->db, 0, false, &page, err);
        if (status == GK_OK && !(letters = gk_json_copy(gk_json_get(page, "letters")))) {
            status = gk_fail(err, GK_NOMEM, "out of memory for dead letters");
        }
        *more_out = gk_json_get(page, "next") != NULL;
        gk_json_free(page);
        *letters_out = letters;
        return status;
    }
    enum gk_status status = gk_json_need_int(r->body, "dead", 1, INT64_MAX, &id, "dead", err);
    if (status == GK_OK) {
        status = gk_db_dead_get(r->core->db, id, &row, err);
        status = status == GK_NOT_FOUND
                     ? gk_fail(err, GK_NOT_FOUND, "there is no dead letter %" PRId64, id)
                     : status;
    }
    letters = gk_json_new_array();
    if (status == GK_OK && !gk_json_push(letters, row)) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a dead letter");
    }
    *letters_out = letters;
    return status;
}

static enum gk_status settle_letters(struct request *r, bool retries, struct gk_err *err)
{
    const char *reason = "";
    struct gk_json *letters = NULL, *list = gk_json_new_array();
    bool more = false;
    enum gk_status status = read_reason(r, &reason, err);
    if (status == GK_OK) {
        status = letters_of(r, &letters, &more, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(letters) && i < LETTERS_MAX; i++) {
        const struct gk_json *letter = gk_json_at(letters, i);
        const char *state = gk_json_get_string(letter, "state", "");
        /* Settled as is wanted: the same answer again. A forgotten one may still be retried. */
        bool done = strcmp(state, "retried") == 0 || (!retries && strcmp(state, "dead") != 0);
        if (!done) {
            status = settle(r, letter, retries, reason, list, err);
        }
    }
    if (status == GK_OK) {
        status = gk_db_dead_count(r->core->db, &r->core->dead_letters, err);
    }
    bool ok = gk_json_set_bool(r->reply, "more", more);
    ok = gk_json_set(r->reply, "letters", list) && ok;
    gk_json_free(letters);
    return status == GK_OK && !ok ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}

static enum gk_status show_letter(struct request *r, struct gk_err *err)
{
    struct gk_json *row = NULL;
    int64_t id = 0;
    enum gk_status status = gk_json_need_int(r->body, "dead", 1, INT64_MAX, &id, "dead", err);
    if (status == GK_OK) {
        status = gk_db_dead_get(r->core->db, id, &row, err);
    }
    if (status == GK_NOT_FOUND) {
        return gk_fail(err, GK_NOT_FOUND, "there is no dead letter %" PRId64, id);
    }
    if (status == GK_OK && !gk_json_set(r->reply, "letter", row)) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a dead letter");
    }
    return status;
}

enum gk_status verb_dead(struct request *r, struct gk_err *err)
{
    const char *action = gk_json_get_string(r->body, "action", "list");
    struct gk_json *page = NULL;
    if (strcmp(action, "list") == 0) {
        enum gk_status status = gk_db_list_dead(
            r->core->db, cursor_of(r), gk_json_get_bool(r->body, "settled", false), &page, err);
        return merge(r, page, status, err);
    }
    if (strcmp(action, "show") == 0) {
        return show_letter(r, err);
    }
    enum gk_status status = role_need(r->core, r->peer, GK_ROLE_ADMIN, "dead", err);
    if (status != GK_OK) {
        return status;
    }
    if (strcmp(action, "retry") == 0 || strcmp(action, "forget") == 0) {
        return settle_letters(r, action[0] == 'r', err);
    }
    return gk_fail(err, GK_INPUT, "dead: action '%.40s'; there are list, show, retry and forget",
                   action);
}

/* ------------------------------------------------------------------ audit */

enum gk_status verb_audit(struct request *r, struct gk_err *err)
{
    struct gk_json *page = NULL;
    if (!gk_json_get_bool(r->body, "verify", false)) {
        enum gk_status status = gk_db_list_audit(r->core->db, cursor_of(r), &page, err);
        return merge(r, page, status, err);
    }
    struct gk_json *problems = gk_json_new_array();
    int64_t lines = 0;
    enum gk_status status = problems ? gk_db_audit_verify(r->core->db, &lines, problems, err)
                                     : gk_fail(err, GK_NOMEM, "out of memory");
    bool ok = gk_json_set_int(r->reply, "audit_lines", lines) &&
              gk_json_set_bool(r->reply, "ok", gk_json_count(problems) == 0);
    ok = gk_json_set(r->reply, "problems", problems) && ok;
    return status == GK_OK && !ok ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}
