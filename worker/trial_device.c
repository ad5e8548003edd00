/*
 * The ladder where the device compares: see scene.h. Both rungs of a trial run behind one another,
 * each in a slot of its own, and are looked at together, so that hidden memory is unmapped once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/generate.h"
#include "worker/numeric.h"
#include "worker/trial_inside.h"
#include "worker/vendor.h"

#define RUNS_MAX (GK_INPUT_SETS + GK_BESIDES_MAX)

struct climb { /* the runs of one ladder */
    uint32_t slots[RUNS_MAX];
    enum gk_input_kind inputs[RUNS_MAX];
    const char *names[RUNS_MAX];
    uint32_t count;
};

/* ------------------------------------------------------------------ workspaces */

static enum gk_status make_workspaces(struct work *work, struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    const struct gk_plan *plan = &work->plan;
    uint32_t count = plan->template_ ? plan->template_->workspace_count : 0;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < count && status == GK_OK; i++) {
        const struct gk_plan_workspace *workspace = &plan->workspaces[i];
        if (workspace->present) {
            status = gk_buffer_make(device, workspace->def->name, (uint64_t)workspace->bytes,
                                    (uint64_t)workspace->align, &work->memory.workspaces[i], err);
        }
    }
    if (status == GK_LIMIT || status == GK_NOMEM) {
        gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_MEMORY, "%s", err->text);
        return GK_OK;
    }
    return status;
}

/* `any`: poison; `zero_kept`: zero before the first run, afterwards the kernel's to restore. Those
 * of `zero` are zeroed by the pipeline itself, inside the timed part. */
static enum gk_status reset_workspaces(struct work *work, bool first, struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    const struct gk_plan *plan = &work->plan;
    uint32_t count = plan->template_ ? plan->template_->workspace_count : 0;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < count && status == GK_OK; i++) {
        const struct gk_plan_workspace *workspace = &plan->workspaces[i];
        const struct gk_buffer *buffer = &work->memory.workspaces[i];
        unsigned char pattern[8] = {0};
        bool any = workspace->present && workspace->def->init == GK_WS_ANY;
        bool kept = workspace->present && workspace->def->init == GK_WS_ZERO_KEPT && first;
        if (any) {
            gk_element_poison(workspace->def->dtype, pattern);
        }
        if ((any || kept) && buffer->bytes > 0) {
            status = device->ops->fill(device, buffer->address, buffer->bytes, pattern,
                                       any ? gk_dtype_bytes(workspace->def->dtype) : 1, err);
        }
    }
    return status;
}

static enum gk_status audit_workspace(struct work *work, uint32_t index, struct gk_err *err)
{
    const struct gk_plan_workspace *workspace = &work->plan.workspaces[index];
    const struct gk_buffer *buffer = &work->memory.workspaces[index];
    struct gk_device *device = work->bench->device;
    uint64_t changed = 0;
    int64_t offset = 0;
    enum gk_status status = gk_buffer_check(device, buffer, &changed, &offset, err);
    if (status == GK_OK && changed > 0) {
        gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_CANARY,
                       "workspace %s: %" PRIu64 " bytes around the buffer changed, first at byte "
                       "%" PRId64 " (the buffer has bytes 0 to %" PRIu64 ")",
                       workspace->def->name, changed, offset, buffer->bytes);
    }
    if (status == GK_OK && !trial_failed(work) && workspace->def->init == GK_WS_ZERO_KEPT) {
        status = trial_kept_zero(work, index, err);
    }
    return status;
}

/* Between two runs hidden memory stays unmapped, so the host looks: a zero_kept workspace is a few
 * counters. What one run leaves dirty must not be blamed on the next. */
static enum gk_status audit_between(struct work *work, struct gk_err *err)
{
    const struct gk_plan *plan = &work->plan;
    uint32_t count = plan->template_ ? plan->template_->workspace_count : 0;
    for (uint32_t i = 0; i < count && !trial_failed(work); i++) {
        const struct gk_plan_workspace *workspace = &plan->workspaces[i];
        if (workspace->present && workspace->def->init == GK_WS_ZERO_KEPT) {
            enum gk_status status = trial_kept_zero(work, i, err);
            if (status != GK_OK) {
                return status;
            }
        }
    }
    return GK_OK;
}

static enum gk_status audit_workspaces(struct work *work, struct gk_err *err)
{
    const struct gk_plan *plan = &work->plan;
    uint32_t count = plan->template_ ? plan->template_->workspace_count : 0;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < count && status == GK_OK && !trial_failed(work); i++) {
        if (plan->workspaces[i].present) {
            status = audit_workspace(work, i, err);
        }
    }
    return status;
}

/* ------------------------------------------------------------------ runs */

