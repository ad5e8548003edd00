/* One trial: see trial.h. */
#include "worker/trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/compile_log.h"
#include "worker/measure.h"
#include "worker/verify.h"

/* The reference takes some 20 thread instructions for the two operations of a product in double. */
#define INSTRUCTIONS_PER_FLOP 10

struct work { /* of one trial; owned pieces */
    const struct gk_trial_bench *bench;
    const struct gk_trial *trial;
    struct gk_record *record;
    struct gk_plan plan;
    struct gk_loaded loaded;
    struct gk_memory memory;
    struct gk_run run;
    bool started; /* a run has been made: zero_kept workspaces are the kernel's now */
};

double gk_trial_work(double flops)
{
    return flops * INSTRUCTIONS_PER_FLOP;
}

static bool failed(const struct work *work)
{
    return work->record->failure != GK_FAILURE_NONE;
}

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
    double estimate = gk_trial_work(work->plan.flops);
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
    if (status == GK_OK) {
        status = gk_memory_make(device, &work->plan, &work->memory, err);
        if (status == GK_LIMIT || status == GK_NOMEM) {
            gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_MEMORY, "%s", err->text);
            return GK_OK;
        }
    }
    return status;
}

/* ------------------------------------------------------------------ one run */

static enum gk_status run_once(struct work *work, const struct gk_inputs *inputs,
                               struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    enum gk_status status =
        gk_memory_reset(device, &work->plan, &work->memory, inputs, !work->started, err);
    if (status != GK_OK) {
        return status;
    }
    work->started = true;
    status = gk_plan_run(device, &work->plan, &work->loaded, &work->memory, &work->run, err);
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

/* ------------------------------------------------------------------ after a run */

static enum gk_status check_guards(struct work *work, const struct gk_buffer *buffer,
                                   const char *name, struct gk_err *err)
{
    uint64_t changed = 0;
    int64_t offset = 0;
    if (!buffer->base || failed(work)) {
        return GK_OK;
    }
    enum gk_status status = gk_buffer_check(work->bench->device, buffer, &changed, &offset, err);
    if (status == GK_OK && changed > 0) {
        gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_CANARY,
                       "%s: %" PRIu64 " bytes around the buffer changed, first at byte %" PRId64
                       " (the buffer has bytes 0 to %" PRIu64 ")",
                       name, changed, offset, buffer->bytes);
    }
    return status;
}

static enum gk_status check_input(struct work *work, uint32_t tensor, const unsigned char *before,
                                  struct gk_err *err)
{
    const struct gk_buffer *buffer = &work->memory.tensors[tensor];
    const char *name = work->plan.tensors[tensor].def->name;
    struct gk_device *device = work->bench->device;
    unsigned char *after = malloc((size_t)buffer->bytes + 1);
    if (!after) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status =
        buffer->bytes ? device->ops->read(device, buffer->address, after, buffer->bytes, err)
                      : GK_OK;
    if (status == GK_OK) {
        int64_t at = gk_first_difference(before, after, (size_t)buffer->bytes);
        if (at >= 0) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_INPUT_CHANGED,
                           "input %s changed, first at byte %" PRId64, name, at);
        }
    }
    free(after);
    return status;
}

static enum gk_status check_workspace(struct work *work, uint32_t index, struct gk_err *err)
{
    const struct gk_plan_workspace *workspace = &work->plan.workspaces[index];
    const struct gk_buffer *buffer = &work->memory.workspaces[index];
    struct gk_device *device = work->bench->device;
    if (!workspace->present || workspace->def->init != GK_WS_ZERO_KEPT || buffer->bytes == 0) {
        return GK_OK;
    }
    unsigned char *bytes = malloc((size_t)buffer->bytes);
    if (!bytes) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = device->ops->read(device, buffer->address, bytes, buffer->bytes, err);
    for (uint64_t i = 0; status == GK_OK && i < buffer->bytes; i++) {
        if (bytes[i] != 0) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_WORKSPACE,
                           "workspace %s (zero_kept) was left with %u at byte %" PRIu64,
                           workspace->def->name, bytes[i], i);
            break;
        }
    }
    free(bytes);
    return status;
}

