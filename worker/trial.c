/* One trial: see trial.h. */
#include "worker/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/compile_log.h"
#include "worker/trial_inside.h"
#include "worker/vendor.h"

/* ------------------------------------------------------------------ before the device */

void gk_trial_facts(const struct gk_plan *plan, const struct gk_compile_output *const *codes,
                    const struct gk_device_props *dev, struct gk_kernel_facts *facts_out,
                    struct gk_record *record)
{
    record->kernel_count = 0;
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        const struct gk_plan_launch *launch = &plan->launches[i];
        struct gk_compile_facts log = {.regs = -1, .spill_bytes = -1, .static_smem = -1};
        memset(&facts_out[i], 0, sizeof facts_out[i]);
        if (!launch->present) {
            continue;
        }
        gk_compile_log_read(codes[i]->log, launch->def->kernel, &log);
        int64_t threads = (int64_t)launch->block[0] * launch->block[1] * launch->block[2];
        facts_out[i].regs = log.regs;
        facts_out[i].spill_bytes = log.spill_bytes;
        facts_out[i].static_smem = log.static_smem;
        facts_out[i].blocks_per_sm = gk_device_blocks_per_sm(
            dev, threads, log.regs > 0 ? log.regs : 1,
            (log.static_smem > 0 ? log.static_smem : 0) + launch->smem_bytes);
        facts_out[i].max_clusters = dev->sms;
        struct gk_kernel_resources *kernel = &record->kernels[record->kernel_count++];
        (void)snprintf(kernel->kernel, sizeof kernel->kernel, "%s", launch->def->kernel);
        kernel->regs = log.regs;
        kernel->spill_bytes = log.spill_bytes;
        kernel->static_smem = log.static_smem;
        kernel->dynamic_smem = launch->smem_bytes;
        kernel->blocks_per_sm = facts_out[i].blocks_per_sm;
        kernel->threads = threads;
    }
}

static enum gk_status render(struct work *work, struct gk_err *err)
{
    const struct gk_trial *trial = work->trial;
    enum gk_status status =
        gk_plan_render(trial->op, trial->template_, trial->problem, trial->config,
                       &work->bench->device->props, &work->plan, err);
    if (status == GK_INPUT || status == GK_RANGE || status == GK_LIMIT) {
        gk_record_fail(work->record, GK_STAGE_RENDER, GK_FAILURE_ILLEGAL, "%s", err->text);
        return GK_OK;
    }
    return status;
}

static enum gk_status limits(struct work *work, struct gk_err *err)
{
    struct gk_kernel_facts facts[GK_LAUNCHES_MAX];
    const struct gk_device_props *dev = &work->bench->device->props;
    double estimate = work->plan.flops * GK_INSTRUCTIONS_A_FLOP;
    if (dev->work_limit < INT64_MAX && estimate > (double)dev->work_limit) {
        gk_record_fail(
            work->record, GK_STAGE_LIMITS, GK_FAILURE_WORK_LIMIT,
            "%.3g floating-point operations are about %.3g thread instructions; device %s "
            "takes %" PRId64 " a trial",
            work->plan.flops, estimate, dev->device, dev->work_limit);
        return GK_OK;
    }
    gk_trial_facts(&work->plan, work->trial->codes, dev, facts, work->record);
    enum gk_status status = gk_plan_refine(&work->plan, facts, err);
    if (status == GK_INPUT || status == GK_RANGE || status == GK_LIMIT) {
        gk_record_fail(work->record, GK_STAGE_LIMITS, GK_FAILURE_RESOURCES, "%s", err->text);
        return GK_OK;
    }
    return status;
}

static enum gk_status load(struct work *work, struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    enum gk_status status =
        gk_plan_load(device, &work->plan, work->trial->codes, &work->loaded, err);
    if (status == GK_UNSUPPORTED) {
        gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_UNSUPPORTED, "%s", err->text);
        return GK_OK;
    }
    if (status != GK_OK && status != GK_NOMEM) {
        gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_LOAD_ERROR, "%s", err->text);
        return GK_OK;
    }
    if (status == GK_OK && !work->bench->scenes) {
        status = gk_memory_make(device, &work->plan, &work->memory, err);
        if (status == GK_LIMIT || status == GK_NOMEM) {
            gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_MEMORY, "%s", err->text);
            return GK_OK;
        }
    }
    return status;
}

/* ------------------------------------------------------------------ what both ladders say */

const char *trial_rung_name(uint32_t set, bool first)
{
    static const char *const names[] = {"reference", "reference_1", "reference_2", "reference_3"};
    return first ? names[0] : names[set % 4];
}

