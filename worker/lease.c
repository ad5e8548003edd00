/*
 * A lease from its message to its RESULT: bundle, compile, run, report.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/prng.h"
#include "worker/worker_state.h"

#define UNITS_MAX        64
#define PASSES_MAX       1024
#define SECONDS_MAX      86400
#define KILLS_QUARANTINE 2

struct gk_json *record_json(enum gk_stage stage, enum gk_failure failure, const char *format, ...)
{
    struct gk_record *record = calloc(1, sizeof *record);
    char text[GK_RECORD_MESSAGE_MAX];
    va_list ap;
    if (!record) {
        return NULL;
    }
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    gk_record_init(record);
    gk_record_fail(record, stage, failure, "%s", text);
    struct gk_json *json = gk_record_to_json(record);
    gk_record_fini(record);
    free(record);
    return json;
}

struct lease *lease_find(struct worker *worker, int64_t token)
{
    struct lease *lease = worker->leases;
    while (lease && lease->token != token) {
        lease = lease->next;
    }
    return lease;
}

static void unit_fini(struct worker *worker, struct unit *unit)
{
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        pool_release(worker, unit->tasks[i]);
    }
    gk_json_free(unit->failure);
    gk_json_free(unit->samples);
    gk_json_free(unit->marks);
    gk_json_free(unit->rungs);
    free(unit->detail);
    free(unit->config);
    free(unit->config_id);
}

static void lease_free(struct worker *worker, struct lease *lease)
{
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        unit_fini(worker, &lease->units[i]);
    }
    pool_release(worker, lease->reference);
    bundle_release(worker, lease->bundle);
    gk_json_free(lease->environment);
    free(lease->units);
    free(lease->order);
    free(lease->op);
    free(lease->problem);
    free(lease);
}

/* Out of the list and gone. A unit that runs is killed: nobody waits for its record. */
void lease_drop(struct worker *worker, struct lease *lease)
{
    for (struct lease **at = &worker->leases; *at; at = &(*at)->next) {
        if (*at == lease) {
            *at = lease->next;
            worker->lease_count--;
            break;
        }
    }
    struct bench *bench = &worker->benches[lease->device];
    if (bench->lease == lease) {
        bench_discard(bench); /* a fresh one takes its place */
    }
    bool was_final = lease->is_final;
    lease_free(worker, lease);
    if (was_final) {
        pool_advance(worker); /* it waited for the round to end */
    }
    session_credit(worker);
}

/* ------------------------------------------------------------------ from the message */