void trial_slot_memory(const struct work *work, uint32_t slot, struct gk_memory *memory)
{
    memcpy(memory->workspaces, work->memory.workspaces, sizeof memory->workspaces);
    gk_scene_memory(work->scene, slot, memory);
}

static enum gk_status issue_vendor(struct work *work, const struct gk_memory *memory,
                                   struct gk_err *err)
{
    uint64_t addresses[GK_TENSORS_MAX] = {0};
    for (uint32_t i = 0; i < work->plan.op->tensor_count; i++) {
        const struct gk_plan_tensor *tensor = &work->plan.tensors[i];
        if (tensor->present) {
            addresses[i] = memory->tensors[i].address +
                           (uint64_t)tensor->offset * gk_dtype_bytes(tensor->dtype);
        }
    }
    const struct gk_buffer *workspace = &work->memory.workspaces[0];
    return gk_vendor_enqueue(work->vendor, work->vendor_choice, addresses, workspace->address,
                             workspace->bytes, err);
}

enum gk_status trial_issue(struct work *work, uint32_t slot, struct gk_err *err)
{
    struct gk_memory memory = {0};
    trial_slot_memory(work, slot, &memory);
    return work->vendor
               ? issue_vendor(work, &memory, err)
               : gk_plan_issue(work->bench->device, &work->plan, &work->loaded, &memory,
                               work->trial->policy == GK_POLICY_COLD_GRAPH_PDL, &work->run, err);
}

/* Plan-phase launches and all; times are added to the record's. */
static enum gk_status run_slot(struct work *work, uint32_t slot, struct gk_err *err)
{
    struct gk_memory memory = {0};
    struct gk_device *device = work->bench->device;
    enum gk_status status = GK_OK;
    trial_slot_memory(work, slot, &memory);
    if (work->vendor) {
        status = issue_vendor(work, &memory, err);
        if (status == GK_TRIAL || status == GK_UNSUPPORTED || status == GK_INPUT) {
            gk_record_fail(work->record, GK_STAGE_RUN, GK_FAILURE_LAUNCH_ERROR, "%s", err->text);
            status = GK_OK;
        }
        return status;
    }
    for (uint32_t i = 0; i < work->plan.template_->workspace_count && status == GK_OK; i++) {
        const struct gk_plan_workspace *workspace = &work->plan.workspaces[i];
        const struct gk_buffer *buffer = &work->memory.workspaces[i];
        const unsigned char zero = 0;
        if (workspace->present && workspace->def->init == GK_WS_ZERO && buffer->bytes > 0) {
            status = device->ops->fill(device, buffer->address, buffer->bytes, &zero, 1, err);
        }
    }
    if (status == GK_OK) {
        status = gk_plan_run(device, &work->plan, &work->loaded, &memory, &work->run, err);
        work->record->gpu_verify_ns += work->run.plan_ns + work->run.run_ns;
        status = trial_take_run(work, status, err);
    }
    return status;
}

static enum gk_status look(struct work *work, const struct climb *climb, uint32_t at,
                           struct gk_err *err)
{
    uint32_t slot = climb->slots[at];
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < work->plan.op->tensor_count && status == GK_OK && !trial_failed(work);
         i++) {
        const struct gk_plan_tensor *tensor = &work->plan.tensors[i];
        struct gk_verdict verdict;
        struct gk_verify_input input = {
            .tensor = tensor,
            .compare = trial_compared(work, i),
        };
        if (!tensor->present || tensor->def->role == GK_TENSOR_IN) {
            continue;
        }
        status = trial_tolerance(work, i, climb->inputs[at], &input, err);
        if (status == GK_OK) {
            status = gk_scene_check(work->scene, slot, i, &input, &verdict, err);
        }
        if (status == GK_OK) {
            trial_add_rung(work->record, climb->names[at], &verdict);
        }
        if (status == GK_OK && verdict.failure != GK_FAILURE_NONE) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, verdict.failure, "rung %s: %s",
                           climb->names[at], verdict.text);
        }
    }
    return status;
}

static enum gk_status references(struct work *work, const struct climb *climb, struct gk_err *err)
{
    for (uint32_t i = 0; i < climb->count; i++) {
        enum gk_status status = gk_scene_reference(
            work->scene, work->trial->problem, climb->slots[i], work->trial->reference_code, err);
        if (status != GK_OK) {
            gk_record_fail(work->record, GK_STAGE_VERIFY, GK_FAILURE_REFERENCE, "%s", err->text);
            return status == GK_NOMEM ? status : GK_OK;
        }
    }
    return GK_OK;
}

/* How long a candidate may take before the device counts as hung: two seconds more than a thousand
 * times what the memory and the tensor cores need at least. What is slower is of no use. */