void trial_add_rung(struct gk_record *record, const char *name, const struct gk_verdict *verdict)
{
    if (record->rung_count < GK_RUNGS_MAX) {
        struct gk_rung *rung = &record->rungs[record->rung_count++];
        *rung = verdict->rung;
        (void)snprintf(rung->name, sizeof rung->name, "%s", name);
    }
}

int64_t trial_compared(const struct work *work, uint32_t tensor)
{
    const struct gk_plan_tensor *planned = &work->plan.tensors[tensor];
    if (planned->def->rows_owner < 0 || planned->rank == 0 || planned->extents[0] == 0) {
        return planned->elements;
    }
    const struct gk_series *series = &work->trial->problem->series[planned->def->rows_owner];
    int64_t rows = 0;
    for (uint32_t i = 0; i < series->count; i++) {
        rows += series->values[i];
    }
    rows = rows < planned->extents[0] ? rows : planned->extents[0];
    return planned->elements / planned->extents[0] * rows;
}

enum gk_status trial_tolerance(const struct work *work, uint32_t tensor, enum gk_input_kind inputs,
                               struct gk_verify_input *input, struct gk_err *err)
{
    enum gk_status status =
        gk_plan_tolerance(&work->plan, tensor, &input->scale, &input->norm, err);
    if (inputs == GK_INPUTS_EXTREME || inputs == GK_INPUTS_EXACT) {
        input->norm = -1; /* it is for ordinary data */
    }
    input->check_magnitude =
        inputs == GK_INPUTS_EXACT && !(work->plan.op->exact_bounded >> tensor & 1);
    input->exact = input->check_magnitude || (work->plan.op->exact_outputs >> tensor & 1);
    return status;
}

const char *trial_beside_name(enum gk_input_kind inputs)
{
    return inputs == GK_INPUTS_EXACT     ? "exact"
           : inputs == GK_INPUTS_EXTREME ? "extreme"
                                         : "alignment";
}

enum gk_status trial_take_run(struct work *work, enum gk_status status, struct gk_err *err)
{
    if (status == GK_TRIAL) {
        gk_record_fail(work->record, GK_STAGE_RUN, work->run.report.failure, "launch %s: %s",
                       work->run.launch, work->run.report.text);
        return GK_OK;
    }
    if (status == GK_INPUT || status == GK_LIMIT || status == GK_UNSUPPORTED) {
        gk_record_fail(work->record, GK_STAGE_RUN,
                       status == GK_UNSUPPORTED ? GK_FAILURE_UNSUPPORTED : GK_FAILURE_LAUNCH_ERROR,
                       "%s", err->text);
        return GK_OK;
    }
    return status;
}

/* ------------------------------------------------------------------ the vendor's library */

#define VENDOR_WORKSPACE_BYTES                                                                     \
    (UINT64_C(64) << 20) /* more than any of our splits takes at M <= 128 */

static enum gk_status open_vendor(struct work *work, struct gk_err *err)
{
    const struct gk_trial *trial = work->trial;
    struct gk_device *device = work->bench->device;
    enum gk_status status =
        gk_plan_reference(trial->op, trial->problem, &device->props, &work->plan, err);
    if (status == GK_OK && !work->bench->scenes) {
        status = gk_fail(err, GK_UNSUPPORTED, "device %s times nothing", device->props.device);
    }
    if (status == GK_OK) {
        status = gk_vendor_open(device, trial->vendor_places, &work->plan, VENDOR_WORKSPACE_BYTES,
                                &work->vendor, err);
    }
    if (status == GK_OK) {
        status = gk_buffer_make(device, "vendor workspace", VENDOR_WORKSPACE_BYTES, 256,
                                &work->memory.workspaces[0], err);
    }
    if (status != GK_OK && status != GK_NOMEM) {
        gk_record_fail(work->record, GK_STAGE_LOAD,
                       status == GK_UNSUPPORTED ? GK_FAILURE_UNSUPPORTED : GK_FAILURE_LOAD_ERROR,
                       "%s", err->text);
        return GK_OK;
    }
    return status;
}

/* The scene is there after the ladder has run the library's first result; then the fastest is
 * found, and that one is verified too. */
static enum gk_status choose_vendor(struct work *work, struct gk_err *err)
{
    enum gk_status status = trial_vendor_choose(work, err);
    if (status == GK_UNSUPPORTED || status == GK_INPUT) {
        gk_record_fail(work->record, GK_STAGE_RUN, GK_FAILURE_LAUNCH_ERROR, "%s", err->text);
        return GK_OK;
    }
    if (status == GK_TRIAL) {
        if (!trial_failed(work)) { /* a replay's failure stands in the record already */
            gk_record_fail(work->record, GK_STAGE_RUN, GK_FAILURE_LAUNCH_ERROR, "%s", err->text);
        }
        return GK_OK;
    }
    return status == GK_OK && work->vendor_choice > 0 ? trial_device_ladder(work, err) : status;
}