static enum gk_status read_unit(const struct gk_json *json, struct unit *unit, struct gk_err *err)
{
    const char *config = NULL, *id = NULL;
    if (strncmp(gk_json_get_string(json, "template", ""), "vendor:", 7) == 0) {
        unit->is_vendor = true; /* trial 0; a failure of it is no config's */
        unit->config_id = gk_strdup("vendor");
        return unit->config_id ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_json_need_string(json, "config", 65536, &config, "LEASE", err);
    if (status == GK_OK) {
        status = gk_json_need_string(json, "config_id", 128, &id, "LEASE", err);
    }
    if (status == GK_OK) {
        status = gk_json_need_int(json, "trial", INT64_MIN, INT64_MAX, &unit->trial, "LEASE", err);
    }
    if (status != GK_OK) {
        return status;
    }
    unit->config = gk_strdup(config);
    unit->config_id = gk_strdup(id);
    return unit->config && unit->config_id ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status read_final(const struct gk_json *body, struct lease *lease,
                                 struct gk_err *err)
{
    const struct gk_json *configs = NULL;
    enum gk_status status = gk_json_need(body, "configs", GK_JSON_ARRAY, &configs, "LEASE", err);
    size_t count = gk_json_count(configs);
    if (status == GK_OK && (count < 1 || count > UNITS_MAX)) {
        status =
            gk_fail(err, GK_LIMIT, "LEASE: %zu configs; 1 to %d are allowed", count, UNITS_MAX);
    }
    if (status == GK_OK) {
        status =
            gk_json_need_int(body, "passes_max", 1, PASSES_MAX, &lease->passes_max, "LEASE", err);
    }
    if (status != GK_OK) {
        return status;
    }
    lease->seed = (uint64_t)gk_json_get_int(body, "seed", 0);
    int64_t budget_s = gk_json_get_int(body, "budget_s", SECONDS_MAX);
    lease->budget_s = budget_s < 0 ? 0 : budget_s > SECONDS_MAX ? SECONDS_MAX : budget_s;
    lease->pass = 1;
    lease->units = calloc(count, sizeof *lease->units);
    lease->order = calloc(count, sizeof *lease->order);
    if (!lease->units || !lease->order) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count && status == GK_OK; i++) {
        lease->unit_count++;
        status = read_unit(gk_json_at(configs, i), &lease->units[i], err);
    }
    return status;
}

static enum gk_status read_trial(const struct gk_json *body, struct lease *lease,
                                 struct gk_err *err)
{
    lease->units = calloc(1, sizeof *lease->units);
    if (!lease->units) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    lease->unit_count = 1;
    lease->input_set = gk_json_get_int(body, "input_set", 0) & 3;
    lease->best_ns = gk_json_get_real(body, "best_ns", 0);
    return read_unit(body, &lease->units[0], err);
}

static enum gk_status read_lease(struct worker *worker, const struct gk_json *body,
                                 struct lease *lease, struct gk_err *err)
{
    const char *op = NULL, *problem = NULL;
    int64_t device = 0;
    enum gk_status status = gk_json_need_int(body, "device", 0, (int64_t)worker->bench_count - 1,
                                             &device, "LEASE", err);
    if (status == GK_OK) {
        status = gk_json_need_string(body, "op", GK_NAME_MAX, &op, "LEASE", err);
    }
    if (status == GK_OK) {
        status = gk_json_need_string(body, "problem", 1u << 20, &problem, "LEASE", err);
    }
    if (status == GK_OK) {
        status =
            gk_json_need_int(body, "compile_s", 1, SECONDS_MAX, &lease->compile_s, "LEASE", err);
    }
    if (status == GK_OK) {
        status = gk_json_need_int(body, "run_s", 1, SECONDS_MAX, &lease->run_s, "LEASE", err);
    }
    if (status != GK_OK) {
        return status;
    }
    lease->device = (uint32_t)device;
    lease->op = gk_strdup(op);
    lease->problem = gk_strdup(problem);
    if (!lease->op || !lease->problem) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    const char *policy = gk_json_get_string(body, "policy", gk_policy_name(GK_POLICY_COLD_GRAPH));
    if (!gk_policy_from_name(policy, &lease->policy)) {
        return gk_fail(err, GK_INPUT, "LEASE: policy '%s'; this worker knows %s", policy,
                       gk_policy_names());
    }
    lease->is_final = strcmp(gk_json_get_string(body, "kind", "trial"), "final") == 0;
    status = lease->is_final ? read_final(body, lease, err) : read_trial(body, lease, err);
    if (status == GK_OK && gk_json_get_bool(body, "pardoned", false)) {
        kills_forget(worker, lease->units[0].config_id);
    }
    if (status == GK_OK) {
        status = bundle_need(worker, bundle_said(worker, gk_json_get(body, "bundle")),
                             &lease->bundle, err);
    }
    return status;
}

enum gk_status lease_take(struct worker *worker, const struct gk_json *body, struct gk_err *err)
{
    int64_t token = 0;
    bundle_note(worker, gk_json_get(body, "bundle")); /* also of a lease that is refused below */
    enum gk_status status = gk_json_need_int(body, "token", 1, INT64_MAX, &token, "LEASE", err);
    if (status != GK_OK || lease_find(worker, token)) {
        return status; /* sent again: it is held already */
    }
    if (worker->lease_count >= LEASES_MAX) {
        session_release(worker, token, "too many leases");
        return GK_OK;
    }
    struct lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    lease->token = token;
    status = read_lease(worker, body, lease, err);
    if (status != GK_OK) {
        lease_free(worker, lease);
        session_release(worker, token, err->text);
        return status;
    }
    struct lease **end = &worker->leases;
    while (*end) {
        end = &(*end)->next;
    }
    *end = lease;
    worker->lease_count++;
    lease_advance(worker, lease);
    return GK_OK;
}

/* ------------------------------------------------------------------ compile tasks of a lease */

struct scene { /* of one lease while its units are rendered */
    struct worker *worker;
    struct lease *lease;
    const struct gk_op *op;
    const struct gk_device_props *dev;
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_plan plan;
    bool has_problem, has_def;
};

static enum gk_status need_code(struct scene *scene, uint32_t launch,
                                struct compile_task **task_out, struct gk_err *err)
{
    struct gk_compile_job job = {0};
    enum gk_status status = gk_compile_job_make(scene->lease->bundle->catalog, &scene->plan, launch,
                                                scene->dev->target, &job, err);
    if (status == GK_OK) {
        status = pool_need(scene->worker, &job, scene->lease->compile_s, task_out, err);
    }
    gk_compile_job_fini(&job);
    return status;
}

static enum gk_status render_unit(struct scene *scene, struct unit *unit, struct gk_err *err)
{
    struct gk_config config = {0};
    uint32_t tree = 0;
    bool is_mock = scene->worker->benches[scene->lease->device].is_mock;
    enum gk_status status = gk_config_from_text(&scene->def, unit->config, &config, &tree, err);
    if (status == GK_OK) {
        status = gk_plan_render(scene->op, gk_op_template(scene->op, config.template_name),
                                &scene->problem, &config, scene->dev, &scene->plan, err);
    }
    for (uint32_t i = 0; status == GK_OK && !is_mock && i < scene->plan.launch_count; i++) {
        if (scene->plan.launches[i].present) {
            status = need_code(scene, i, &unit->tasks[i], err);
        }
    }
    gk_plan_fini(&scene->plan);
    return status;
}

static enum gk_status open_scene(struct scene *scene, struct gk_err *err)
{
    struct lease *lease = scene->lease;
    scene->dev = &scene->worker->benches[lease->device].props;
    scene->op = gk_catalog_find(lease->bundle->catalog, lease->op);
    if (!scene->op) {
        return gk_fail(err, GK_NOT_FOUND, "the bundle has no op %s", lease->op);
    }
    enum gk_status status =
        gk_problem_from_text(&scene->op->fields, lease->problem, &scene->problem, err);
    scene->has_problem = status == GK_OK;
    if (status == GK_OK) {
        status = gk_catalog_space(scene->op, &scene->problem, scene->dev, &scene->def, err);
        scene->has_def = status == GK_OK;
    }
    return status;
}

static enum gk_status need_reference(struct scene *scene, struct gk_err *err)
{
    if (scene->worker->benches[scene->lease->device].is_mock) {
        return GK_OK;
    }
    enum gk_status status =
        gk_plan_reference(scene->op, &scene->problem, scene->dev, &scene->plan, err);
    if (status == GK_OK) {
        status = need_code(scene, 0, &scene->lease->reference, err);
        gk_plan_fini(&scene->plan);
    }
    return status;
}

static void fail_all(struct lease *lease, enum gk_stage stage, enum gk_failure failure,
                     const char *text)
{
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        if (!lease->units[i].failure) {
            lease->units[i].failure = record_json(stage, failure, "%s", text);
        }
    }
}

