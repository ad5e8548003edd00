/*
 * The spread: the best config of a problem measured once more on each GPU of its key.
 *
 * A final round compares configs on one GPU, where what makes that GPU fast or slow cancels. How
 * far GPUs of one key stand apart is another question, and is asked with a lease that looks like a
 * final round to a worker: one config, a few passes, a device to itself. Every GPU gets the same
 * lease, that of the final round too, so their times are of one kind. The job's picks do not wait
 * on it for their choice; final rounds that come later know it as a part of their noise floor.
 *
 * Each device gets the config once, whatever becomes of it: a lease that is lost is written down as
 * such.
 */
#include <stdio.h>

#include "daemon/core_internal.h"

static bool is_known(const struct task *task, const char *key)
{
    for (uint32_t i = 0; i < task->spread_count; i++) {
        if (strcmp(task->spread_keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static enum gk_status make_room(struct gk_core *core, struct task *task, struct gk_err *err)
{
    task->spread_keys = calloc(GK_DB_SPREADS_A_TASK, sizeof *task->spread_keys);
    task->spread_count = 0;
    task->spread_until_ns = core->now_ns + SPREAD_WAIT_NS;
    return task->spread_keys ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a spread");
}

enum gk_status spread_begin(struct gk_core *core, struct task *task, const struct gk_json *best,
                            struct gk_err *err)
{
    if (!task->job->spread || task->job->finishing || devices_for(core, task) < 2) {
        return task_move(core, task, TASK_JUDGED, NULL, err);
    }
    struct gk_json *round = gk_json_new_array(), *changes = gk_json_new_object();
    bool ok = gk_json_push(round, gk_json_copy(best)) &&
              gk_json_set(changes, "round", gk_json_copy(round));
    enum gk_status status = ok ? gk_db_task_update(core->db, task->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory for a spread");
    gk_json_free(changes);
    if (status == GK_OK) {
        status = make_room(core, task, err);
    }
    if (status != GK_OK) {
        gk_json_free(round);
        return status;
    }
    gk_json_free(task->round);
    task->round = round;
    return task_move(core, task, TASK_SPREAD, NULL, err);
}

enum gk_status spread_note(struct task *task, const char *key, struct gk_err *err)
{
    if (is_known(task, key)) {
        return GK_OK; /* a lease that was out when the daemon stopped */
    }
    if (task->spread_count == GK_DB_SPREADS_A_TASK) {
        return gk_fail(err, GK_INTERNAL, "task %" PRId64 " is spread over more than %d devices",
                       task->id, GK_DB_SPREADS_A_TASK);
    }
    (void)snprintf(task->spread_keys[task->spread_count++], DEVICE_KEY_SIZE, "%s", key);
    return GK_OK;
}

static bool wants(const struct task *task, const struct session *session, uint32_t device)
{
    return task->spread_count < GK_DB_SPREADS_A_TASK && session->devices[device].ok &&
           !session->devices[device].fenced && !session->drained &&
           device_fits(session, device, task) && !is_known(task, session->devices[device].key);
}

struct task *spread_for(struct gk_core *core, const struct session *session, uint32_t device)
{
    for (uint32_t j = 0; core->spread_tasks > 0 && j < core->job_count; j++) {
        struct job *job = core->jobs[j];
        for (uint32_t t = 0; job->spread && job_runs(core, job) && t < job->task_count; t++) {
            struct task *task = &job->tasks[t];
            if (task->state == TASK_SPREAD && !job->finishing &&
                core->now_ns < task->spread_until_ns && wants(task, session, device)) {
                return task;
            }
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ results */

/* time_ns 0: there is none, for the reason. */
static enum gk_status store(struct gk_core *core, const struct lease *lease, double time_ns,
                            int64_t passes, const char *regime, const char *reason,
                            struct gk_err *err)
{
    const struct task *task = lease->task;
    const struct gk_json *entry = gk_json_at(task->round, 0);
    static const char *const members[] = {"template", "config", "config_id", "trial"};
    struct gk_json *row = gk_json_new_object();
    bool ok =
        gk_json_set_int(row, "task", task->id) && gk_json_set_int(row, "job", task->job->id) &&
        gk_json_set_int(row, "problem", task->problem_id) &&
        gk_json_set_string(row, "op", task->op) && gk_json_set_string(row, "arch", task->arch) &&
        gk_json_set_string(row, "gpu", task->gpu) &&
        gk_json_set_string(row, "policy", task->job->policy) &&
        gk_json_set_string(row, "device_key", lease->device_key) &&
        gk_json_set_int(row, "worker", lease->worker) && gk_json_set_int(row, "passes", passes) &&
        gk_json_set_string(row, "regime", regime) &&
        gk_json_set_int(row, "at_ms", (int64_t)core->wall_ms) &&
        (!(time_ns > 0) || gk_json_set_real(row, "time_ns", time_ns)) &&
        (!reason || gk_json_set_string(row, "reason", reason));
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(members); i++) {
        ok = gk_json_set(row, members[i], gk_json_copy(gk_json_get(entry, members[i])));
    }
    enum gk_status status = ok ? gk_db_spread_put(core->db, row, err)
                               : gk_fail(err, GK_NOMEM, "out of memory for a spread");
    gk_json_free(row);
    if (status != GK_OK) {
        return status;
    }
    struct gk_json *event = gk_json_new_object();
    (void)(gk_json_set_int(event, "task", task->id) && /* an event may lack a member */
           gk_json_set_string(event, "device", lease->device_key) &&
           (time_ns > 0 ? gk_json_set_real(event, "time_ns", time_ns)
                        : gk_json_set_string(event, "reason", reason ? reason : "no time")));
    return core_event(core, task->job->id, "spread_done", event, err);
}

enum gk_status spread_pass(struct gk_core *core, const struct lease *lease, bool last,
                           bool measured, bool *done_out, struct gk_err *err)
{
    struct gk_json *passes = NULL;
    const struct gk_json *round = lease->task->round;
    struct gk_round_entry *entries = calloc(GK_FINALISTS_MAX, sizeof *entries);
    enum gk_status status = entries ? gk_db_passes_of(core->db, lease->token, &passes, err)
                                    : gk_fail(err, GK_NOMEM, "out of memory for a spread");
    if (status != GK_OK) {
        free(entries);
        return status;
    }
    size_t count = gk_json_count(passes);
    round_entries(round, entries);
    entries[0].dropped = false;
    int64_t used = round_passes(round, passes, entries);
    bool dropped = entries[0].dropped;
    bool done = last || dropped || count >= (size_t)(measured ? SPREAD_PASSES : PASSES_MODELLED);
    if (done) {
        const char *regime = pass_regime(gk_json_at(passes, count - 1));
        int64_t trial = gk_json_get_int(gk_json_at(round, 0), "trial", 0);
        status = store(core, lease, dropped ? 0 : gk_median(entries[0].pass_ns, (uint32_t)used),
                       used, regime, dropped ? round_failure(passes, trial) : NULL, err);
    }
    gk_json_free(passes);
    free(entries);
    *done_out = done;
    return status;
}

enum gk_status spread_lost(struct gk_core *core, const struct lease *lease, const char *why,
                           struct gk_err *err)
{
    return lease->task->state == TASK_SPREAD ? store(core, lease, 0, 0, "", why, err) : GK_OK;
}

/* ------------------------------------------------------------------ the end */

static bool waits_for_some(const struct gk_core *core, const struct task *task)
{
    for (uint32_t s = 0; s < core->session_count; s++) {
        for (uint32_t d = 0; d < core->sessions[s]->device_count; d++) {
            if (!core->sessions[s]->quiet && wants(task, core->sessions[s], d)) {
                return true;
            }
        }
    }
    return false;
}

enum gk_status spreads_step(struct gk_core *core, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t j = 0; core->spread_tasks > 0 && j < core->job_count; j++) {
        struct job *job = core->jobs[j];
        for (uint32_t t = 0; status == GK_OK && job_runs(core, job) && t < job->task_count; t++) {
            struct task *task = &job->tasks[t];
            if (task->state != TASK_SPREAD || task->leases > 0) {
                continue;
            }
            if (job->finishing || core->now_ns >= task->spread_until_ns ||
                !waits_for_some(core, task)) {
                status = task_move(core, task, TASK_JUDGED, NULL, err);
            }
        }
    }
    return status;
}

enum gk_status spread_load(struct gk_core *core, struct task *task, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = make_room(core, task, err);
    if (status == GK_OK) {
        core->spread_tasks++;
        status = gk_db_spreads_of(core->db, task->id, &rows, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        status = spread_note(task, gk_json_get_string(gk_json_at(rows, i), "device_key", ""), err);
    }
    gk_json_free(rows);
    return status;
}
