/* Suites: many submissions stored at once, one night of a slot at a time; what has not changed
 * since its pick; and the end of a job whose time is over. */
#include <stdio.h>

#include "daemon/core_submit.h"
#include "daemon/requests_internal.h"

#define SETS_MAX 64 /* of a suite */
#define DAY_MS   INT64_C(86400000)

/* ------------------------------------------------------------------ what has not changed */

/* What the device is that a task of this arch would run on: connected, else the last one that was
 * seen. *device_out NULL: none ever was. */
static enum gk_status device_today(struct gk_core *core, const char *arch, const char *gpu,
                                   struct gk_json **device_out, char nvrtc_out[64],
                                   struct gk_err *err)
{
    struct gk_json *rows = NULL;
    int64_t newest = -1;
    *device_out = NULL;
    for (uint32_t i = 0; i < core->session_count && !*device_out; i++) {
        const struct session *session = core->sessions[i];
        for (uint32_t d = 0; d < session->device_count && !*device_out; d++) {
            const struct gk_device_props *props = &session->devices[d].props;
            if (strcmp(props->arch, arch) == 0 && (!*gpu || strcmp(props->gpu, gpu) == 0)) {
                *device_out = gk_json_copy(session->devices[d].json);
                (void)snprintf(nvrtc_out, 64, "%s", session->nvrtc);
            }
        }
    }
    if (*device_out) {
        return GK_OK;
    }
    enum gk_status status = gk_db_archs(core->db, 0, &rows, err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        int64_t seen = gk_json_get_int(row, "last_seen_ms", 0);
        if (strcmp(gk_json_get_string(row, "arch", ""), arch) == 0 && seen > newest &&
            (!*gpu || strcmp(gk_json_get_string(row, "gpu", ""), gpu) == 0)) {
            newest = seen;
            gk_json_free(*device_out);
            *device_out = gk_json_copy(gk_json_get(row, "props"));
            (void)snprintf(nvrtc_out, 64, "%s", gk_json_get_string(row, "nvrtc", ""));
        }
    }
    gk_json_free(rows);
    return status;
}

static bool same_text(const struct gk_json *a, const struct gk_json *b, const char *key)
{
    return strcmp(gk_json_get_string(a, key, ""), gk_json_get_string(b, key, "")) == 0;
}

bool same_context(const struct gk_json *then, const struct gk_json *now)
{
    return same_text(then, now, "driver") && same_text(then, now, "vbios") &&
           gk_json_get_int(then, "clock_khz", 0) == gk_json_get_int(now, "clock_khz", 0);
}

/* The templates of an op, by hash, that the pick was chosen among. */
static enum gk_status same_templates(struct gk_core *core, const struct submit *s,
                                     const struct gk_json *pick, const char *op, bool *same_out,
                                     struct gk_err *err)
{
    struct gk_json *bundle = NULL;
    const char *id = gk_json_get_string(pick, "bundle", "");
    *same_out = strcmp(id, s->bundle_id) == 0;
    if (*same_out) {
        return GK_OK;
    }
    enum gk_status status = gk_db_bundle_get(core->db, id, &bundle, err);
    if (status == GK_OK) {
        *same_out = gk_json_equal(gk_json_get(gk_json_get(bundle, "templates"), op),
                                  gk_json_get(s->templates, op));
        gk_json_free(bundle);
    }
    return status == GK_NOT_FOUND ? GK_OK : status;
}

enum gk_status suite_unchanged(struct gk_core *core, const struct submit *s, int64_t problem,
                               const char *op, const struct gk_json *arch, bool *same_out,
                               struct gk_err *err)
{
    struct gk_json *device = NULL, *pick = NULL, *then = NULL;
    char nvrtc[64] = "";
    const char *name = gk_json_get_string(arch, "arch", "");
    *same_out = false;
    enum gk_status status =
        device_today(core, name, gk_json_get_string(arch, "gpu", ""), &device, nvrtc, err);
    if (status != GK_OK || !device) {
        return status;
    }
    status = gk_db_pick_get(core->db, problem, name, gk_json_get_string(device, "gpu", ""),
                            s->policy, &pick, err);
    if (status == GK_OK) {
        status = gk_db_device_of(core->db, gk_json_get_int(pick, "task", 0), name,
                                 gk_json_get_string(device, "gpu", ""), &then, err);
    }
    bool same = false;
    if (status == GK_OK) {
        status = same_templates(core, s, pick, op, &same, err);
    }
    if (status == GK_OK) {
        int64_t age_ms = (int64_t)core->wall_ms - gk_json_get_int(pick, "confirmed_ms", 0);
        *same_out = same && strcmp(gk_json_get_string(pick, "nvrtc", ""), nvrtc) == 0 &&
                    same_context(then, device) && age_ms <= s->max_age_days * DAY_MS;
    }
    gk_json_free(device);
    gk_json_free(pick);
    gk_json_free(then);
    return status == GK_NOT_FOUND ? GK_OK : status; /* no pick: there is nothing to keep */
}