static void render_units(struct worker *worker, struct lease *lease)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct gk_err err = {0};
    if (!scene) {
        fail_all(lease, GK_STAGE_RENDER, GK_FAILURE_INFRA, "out of memory");
        return;
    }
    scene->worker = worker;
    scene->lease = lease;
    enum gk_status status = open_scene(scene, &err);
    if (status != GK_OK) {
        fail_all(lease, GK_STAGE_RENDER, GK_FAILURE_ILLEGAL, err.text);
    } else if (need_reference(scene, &err) != GK_OK) {
        fail_all(lease, GK_STAGE_RENDER, GK_FAILURE_REFERENCE, err.text);
    }
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        struct unit *unit = &lease->units[i];
        if (unit->is_vendor) {
            continue;
        }
        if (!unit->failure && kills_reached(worker, unit->config_id, KILLS_QUARANTINE)) {
            unit->failure = record_json(GK_STAGE_LOAD, GK_FAILURE_QUARANTINED,
                                        "it killed executors %d times before", KILLS_QUARANTINE);
        }
        if (!unit->failure && render_unit(scene, unit, &err) != GK_OK) {
            unit->failure = record_json(
                GK_STAGE_RENDER, err.status == GK_NOMEM ? GK_FAILURE_INFRA : GK_FAILURE_ILLEGAL,
                "%s", err.text);
        }
    }
    if (scene->has_def) {
        gk_space_def_fini(&scene->def);
    }
    if (scene->has_problem) {
        gk_problem_fini(&scene->problem);
    }
    free(scene);
}