#define PATIENCE_MIN_MS      2000
#define PATIENCE_OF_FLOOR    1000
#define PATIENCE_OF_EXPECTED 4 /* of what such a piece of work took before */
#define PATIENCE_MAX_MS      60000

void trial_set_patience(const struct work *work, double expected_ns)
{
    double ms =
        PATIENCE_MIN_MS +
        (trial_floor_ns(work) * PATIENCE_OF_FLOOR + expected_ns * PATIENCE_OF_EXPECTED) / 1e6;
    if (work->bench->device->ops->patience) {
        work->bench->device->ops->patience(work->bench->device,
                                           ms < PATIENCE_MAX_MS ? (uint64_t)ms : PATIENCE_MAX_MS);
    }
}

static enum gk_status go(struct work *work, const struct climb *climb, bool dirty,
                         struct gk_err *err)
{
    enum gk_status status = references(work, climb, err);
    if (status != GK_OK || trial_failed(work)) {
        return status;
    }
    trial_set_patience(work, 0);
    status = gk_scene_reset(work->scene, err);
    for (uint32_t i = 0; i < climb->count && status == GK_OK && !trial_failed(work); i++) {
        status = dirty ? GK_OK : reset_workspaces(work, !work->started, err);
        work->started = true;
        if (status == GK_OK) {
            status = run_slot(work, climb->slots[i], err);
        }
        if (status == GK_OK && !trial_failed(work) && i + 1 < climb->count) {
            status = audit_between(work, err);
        }
    }
    if (status == GK_OK && trial_failed(work)) {
        /* Nobody has looked around yet. A lost device refuses, and nobody comes after this one. */
        (void)gk_scene_clean(work->scene, NULL);
    }
    if (status != GK_OK || trial_failed(work)) {
        return status;
    }
    status = gk_scene_audit(work->scene, climb->slots, climb->count, work->record, err);
    if (status == GK_OK && !trial_failed(work)) {
        status = audit_workspaces(work, err);
    }
    for (uint32_t i = 0; i < climb->count && status == GK_OK && !trial_failed(work); i++) {
        status = look(work, climb, i, err);
    }
    return status;
}

static void add_run(struct climb *climb, uint32_t slot, enum gk_input_kind inputs, const char *name)
{
    climb->slots[climb->count] = slot;
    climb->inputs[climb->count] = inputs;
    climb->names[climb->count++] = name;
}

enum gk_status trial_device_ladder(struct work *work, struct gk_err *err)
{
    const struct gk_trial *trial = work->trial;
    struct climb climb = {0};
    struct gk_besides beside = {0};
    enum gk_status status = gk_inputs_beside(&work->plan, &beside, err);
    if (status == GK_OK) {
        status = gk_scene_get(work->bench->scenes, &work->plan, trial->problem, &beside,
                              &work->scene, err);
        if (status == GK_LIMIT || status == GK_NOMEM) {
            gk_record_fail(work->record, GK_STAGE_LOAD, GK_FAILURE_MEMORY, "%s", err->text);
            return GK_OK;
        }
    }
    if (status == GK_OK) {
        work->scene_id = gk_scene_id(work->scene);
        status = work->vendor ? GK_OK : make_workspaces(work, err);
    }
    if (status != GK_OK || trial_failed(work)) {
        return status;
    }
    uint32_t sets =
        gk_scene_slots(work->scene) < GK_INPUT_SETS ? gk_scene_slots(work->scene) : GK_INPUT_SETS;
    bool all = trial->input_set == GK_INPUT_SETS_ALL;
    uint32_t first = all ? 0 : trial->input_set % sets, last = all ? sets - 1 : first;
    work->record->input_set = first;
    work->record->gpu_verify_ns = 0;
    for (uint32_t i = 0; i < gk_scene_slots_beside(work->scene); i++) {
        enum gk_input_kind kind = i < beside.count ? beside.kinds[i] : GK_INPUTS_DRAWN;
        add_run(&climb, gk_scene_slot_beside(work->scene, i), kind, trial_beside_name(kind));
    }
    for (uint32_t set = first; set <= last; set++) {
        add_run(&climb, gk_scene_slot_of(work->scene, set), GK_INPUTS_DRAWN,
                trial_rung_name(set, set == first));
    }
    return go(work, &climb, false, err);
}

enum gk_status trial_device_audit(struct work *work, struct gk_err *err)
{
    enum gk_status status = gk_scene_audit_timed(work->scene, work->record, err);
    return status == GK_OK && !trial_failed(work) ? audit_workspaces(work, err) : status;
}

enum gk_status trial_device_again(struct work *work, struct gk_err *err)
{
    struct climb climb = {0};
    add_run(&climb, gk_scene_slot_of(work->scene, work->record->input_set), GK_INPUTS_DRAWN,
            "after_timing");
    return go(work, &climb, true, err);
}
