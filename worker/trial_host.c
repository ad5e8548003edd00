/*
 * The ladder where the host compares: small devices, and those that see every access themselves
 * (the emulated one). Each rung resets every buffer, runs the pipeline, reads back, looks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/trial_inside.h"

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
    return trial_take_run(work, status, err);
}

/* ------------------------------------------------------------------ after a run */

static enum gk_status check_guards(struct work *work, const struct gk_buffer *buffer,
                                   const char *name, struct gk_err *err)
{
    uint64_t changed = 0;
    int64_t offset = 0;
    if (!buffer->base || trial_failed(work)) {
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

enum gk_status trial_kept_zero(struct work *work, uint32_t index, struct gk_err *err)
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
        if (status == GK_OK && tensor->def->role == GK_TENSOR_IN && !trial_failed(work)) {
            status = check_input(work, i, inputs->tensors[i], err);
        }
    }
    for (uint32_t i = 0; i < work->trial->template_->workspace_count && status == GK_OK; i++) {
        if (!trial_failed(work) && work->plan.workspaces[i].present) {
            const char *name = work->plan.workspaces[i].def->name;
            status = check_guards(work, &work->memory.workspaces[i], name, err);
            status = status == GK_OK ? trial_kept_zero(work, i, err) : status;
        }
    }
    return status;
}

static enum gk_status check_output(struct work *work, uint32_t tensor, const char *rung,
                                   enum gk_input_kind inputs, const double *pairs,
                                   struct gk_err *err)
{
    const struct gk_plan_tensor *planned = &work->plan.tensors[tensor];
    const struct gk_buffer *buffer = &work->memory.tensors[tensor];
    struct gk_device *device = work->bench->device;
    struct gk_verdict verdict;
    struct gk_verify_input input = {
        .tensor = planned,
        .pairs = pairs,
        .compare = trial_compared(work, tensor),
    };
    unsigned char *got = malloc((size_t)buffer->bytes + 1);
    enum gk_status status = got ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && buffer->bytes > 0) {
        status = device->ops->read(device, buffer->address, got, buffer->bytes, err);
    }
    if (status == GK_OK) {
        status = trial_tolerance(work, tensor, inputs, &input, err);
    }
    if (status == GK_OK) {
        input.got = got;
        status = gk_verify(&input, &verdict, err);
    }
    if (status == GK_OK) {
        trial_add_rung(work->record, rung, &verdict);
        if (verdict.failure != GK_FAILURE_NONE) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, verdict.failure, "rung %s: %s", rung,
                           verdict.text);
        }
    }
    free(got);
    return status;
}

/* ------------------------------------------------------------------ the ladder */

static enum gk_status climb(struct work *work, const char *rung, uint32_t input_set,
                            enum gk_input_kind inputs, struct gk_err *err)
{
    const struct gk_reference *reference = NULL;
    const struct gk_trial *trial = work->trial;
    const struct gk_trial_bench *bench = work->bench;
    enum gk_status status = gk_reference_get(
        bench->references, bench->references_on ? bench->references_on : bench->device, &work->plan,
        trial->problem, trial->reference_code, input_set, inputs, &reference, err);
    if (status != GK_OK) {
        gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_REFERENCE, "%s", err->text);
        return status == GK_NOMEM ? status : GK_OK;
    }
    status = run_once(work, &reference->inputs, err);
    if (status != GK_OK || trial_failed(work)) {
        return status;
    }
    status = check_surroundings(work, &reference->inputs, err);
    for (uint32_t i = 0; i < work->plan.op->tensor_count && status == GK_OK && !trial_failed(work);
         i++) {
        const struct gk_plan_tensor *tensor = &work->plan.tensors[i];
        if (tensor->present && tensor->def->role != GK_TENSOR_IN) {
            status = check_output(work, i, rung, inputs, reference->pairs[i], err);
        }
    }
    return status;
}

#define EXTREME_BESIDE 3u /* input set whose trials have that rung too */

enum gk_status trial_host_ladder(struct work *work, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_besides beside = {0};
    uint32_t set = work->trial->input_set;
    uint32_t first = set == GK_INPUT_SETS_ALL ? 0 : set % 4;
    uint32_t last = set == GK_INPUT_SETS_ALL ? 3 : first;
    work->record->input_set = first;
    if (!work->trial->measure_only) {
        status = gk_inputs_beside(&work->plan, &beside, err);
    }
    if (status == GK_OK && gk_besides_have(&beside, GK_INPUTS_EXACT)) {
        status = climb(work, trial_beside_name(GK_INPUTS_EXACT), 0, GK_INPUTS_EXACT, err);
    }
    if (work->trial->measure_only) {
        last = first;
    }
    for (uint32_t i = first; i <= last && status == GK_OK && !trial_failed(work); i++) {
        status = climb(work, trial_rung_name(i, i == first), i, GK_INPUTS_DRAWN, err);
    }
    /* Every rung is a run of its own here, so that this one goes with one set of four. */
    if (status == GK_OK && !trial_failed(work) && last == EXTREME_BESIDE &&
        gk_besides_have(&beside, GK_INPUTS_EXTREME)) {
        const struct gk_run ordinary = work->run; /* whose modelled time counts */
        status = climb(work, trial_beside_name(GK_INPUTS_EXTREME), 0, GK_INPUTS_EXTREME, err);
        work->run = ordinary;
    }
    return status;
}

/* Only modelled devices come here, and their time is deterministic: that of the verified run. */
enum gk_status trial_host_measure(struct work *work, struct gk_err *err)
{
    struct gk_record *record = work->record;
    (void)err;
    record->time_ns = record->samples_ns[0] = work->run.run_ns;
    record->sample_count = 1;
    return GK_OK;
}