/* ------------------------------------------------------------------ reporting */

static void add_compile_cost(const struct lease *lease, const struct unit *unit,
                             struct gk_json *record)
{
    double ns = 0;
    bool cached = true, any = false;
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        if (unit->tasks[i]) {
            any = true;
            ns += unit->tasks[i]->cached ? 0 : unit->tasks[i]->compile_ns;
            cached = cached && unit->tasks[i]->cached;
        }
    }
    (void)lease;
    if (any) { /* costs are for people: a record without them is still whole */
        (void)gk_json_set_real(record, "compile_ns", ns);
        (void)gk_json_set_bool(record, "compile_cached", cached);
    }
}

/* The lease is gone afterwards. */
static void report_trial(struct worker *worker, struct lease *lease, const struct gk_json *record)
{
    struct gk_json *body = gk_json_new_object();
    struct gk_json *copy = gk_json_copy(record);
    if (copy) {
        add_compile_cost(lease, &lease->units[0], copy);
    }
    bool good = gk_json_set(body, "record", copy);
    if (!good || !gk_json_set_string(body, "record_kind", "trial")) {
        gk_json_free(body);
        session_release(worker, lease->token, "out of memory");
    } else {
        session_result(worker, lease->token, 0, body);
    }
    lease_drop(worker, lease);
}

static bool runs(const struct unit *unit)
{
    return !unit->failure && !unit->left_out;
}

static uint32_t survivors(const struct lease *lease)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        count += runs(&lease->units[i]) ? 1 : 0;
    }
    return count;
}

static bool is_last(struct worker *worker, const struct lease *lease)
{
    uint64_t spent_ms = lease->begun_ms ? uv_now(&worker->loop) - lease->begun_ms : 0;
    return lease->pass >= lease->passes_max || survivors(lease) == 0 ||
           spent_ms > (uint64_t)lease->budget_s * 1000;
}

static bool add_unit(struct gk_json *samples, struct gk_json *failed, struct unit *unit)
{
    struct gk_json *item = NULL;
    bool good = true;
    if (unit->failure && !unit->reported) {
        item = gk_json_new_object();
        good = item && gk_json_set_int(item, "trial", unit->trial) &&
               gk_json_set(item, "record", gk_json_copy(unit->failure));
        good = gk_json_push(failed, item) && good;
        unit->reported = true;
    } else if (!unit->failure && unit->samples) {
        item = gk_json_new_object();
        good = item && gk_json_set_int(item, "trial", unit->trial);
        good = item && gk_json_set(item, "ns", unit->samples) && good;
        unit->samples = NULL;
        good = (!unit->rungs || gk_json_set(item, "rungs", unit->rungs)) && good;
        unit->rungs = NULL;
        good = good && (!unit->detail || gk_json_set_string(item, "detail", unit->detail)) &&
               (!unit->marks || gk_json_set(item, "marks", gk_json_copy(unit->marks))) &&
               (unit->twice_ratio <= 0 || gk_json_set_real(item, "twice_ratio", unit->twice_ratio));
        good = gk_json_push(samples, item) && good;
    }
    return good;
}