/* ------------------------------------------------------------------ kept between passes */

struct gk_kept {
    struct {
        struct gk_hash key;
        struct work *work; /* NULL: none */
    } entries[GK_KEPT_MAX];
    uint32_t next;
};

static void work_destroy(struct work *work)
{
    if (!work) {
        return;
    }
    struct gk_device *device = work->bench->device;
    trial_recording_drop(work, &work->recording);
    if (work->bench->scenes) { /* tensors are the scene's */
        memset(work->memory.tensors, 0, sizeof work->memory.tensors);
    }
    gk_memory_free(device, &work->memory);
    gk_vendor_close(work->vendor);
    gk_plan_unload(device, &work->loaded);
    gk_plan_fini(&work->plan);
    free(work);
}

struct gk_kept *gk_kept_create(void)
{
    return calloc(1, sizeof(struct gk_kept));
}

void gk_kept_clear(const struct gk_trial_bench *bench)
{
    for (uint32_t i = 0; bench->kept && i < GK_KEPT_MAX; i++) {
        work_destroy(bench->kept->entries[i].work);
        bench->kept->entries[i].work = NULL;
    }
}

void gk_kept_destroy(const struct gk_trial_bench *bench)
{
    gk_kept_clear(bench);
    free(bench->kept);
}

/* Takes it out of the list. NULL: none, or its scene is gone. */
static struct work *kept_take(const struct gk_trial_bench *bench, const struct gk_hash *key)
{
    for (uint32_t i = 0; bench->kept && i < GK_KEPT_MAX; i++) {
        struct work *work = bench->kept->entries[i].work;
        if (work && gk_hash_equal(&bench->kept->entries[i].key, key)) {
            bench->kept->entries[i].work = NULL;
            if (gk_scene_alive(bench->scenes, work->scene_id)) {
                return work;
            }
            work_destroy(work);
        }
    }
    return NULL;
}

static bool kept_any(const struct gk_trial_bench *bench)
{
    bool any = false;
    for (uint32_t i = 0; bench->kept && i < GK_KEPT_MAX; i++) {
        any = any || bench->kept->entries[i].work;
    }
    return any;
}

/* What was recorded over a scene that is gone can never run again, but holds its workspaces. */
static void kept_sweep(const struct gk_trial_bench *bench)
{
    for (uint32_t i = 0; bench->kept && i < GK_KEPT_MAX; i++) {
        struct work *work = bench->kept->entries[i].work;
        if (work && !gk_scene_alive(bench->scenes, work->scene_id)) {
            bench->kept->entries[i].work = NULL;
            work_destroy(work);
        }
    }
}

/* Into a free place, else the one filled longest ago: a round whose order changes with every pass
 * must not push out what it has not come to yet. */
static void kept_put(const struct gk_trial_bench *bench, const struct gk_hash *key,
                     struct work *work)
{
    struct gk_kept *kept = bench->kept;
    uint32_t at = 0;
    while (at < GK_KEPT_MAX && kept->entries[at].work) {
        at++;
    }
    at = at < GK_KEPT_MAX ? at : kept->next++ % GK_KEPT_MAX;
    work_destroy(kept->entries[at].work);
    kept->entries[at].key = *key;
    kept->entries[at].work = work;
}

/* ------------------------------------------------------------------ the whole */

struct gk_effort gk_effort_search(void)
{
    return (struct gk_effort){.samples_min = 1, .samples_max = 16, .budget_ns = 3.5e7};
}

struct gk_effort gk_effort_pass(bool sustained)
{
    struct gk_effort burst = {.samples_min = 1, .samples_max = 3, .budget_ns = 1.5e7};
    struct gk_effort block = {
        .samples_min = 1, .samples_max = 1, .warm_ns = 0.1e9, .block_ns = 0.2e9};
    return sustained ? block : burst;
}

static bool finish(struct work *work)
{
    struct gk_record *record = work->record;
    const struct gk_device_report *report = &work->run.report;
    bool good = record->counts != NULL;
    for (uint32_t i = 0; i < report->counter_count && good; i++) {
        good = gk_json_set_int(record->counts, report->counters[i].name,
                               (int64_t)report->counters[i].value);
    }
    record->modelled = work->bench->device->props.modelled;
    record->plan_ns = work->run.plan_ns;
    record->stage = GK_STAGE_DONE;
    return good;
}

struct step {
    const char *name; /* of its cost among the record's counts; NULL: too small to tell */
    enum gk_status (*run)(struct work *, struct gk_err *);
};