/* ------------------------------------------------------------------ the verb */

struct suite {
    const char *name, *slot, *night;
    const struct gk_json *sets;
    struct submit *submits; /* one a set */
    struct gk_json **rows;  /* of jobs that this very request has begun before; NULL: not yet */
    uint32_t count;
};

static enum gk_status read_names(const struct gk_json *body, struct suite *suite,
                                 struct gk_err *err)
{
    const struct {
        const char *key;
        const char **out;
    } names[] = {{"suite", &suite->name}, {"slot", &suite->slot}, {"night", &suite->night}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        enum gk_status status = gk_json_need_string(body, names[i].key, SUITE_NAME_MAX - 1,
                                                    names[i].out, "submit_suite", err);
        if (status == GK_OK && (*names[i].out)[0] == '\0') {
            status = gk_fail(err, GK_INPUT, "submit_suite: %s is empty", names[i].key);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    enum gk_status status =
        gk_json_need(body, "sets", GK_JSON_ARRAY, &suite->sets, "submit_suite", err);
    size_t count = gk_json_count(suite->sets);
    if (status == GK_OK && (count == 0 || count > SETS_MAX)) {
        status =
            gk_fail(err, GK_INPUT, "submit_suite: %zu sets, 1 to %d are allowed", count, SETS_MAX);
    }
    suite->count = status == GK_OK ? (uint32_t)count : 0;
    return status;
}

/* The job of another night of this suite and slot that has not ended. */
static const struct job *running_night(const struct gk_core *core, const struct suite *suite)
{
    for (uint32_t i = 0; i < core->job_count; i++) {
        const struct job *job = core->jobs[i];
        if (job->suite && strcmp(job->suite, suite->name) == 0 &&
            strcmp(job->slot, suite->slot) == 0 && strcmp(job->night, suite->night) != 0) {
            return job;
        }
    }
    return NULL;
}

/* All that is wrong with all sets, at once. Nothing is written here. */
static enum gk_status read_sets(struct gk_core *core, const struct gk_peer *peer,
                                struct suite *suite, struct gk_err *err)
{
    struct gk_diag diag;
    enum gk_status status = GK_OK;
    gk_diag_init(&diag);
    for (uint32_t i = 0; i < suite->count && !is_store_failure(status); i++) {
        struct submit *s = &suite->submits[i];
        struct gk_err why = {0};
        *s = (struct submit){.body = gk_json_at(suite->sets, i),
                             .key = peer->key,
                             .suite = suite->name,
                             .slot = suite->slot,
                             .night = suite->night};
        status = request_members("submit", "set", s->body, &why);
        if (status == GK_OK) {
            status = submit_again(core, s, &suite->rows[i], &why);
        }
        if (status == GK_OK && !suite->rows[i]) {
            status = submit_read(core, s, &why);
        }
        if (status != GK_OK) {
            (void)gk_diag_add(&diag, status, "set '%.60s': %s",
                              gk_json_get_string(s->body, "set", "?"), why.text);
        }
    }
    enum gk_status told = gk_diag_status(&diag, err);
    gk_diag_fini(&diag);
    return is_store_failure(status) ? status : told;
}

static enum gk_status store_sets(struct gk_core *core, struct suite *suite, struct gk_json *reply,
                                 struct gk_err *err)
{
    struct gk_json *jobs = gk_json_new_array();
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; status == GK_OK && i < suite->count; i++) {
        struct gk_json *one = gk_json_new_object();
        status = suite->rows[i] ? submit_answer(one, suite->rows[i], true, err)
                                : submit_begin(core, &suite->submits[i], one, err);
        bool ok = gk_json_set_string(one, "set",
                                     gk_json_get_string(gk_json_at(suite->sets, i), "set", ""));
        ok = gk_json_push(jobs, one) && ok;
        status = status == GK_OK && !ok ? gk_fail(err, GK_NOMEM, "out of memory") : status;
    }
    bool ok = gk_json_set(reply, "jobs", jobs) && gk_json_set_string(reply, "suite", suite->name) &&
              gk_json_set_string(reply, "slot", suite->slot) &&
              gk_json_set_string(reply, "night", suite->night);
    return status == GK_OK && !ok ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}

enum gk_status request_submit_suite(struct gk_core *core, const struct gk_peer *peer,
                                    const struct gk_json *body, struct gk_json *reply,
                                    struct gk_err *err)
{
    struct suite suite = {0};
    enum gk_status status = read_names(body, &suite, err);
    const struct job *other = status == GK_OK ? running_night(core, &suite) : NULL;
    if (other) {
        return gk_fail(err, GK_CONFLICT,
                       "suite '%s', slot '%s': job %" PRId64
                       " of night '%s' has not ended (%s, %u of %u problems done); wait for it, or "
                       "end it: gktune cancel %" PRId64,
                       suite.name, suite.slot, other->id, other->night,
                       job_state_name(other->state), other->done_count, other->task_count,
                       other->id);
    }
    if (status == GK_OK) {
        status = submit_room(core, peer, err);
    }
    suite.submits = calloc(suite.count ? suite.count : 1, sizeof *suite.submits);
    suite.rows = calloc(suite.count ? suite.count : 1, sizeof(struct gk_json *));
    if (status == GK_OK && (!suite.submits || !suite.rows)) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a suite");
    }
    if (status == GK_OK) {
        status = read_sets(core, peer, &suite, err);
    }
    if (status == GK_OK) {
        status = store_sets(core, &suite, reply, err);
    }
    for (uint32_t i = 0; suite.submits && suite.rows && i < suite.count; i++) {
        submit_fini(core, &suite.submits[i]);
        gk_json_free(suite.rows[i]);
    }
    free(suite.submits);
    free(suite.rows);
    return status;
}