/* Conditions of the pass: those of the unit that drew most, and what it cost all of them. */
static bool add_environment(struct lease *lease, struct gk_json *body)
{
    static const char *const members[] = {"regime",         "sm_clock_khz",  "power_mw",
                                          "power_limit_mw", "temperature_c", "throttle"};
    if (!lease->environment) {
        return true;
    }
    struct gk_json *json = gk_json_new_object();
    bool good = json != NULL;
    for (size_t i = 0; i < GK_ARRAY_COUNT(members) && good; i++) {
        const struct gk_json *value = gk_json_get(lease->environment, members[i]);
        good = !value || gk_json_set(json, members[i], gk_json_copy(value));
    }
    good = good && gk_json_set_int(json, "dropped", lease->dropped) &&
           (lease->dropped_throttle == 0 ||
            gk_json_set_int(json, "dropped_throttle", lease->dropped_throttle)) &&
           (lease->dropped_shared == 0 ||
            gk_json_set_int(json, "dropped_shared", lease->dropped_shared)) &&
           gk_json_set_bool(json, "at_power_limit", lease->at_limit) &&
           gk_json_set_real(json, "gpu_ns", lease->gpu_ns);
    gk_json_free(lease->environment);
    lease->environment = NULL;
    if (!good) {
        gk_json_free(json);
        return false;
    }
    return gk_json_set(body, "environment", json);
}

static void report_pass(struct worker *worker, struct lease *lease)
{
    struct gk_json *body = gk_json_new_object();
    struct gk_json *samples = gk_json_new_array(), *failed = gk_json_new_array();
    bool good = body && samples && failed;
    lease->last_said = is_last(worker, lease);
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        good = good && add_unit(samples, failed, &lease->units[i]);
    }
    good = gk_json_set(body, "samples", samples) && good;
    good = gk_json_set(body, "failed", failed) && good;
    good = good && add_environment(lease, body);
    good = good && gk_json_set_int(body, "pass", lease->pass) &&
           gk_json_set_string(body, "record_kind", "pass") &&
           gk_json_set_bool(body, "last", lease->last_said);
    if (!good) {
        gk_json_free(body);
        session_release(worker, lease->token, "out of memory");
        lease_drop(worker, lease);
        return;
    }
    lease->state = LEASE_WAIT_ACK;
    session_result(worker, lease->token, lease->pass, body);
}

/* The order of a pass: drawn anew, or, in the sustained regime, every second time the one before
 * turned round: A B C, C B A. A drift that goes on evenly then hits every unit alike. */
static void arrange(struct lease *lease)
{
    struct gk_prng prng;
    lease->order_at = 0;
    lease->gpu_ns = 0;
    lease->dropped = 0;
    lease->dropped_throttle = 0;
    lease->dropped_shared = 0;
    lease->turned = lease->sustained && !lease->turned;
    if (lease->sustained && !lease->turned) {
        for (uint32_t i = 0; i < lease->unit_count / 2; i++) {
            uint32_t other = lease->unit_count - 1 - i, unit = lease->order[i];
            lease->order[i] = lease->order[other];
            lease->order[other] = unit;
        }
        return;
    }
    gk_prng_init(&prng, lease->seed, (uint64_t)lease->pass);
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        lease->order[i] = i;
    }
    for (uint32_t i = lease->unit_count; i-- > 1;) {
        uint32_t other = (uint32_t)gk_prng_below(&prng, (uint64_t)i + 1);
        uint32_t unit = lease->order[i];
        lease->order[i] = lease->order[other];
        lease->order[other] = unit;
    }
}

uint32_t lease_next_unit(struct lease *lease)
{
    if (!lease->is_final) {
        return lease->state == LEASE_READY ? 0 : UINT32_MAX;
    }
    while (lease->order_at < lease->unit_count) {
        uint32_t unit = lease->order[lease->order_at++];
        if (runs(&lease->units[unit])) {
            return unit;
        }
    }
    return UINT32_MAX;
}