static enum gk_status check_surroundings(struct work *work, const struct gk_inputs *inputs,
                                         struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < work->plan.op->tensor_count && status == GK_OK; i++) {
        const struct gk_plan_tensor *tensor = &work->plan.tensors[i];
        if (!tensor->present) {
            continue;
        }
        status = check_guards(work, &work->memory.tensors[i], tensor->def->name, err);
        if (status == GK_OK && tensor->def->role == GK_TENSOR_IN && !failed(work)) {
            status = check_input(work, i, inputs->tensors[i], err);
        }
    }
    for (uint32_t i = 0; i < work->trial->template_->workspace_count && status == GK_OK; i++) {
        if (!failed(work) && work->plan.workspaces[i].present) {
            const char *name = work->plan.workspaces[i].def->name;
            status = check_guards(work, &work->memory.workspaces[i], name, err);
            status = status == GK_OK ? check_workspace(work, i, err) : status;
        }
    }
    return status;
}

static int64_t compared_elements(const struct work *work, uint32_t tensor)
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

static void add_rung(struct gk_record *record, const char *name, const struct gk_verdict *verdict)
{
    if (record->rung_count < GK_RUNGS_MAX) {
        struct gk_rung *rung = &record->rungs[record->rung_count++];
        *rung = verdict->rung;
        (void)snprintf(rung->name, sizeof rung->name, "%s", name);
    }
}

static enum gk_status check_output(struct work *work, uint32_t tensor, const char *rung, bool exact,
                                   const double *pairs, struct gk_err *err)
{
    const struct gk_plan_tensor *planned = &work->plan.tensors[tensor];
    const struct gk_buffer *buffer = &work->memory.tensors[tensor];
    struct gk_device *device = work->bench->device;
    struct gk_verdict verdict;
    struct gk_verify_input input = {
        .tensor = planned,
        .pairs = pairs,
        .compare = compared_elements(work, tensor),
        .exact = exact || (work->plan.op->exact_outputs >> tensor & 1),
        .check_magnitude = exact,
    };
    unsigned char *got = malloc((size_t)buffer->bytes + 1);
    enum gk_status status = got ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && buffer->bytes > 0) {
        status = device->ops->read(device, buffer->address, got, buffer->bytes, err);
    }
    if (status == GK_OK) {
        status = gk_plan_tolerance(&work->plan, tensor, &input.scale, &input.norm, err);
    }
    if (status == GK_OK) {
        input.got = got;
        status = gk_verify(&input, &verdict, err);
    }
    if (status == GK_OK) {
        add_rung(work->record, rung, &verdict);
        if (verdict.failure != GK_FAILURE_NONE) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, verdict.failure, "rung %s: %s", rung,
                           verdict.text);
        }
    }
    free(got);
    return status;
}

/* ------------------------------------------------------------------ the ladder */

static enum gk_status climb(struct work *work, const char *rung, uint32_t input_set, bool exact,
                            struct gk_err *err)
{
    const struct gk_reference *reference = NULL;
    const struct gk_trial *trial = work->trial;
    enum gk_status status =
        gk_reference_get(work->bench->references, work->bench->device, &work->plan, trial->problem,
                         trial->reference_code, input_set, exact, &reference, err);
    if (status != GK_OK) {
        gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_REFERENCE, "%s", err->text);
        return status == GK_NOMEM ? status : GK_OK;
    }
    status = run_once(work, &reference->inputs, err);
    if (status != GK_OK || failed(work)) {
        return status;
    }
    status = check_surroundings(work, &reference->inputs, err);
    for (uint32_t i = 0; i < work->plan.op->tensor_count && status == GK_OK && !failed(work); i++) {
        const struct gk_plan_tensor *tensor = &work->plan.tensors[i];
        if (tensor->present && tensor->def->role != GK_TENSOR_IN) {
            status = check_output(work, i, rung, exact, reference->pairs[i], err);
        }
    }
    return status;
}