/* ------------------------------------------------------------------ the end of the night */

bool job_out_of_time(const struct gk_core *core, const struct job *job)
{
    return job->until_ms != 0 && core->wall_ms >= job->until_ms;
}

enum gk_status job_time_again(struct gk_core *core, struct job *job, struct gk_err *err)
{
    if (!job->finishing && job->until_ms == 0) {
        return GK_OK;
    }
    struct gk_json *changes = gk_json_new_object();
    bool ok = gk_json_set_bool(changes, "finishing", false) &&
              gk_json_set(changes, "until_ms", gk_json_new_null());
    enum gk_status status = ok ? gk_db_job_update(core->db, job->id, changes, err)
                               : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    job->finishing = false;
    job->until_ms = 0;
    return status;
}

enum gk_status task_unrun(struct gk_core *core, struct task *task, const char *code,
                          const char *reason, struct gk_err *err)
{
    struct gk_json *changes = gk_json_new_object();
    enum gk_status status = gk_json_set_string(changes, "not_run", code)
                                ? gk_db_task_update(core->db, task->id, changes, err)
                                : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(changes);
    return status == GK_OK ? task_move(core, task, TASK_FAILED, reason, err) : status;
}

/* Connected devices that a bound task fits: how many may have leases, are fenced, are emptied by an
 * operator. */
struct places {
    uint32_t usable, fenced, drained;
};

static struct places places_of(const struct gk_core *core, const struct task *task)
{
    struct places places = {0};
    for (uint32_t i = 0; i < core->session_count; i++) {
        const struct session *session = core->sessions[i];
        for (uint32_t d = 0; d < session->device_count; d++) {
            if (!device_fits(session, d, task)) {
                continue;
            }
            bool fenced = !session->devices[d].ok || session->devices[d].fenced;
            bool drained = session->drained || core->drain_ms != 0;
            places.fenced += fenced;
            places.drained += !fenced && drained;
            places.usable += !fenced && !drained;
        }
    }
    return places;
}

/* A bound task that nobody can go on with: its worker is gone and has not come back, or every
 * device of its kind is fenced or is being emptied. What is recorded stays for the next job. */
static enum gk_status give_up(struct gk_core *core, struct task *task, struct gk_err *err)
{
    char reason[256];
    const struct places places = places_of(core, task);
    if (task->leases > 0 || core->now_ns < core->settled_ns || places.usable > 0) {
        return GK_OK;
    }
    bool fenced = places.fenced > 0 && places.drained == 0;
    const char *why = fenced               ? "fenced: every device of arch"
                      : places.drained > 0 ? "no worker: an operator drains all of arch"
                                           : "no worker: nothing was left of arch";
    (void)snprintf(reason, sizeof reason,
                   "%s %.31s and gpu %.63s when the time was over; %" PRId64 " trials are recorded",
                   why, task->arch, task->gpu, task->trials);
    return task_unrun(core, task, fenced ? "fenced" : "no_worker", reason, err);
}

enum gk_status until_step(struct gk_core *core, struct job *job, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (!job_runs(core, job) || !job_out_of_time(core, job)) {
        return GK_OK;
    }
    if (!job->finishing) {
        struct gk_json *changes = gk_json_new_object(), *body = gk_json_new_object();
        job->finishing = true;
        status = gk_json_set_bool(changes, "finishing", true)
                     ? gk_db_job_update(core->db, job->id, changes, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
        gk_json_free(changes);
        (void)gk_json_set_string(body, "text",
                                 "out of time: no more asks, final rounds on what is there");
        if (status == GK_OK) {
            status = core_event(core, job->id, "note", body, err);
        } else {
            gk_json_free(body);
        }
    }
    for (uint32_t i = 0; status == GK_OK && i < job->task_count; i++) {
        struct task *task = &job->tasks[i];
        if (task->state == TASK_SEARCHING || task->state == TASK_FINAL) {
            status = give_up(core, task, err);
        }
    }
    return status;
}