static bool pass_is_over(const struct lease *lease)
{
    for (uint32_t i = lease->order_at; i < lease->unit_count; i++) {
        if (runs(&lease->units[lease->order[i]])) {
            return false;
        }
    }
    return true;
}

/* What a reader of the unit's samples has to know. A config is timed over the sets that its first
 * pass has shown to be needed, its second copy as well, or the two would not be copies. */
static void take_marks(struct lease *lease, struct unit *unit, const struct gk_json *record)
{
    const struct gk_json *marks = gk_json_get(record, "marks");
    double ratio = gk_json_get_real(gk_json_get(record, "environment"), "twice_ratio", 0);
    bool carried = false;
    for (size_t i = 0; i < gk_json_count(marks); i++) {
        carried = carried || strcmp(gk_json_string(gk_json_at(marks, i), ""),
                                    gk_mark_name(GK_MARK_L2_CARRIED)) == 0;
    }
    for (uint32_t i = 0; carried && i < lease->unit_count; i++) {
        lease->units[i].carried |= strcmp(lease->units[i].config_id, unit->config_id) == 0;
    }
    unit->twice_ratio = ratio > 0 ? ratio : unit->twice_ratio;
    gk_json_free(unit->marks);
    unit->marks = marks ? gk_json_copy(marks) : NULL;
}

/* The first pass verifies, on all sets, and on the emulated device where the worker has it beside.
 * The second copy of a finalist is the same code, and the vendor's is not told of either. */
static void take_rungs(const struct lease *lease, struct unit *unit, const struct gk_json *record)
{
    const struct gk_json *rungs = gk_json_get(record, "rungs");
    if (lease->pass == 1 && unit->trial > 0 && rungs) {
        gk_json_free(unit->rungs);
        unit->rungs = gk_json_copy(rungs); /* none: that of the search stands with the pick */
    }
}

static void take_conditions(struct lease *lease, struct unit *unit, const struct gk_json *record)
{
    const struct gk_json *environment = gk_json_get(record, "environment");
    const char *detail = gk_json_get_string(environment, "detail",
                                            gk_json_get_string(environment, "emulated_not", NULL));
    lease->gpu_ns += gk_json_get_real(record, "gpu_verify_ns", 0) +
                     gk_json_get_real(record, "gpu_measure_ns", 0);
    if (!environment) {
        return;
    }
    lease->dropped += (uint32_t)gk_json_get_int(environment, "dropped", 0);
    lease->dropped_throttle |= gk_json_get_int(environment, "dropped_throttle", 0);
    lease->dropped_shared += (uint32_t)gk_json_get_int(environment, "dropped_shared", 0);
    lease->at_limit = lease->at_limit || gk_json_get_bool(environment, "at_power_limit", false);
    if (!lease->environment || gk_json_get_int(environment, "power_mw", 0) >=
                                   gk_json_get_int(lease->environment, "power_mw", 0)) {
        gk_json_free(lease->environment);
        lease->environment = gk_json_copy(environment);
    }
    if (detail) {
        free(unit->detail);
        unit->detail = gk_strdup(detail);
    }
}

void lease_recorded(struct worker *worker, struct lease *lease, uint32_t unit,
                    const struct gk_json *record)
{
    if (!lease->is_final) {
        report_trial(worker, lease, record);
        return;
    }
    const char *failure = gk_json_get_string(record, "failure", "none");
    take_conditions(lease, &lease->units[unit], record);
    if (strcmp(failure, gk_failure_name(GK_FAILURE_NONE)) != 0) {
        lease->units[unit].failure = gk_json_copy(record);
    } else {
        gk_json_free(lease->units[unit].samples);
        lease->units[unit].samples = gk_json_copy(gk_json_get(record, "samples_ns"));
        take_marks(lease, &lease->units[unit], record);
        take_rungs(lease, &lease->units[unit], record);
    }
    if (pass_is_over(lease)) {
        report_pass(worker, lease);
    }
}