static enum gk_status ladder(struct work *work, struct gk_err *err)
{
    static const char *const set_names[] = {"reference", "reference_1", "reference_2",
                                            "reference_3"};
    enum gk_status status = GK_OK;
    int64_t has_exact = 0;
    uint32_t set = work->trial->input_set;
    uint32_t first = set == GK_INPUT_SETS_ALL ? 0 : set % 4;
    uint32_t last = set == GK_INPUT_SETS_ALL ? 3 : first;
    work->record->input_set = first;
    if (work->plan.op->exact_when && !work->trial->measure_only) {
        status = gk_expr_eval_int(work->plan.op->exact_when, work->plan.slots, &has_exact, err);
    }
    if (status == GK_OK && has_exact) {
        status = climb(work, "exact", 0, true, err);
    }
    if (work->trial->measure_only) {
        last = first;
    }
    for (uint32_t i = first; i <= last && status == GK_OK && !failed(work); i++) {
        status = climb(work, i == first ? "reference" : set_names[i], i, false, err);
    }
    return status;
}

/* The pipeline once more, on the buffers as the last verification left them. */
static enum gk_status sample(void *context, double *ns_out, struct gk_err *err)
{
    struct work *work = context;
    struct gk_run *run = calloc(1, sizeof *run);
    if (!run) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status =
        gk_plan_run(work->bench->device, &work->plan, &work->loaded, &work->memory, run, err);
    *ns_out = run->run_ns;
    free(run);
    return status;
}

static enum gk_status measure(struct work *work, struct gk_err *err)
{
    const struct gk_measure_rule rule = {.few = 5,
                                         .samples_max = 64,
                                         .half_width = 0.005,
                                         .best_ns = work->trial->best_ns,
                                         .give_up = 2};
    struct gk_record *record = work->record;
    record->time_ns = record->samples_ns[0] = work->run.run_ns;
    record->sample_count = 1;
    if (work->bench->device->props.modelled) {
        return GK_OK; /* deterministic: the verified run's time says it all */
    }
    struct gk_measured *measured = calloc(1, sizeof *measured);
    if (!measured) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_measure(&rule, sample, work, measured, err);
    if (status == GK_OK) {
        memcpy(record->samples_ns, measured->samples_ns, sizeof record->samples_ns);
        record->sample_count = measured->count;
        record->time_ns = measured->median_ns;
    } else if (status != GK_NOMEM) {
        gk_record_fail(record, GK_STAGE_MEASURE, GK_FAILURE_UNSTABLE, "%s", err->text);
        status = GK_OK;
    }
    free(measured);
    return status;
}

static bool finish(struct work *work)
{
    struct gk_record *record = work->record;
    const struct gk_device_report *report = &work->run.report;
    record->counts = gk_json_new_object();
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

enum gk_status gk_trial_run(const struct gk_trial_bench *bench, const struct gk_trial *trial,
                            struct gk_record *record_out, struct gk_err *err)
{
    enum gk_status (*const steps[])(struct work *, struct gk_err *) = {render, limits, load, ladder,
                                                                       measure};
    enum gk_status status = GK_OK;
    struct gk_err own = {0};
    struct work *work = calloc(1, sizeof *work);
    err = err ? err : &own;
    if (!work) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    work->bench = bench;
    work->trial = trial;
    work->record = record_out;
    for (size_t i = 0; i < GK_ARRAY_COUNT(steps) && status == GK_OK && !failed(work); i++) {
        status = steps[i](work, err);
    }
    if (status == GK_OK && !failed(work) && !finish(work)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_memory_free(bench->device, &work->memory);
    gk_plan_unload(bench->device, &work->loaded);
    gk_plan_fini(&work->plan);
    free(work);
    return status;
}