static enum gk_status note_estimate(struct work *work, struct gk_err *err)
{
    (void)err;
    work->estimate_ns = work->run.run_ns;
    return GK_OK;
}

/* Verifying once more looks around as well. */
static enum gk_status look_again(struct work *work, struct gk_err *err)
{
    return work->trial->input_set == GK_INPUT_SETS_ALL && !work->trial->measure_only
               ? trial_device_again(work, err)
               : trial_device_audit(work, err);
}

static enum gk_status run_step(struct work *work, const struct step *step, struct gk_err *err)
{
    uint64_t (*now_ns)(void) = work->bench->now_ns;
    uint64_t begin = now_ns ? now_ns() : 0;
    enum gk_status status = step->run(work, err);
    if (status == GK_OK && now_ns && step->name) {
        int64_t spent = (int64_t)(now_ns() - begin);
        work->record->measure_ns += step->run == trial_device_measure ? (double)spent : 0;
        if (!gk_json_set_int(work->record->counts, step->name, spent)) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return status;
}

static enum gk_status run_steps(struct work *work, struct gk_err *err)
{
    static const struct step host[] = {{NULL, render},
                                       {NULL, limits},
                                       {NULL, load},
                                       {NULL, trial_host_ladder},
                                       {NULL, trial_host_measure},
                                       {NULL, NULL}};
    static const struct step device[] = {{"wall_render_ns", render},
                                         {"wall_limits_ns", limits},
                                         {"wall_load_ns", load},
                                         {"wall_ladder_ns", trial_device_ladder},
                                         {NULL, note_estimate},
                                         {"wall_measure_ns", trial_device_measure},
                                         {"wall_again_ns", look_again},
                                         {"wall_check_ns", trial_device_check},
                                         {NULL, NULL}};
    static const struct step vendor[] = {
        {"wall_load_ns", open_vendor},         {"wall_ladder_ns", trial_device_ladder},
        {"wall_choose_ns", choose_vendor},     {"wall_measure_ns", trial_device_measure},
        {"wall_again_ns", trial_device_audit}, {NULL, NULL}};
    static const struct step again[] = {{"wall_measure_ns", trial_device_measure},
                                        {"wall_again_ns", trial_device_audit},
                                        {NULL, NULL}};
    const struct step *steps = !work->trial->template_ ? vendor
                               : work->bench->scenes   ? device
                                                       : host;
    enum gk_status status = GK_OK;
    work->record->counts = gk_json_new_object();
    steps = work->scene && work->trial->measure_only ? again : steps;
    while (steps->run && status == GK_OK && !trial_failed(work)) {
        status = run_step(work, steps++, err);
    }
    return status;
}

static enum gk_status attempt(const struct gk_trial_bench *bench, const struct gk_trial *trial,
                              struct gk_record *record_out, struct gk_err *err)
{
    bool keeps = trial->keep && bench->kept && bench->scenes;
    struct work *work = keeps && trial->measure_only ? kept_take(bench, trial->keep) : NULL;
    work = work ? work : calloc(1, sizeof *work);
    if (!work) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    work->bench = bench;
    work->trial = trial;
    work->record = record_out;
    enum gk_status status = run_steps(work, err);
    if (status == GK_OK && !trial_failed(work) && !finish(work)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (keeps && status == GK_OK && !trial_failed(work)) {
        work->trial = NULL;
        work->record = NULL;
        kept_put(bench, trial->keep, work);
    } else {
        work_destroy(work);
    }
    kept_sweep(bench);
    return status;
}

/* What is kept of an earlier round, or of other problems, is no reason to fail a candidate: another
 * process may have taken of the device's memory what was counted on. False: there was nothing. */
static bool give_back(const struct gk_trial_bench *bench)
{
    if (!bench->scenes || bench->device->ops->health(bench->device, NULL) != GK_OK) {
        return false;
    }
    bool any = kept_any(bench);
    gk_kept_clear(bench);
    return gk_scenes_drop_others(bench->scenes) || any;
}

enum gk_status gk_trial_run(const struct gk_trial_bench *bench, const struct gk_trial *trial,
                            struct gk_record *record_out, struct gk_err *err)
{
    struct gk_err own = {0};
    err = err ? err : &own;
    enum gk_status status = attempt(bench, trial, record_out, err);
    bool no_room =
        record_out->failure == GK_FAILURE_MEMORY || record_out->failure == GK_FAILURE_REFERENCE;
    if (status == GK_OK && no_room && give_back(bench)) {
        gk_record_fini(record_out);
        gk_record_init(record_out);
        status = attempt(bench, trial, record_out, err);
    }
    return status;
}