void lease_leave_out(struct lease *lease, const struct gk_json *trials)
{
    for (size_t t = 0; t < gk_json_count(trials); t++) {
        int64_t trial = gk_json_int(gk_json_at(trials, t), 0);
        for (uint32_t i = 0; i < lease->unit_count && trial != 0; i++) {
            lease->units[i].left_out |= lease->units[i].trial == trial;
        }
    }
}

void lease_acknowledged(struct worker *worker, struct lease *lease, bool go_on)
{
    if (!lease->is_final || lease->state != LEASE_WAIT_ACK) {
        return;
    }
    if (!go_on || lease->last_said) {
        struct bench *bench = &worker->benches[lease->device];
        lease_drop(worker, lease);
        bench_advance(bench);
        return;
    }
    lease->pass++;
    lease->state = LEASE_RUN;
    lease->sustained = lease->sustained || lease->at_limit;
    arrange(lease);
    if (survivors(lease) == 0) { /* all left out: without a last word nobody would end the lease */
        report_pass(worker, lease);
        return;
    }
    bench_advance(&worker->benches[lease->device]);
}

/* ------------------------------------------------------------------ going on */

/* True when nothing of the unit is still being compiled; its failure is set if something did not
 * compile. */
static bool unit_compiled(const struct lease *lease, struct unit *unit)
{
    bool waiting = lease->reference && lease->reference->state != TASK_DONE &&
                   lease->reference->state != TASK_FAILED;
    if (!unit->failure && lease->reference && lease->reference->state == TASK_FAILED) {
        unit->failure = record_json(GK_STAGE_COMPILE, GK_FAILURE_REFERENCE,
                                    "the reference does not compile: %s",
                                    lease->reference->message ? lease->reference->message : "");
    }
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX && !unit->failure; i++) {
        const struct compile_task *task = unit->tasks[i];
        if (task && task->state == TASK_FAILED) {
            unit->failure = record_json(GK_STAGE_COMPILE, task->failure, "%s",
                                        task->message ? task->message : "");
        }
        waiting = waiting || (task && task->state != TASK_DONE && task->state != TASK_FAILED);
    }
    return unit->failure || !waiting;
}

static void compile_advance(struct worker *worker, struct lease *lease)
{
    bool all = true;
    for (uint32_t i = 0; i < lease->unit_count; i++) {
        all = unit_compiled(lease, &lease->units[i]) && all;
    }
    if (!all) {
        return;
    }
    if (!lease->is_final && lease->units[0].failure) {
        struct gk_json *record = gk_json_copy(lease->units[0].failure);
        report_trial(worker, lease, record);
        gk_json_free(record);
        return;
    }
    if (lease->is_final && survivors(lease) == 0) {
        report_pass(worker, lease);
        return;
    }
    lease->state = LEASE_READY;
    if (lease->is_final) {
        arrange(lease);
    }
    bench_advance(&worker->benches[lease->device]);
}

static void begin_compile(struct worker *worker, struct lease *lease)
{
    struct gk_json *body = gk_json_new_object();
    if (body && gk_json_set_string(body, "phase", "compile")) {
        session_send(worker, GK_MSG_STARTED, lease->token, body);
    } else {
        gk_json_free(body);
    }
    lease->state = LEASE_COMPILE;
    render_units(worker, lease);
    pool_advance(worker);
}

void lease_advance(struct worker *worker, struct lease *lease)
{
    if (lease->state == LEASE_BUNDLE) {
        if (lease->bundle->failed) {
            session_release(worker, lease->token, "its bundle could not be had");
            lease_drop(worker, lease);
            return;
        }
        if (!lease->bundle->catalog) {
            bundle_ask(worker, lease->bundle);
            return;
        }
        begin_compile(worker, lease);
    }
    if (lease->state == LEASE_COMPILE) {
        compile_advance(worker, lease);
    }
}

void leases_advance(struct worker *worker)
{
    struct lease *lease = worker->leases;
    while (lease) {
        struct lease *next = lease->next;
        lease_advance(worker, lease);
        lease = next;
    }
}
