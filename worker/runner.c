/* A plan on a device: see runner.h. */
#include "worker/runner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/compile_log.h"
#include "worker/numeric.h"

size_t gk_plan_tensor_bytes(const struct gk_plan_tensor *tensor)
{
    return (size_t)tensor->span * gk_dtype_bytes(tensor->dtype);
}

/* ------------------------------------------------------------------ memory */

static bool wants_result(const struct gk_plan *plan, uint32_t tensor)
{
    return !plan->template_ && plan->tensors[tensor].def->role != GK_TENSOR_IN;
}

enum gk_status gk_memory_make(struct gk_device *device, const struct gk_plan *plan,
                              struct gk_memory *memory_out, struct gk_err *err)
{
    struct gk_memory memory = {0};
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < plan->op->tensor_count && status == GK_OK; i++) {
        const struct gk_plan_tensor *tensor = &plan->tensors[i];
        if (!tensor->present) {
            continue;
        }
        bool input = tensor->def->role != GK_TENSOR_OUT;
        if (input || plan->template_) {
            status = gk_buffer_make(device, tensor->def->name, gk_plan_tensor_bytes(tensor),
                                    (uint64_t)tensor->align, &memory.tensors[i], err);
        }
        if (status == GK_OK && wants_result(plan, i)) {
            status = gk_buffer_make(device, tensor->def->name, (uint64_t)tensor->elements * 16, 256,
                                    &memory.results[i], err);
        }
    }
    uint32_t workspaces = plan->template_ ? plan->template_->workspace_count : 0;
    for (uint32_t i = 0; i < workspaces && status == GK_OK; i++) {
        const struct gk_plan_workspace *workspace = &plan->workspaces[i];
        if (workspace->present) {
            status = gk_buffer_make(device, workspace->def->name, (uint64_t)workspace->bytes,
                                    (uint64_t)workspace->align, &memory.workspaces[i], err);
        }
    }
    if (status != GK_OK) {
        gk_memory_free(device, &memory);
        return status;
    }
    *memory_out = memory;
    return GK_OK;
}

void gk_memory_free(struct gk_device *device, struct gk_memory *memory)
{
    for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
        gk_buffer_free(device, &memory->tensors[i]);
        gk_buffer_free(device, &memory->results[i]);
    }
    for (uint32_t i = 0; i < GK_WORKSPACES_MAX; i++) {
        gk_buffer_free(device, &memory->workspaces[i]);
    }
}

static enum gk_status reset_workspace(struct gk_device *device,
                                      const struct gk_plan_workspace *workspace,
                                      const struct gk_buffer *buffer, bool first,
                                      struct gk_err *err)
{
    unsigned char poison[8];
    const uint32_t zero = 0;
    if (buffer->bytes == 0) {
        return GK_OK;
    }
    if (workspace->def->init == GK_WS_ANY) {
        gk_element_poison(workspace->def->dtype, poison);
        return gk_buffer_poison(device, buffer, poison, gk_dtype_bytes(workspace->def->dtype), err);
    }
    if (workspace->def->init == GK_WS_ZERO || first) {
        return device->ops->fill(device, buffer->address, buffer->bytes, &zero, 1, err);
    }
    return GK_OK;
}

enum gk_status gk_memory_reset(struct gk_device *device, const struct gk_plan *plan,
                               const struct gk_memory *memory, const struct gk_inputs *inputs,
                               bool first, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    unsigned char poison[8];
    for (uint32_t i = 0; i < plan->op->tensor_count && status == GK_OK; i++) {
        const struct gk_plan_tensor *tensor = &plan->tensors[i];
        const struct gk_buffer *buffer = &memory->tensors[i];
        if (!tensor->present || !buffer->base || buffer->bytes == 0) {
            continue;
        }
        if (inputs->tensors[i]) {
            status =
                device->ops->write(device, buffer->address, inputs->tensors[i], buffer->bytes, err);
        } else {
            gk_element_poison(tensor->dtype, poison);
            status = gk_buffer_poison(device, buffer, poison, gk_dtype_bytes(tensor->dtype), err);
        }
    }
    uint32_t workspaces = plan->template_ ? plan->template_->workspace_count : 0;
    for (uint32_t i = 0; i < workspaces && status == GK_OK; i++) {
        if (plan->workspaces[i].present) {
            status =
                reset_workspace(device, &plan->workspaces[i], &memory->workspaces[i], first, err);
        }
    }
    return status;
}

/* ------------------------------------------------------------------ modules */

enum gk_status gk_plan_load(struct gk_device *device, const struct gk_plan *plan,
                            const struct gk_compile_output *const *codes,
                            struct gk_loaded *loaded_out, struct gk_err *err)
{
    struct gk_loaded loaded = {0};
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < plan->launch_count && status == GK_OK; i++) {
        const struct gk_plan_launch *launch = &plan->launches[i];
        const struct gk_compile_output *code = codes[i];
        if (!launch->present) {
            continue;
        }
        struct gk_device_code text = {code->ptx, code->ptx_size, code->cubin, code->cubin_size};
        struct gk_compile_facts facts;
        gk_compile_log_read(code->log, launch->def->kernel, &facts);
        loaded.regs[i] = facts.found ? (uint32_t)facts.regs : 0;
        status = device->ops->load(device, &text, &loaded.modules[i], err);
        if (status == GK_OK) {
            status = device->ops->find(device, loaded.modules[i], launch->def->kernel,
                                       &loaded.kernels[i], err);
        }
        if (status != GK_OK) {
            status = gk_fail_in(err, status, "launch %s", launch->def->name);
        }
    }
    if (status != GK_OK) {
        gk_plan_unload(device, &loaded);
        return status;
    }
    *loaded_out = loaded;
    return GK_OK;
}

void gk_plan_unload(struct gk_device *device, struct gk_loaded *loaded)
{
    for (uint32_t i = 0; i < GK_LAUNCHES_MAX; i++) {
        if (loaded->modules[i]) {
            device->ops->unload(device, loaded->modules[i]);
        }
    }
    memset(loaded, 0, sizeof *loaded);
}

/* ------------------------------------------------------------------ launches */

/* Address of a tensor's first element. */
static uint64_t tensor_address(const struct gk_plan *plan, uint32_t tensor,
                               const struct gk_memory *memory)
{
    const struct gk_plan_tensor *planned = &plan->tensors[tensor];
    return memory->tensors[tensor].address +
           (uint64_t)planned->offset * gk_dtype_bytes(planned->dtype);
}

static enum gk_status encode_map(struct gk_device *device, const struct gk_plan *plan,
                                 uint32_t index, const struct gk_memory *memory,
                                 unsigned char bytes_out[128], struct gk_err *err)
{
    const struct gk_plan_map *planned = &plan->maps[index];
    const struct gk_plan_tensor *tensor = &plan->tensors[planned->def->tensor];
    struct gk_device_map map = {.dtype = tensor->dtype,
                                .rank = planned->def->rank,
                                .swizzle = planned->def->swizzle,
                                .l2_promotion = planned->def->l2_promotion,
                                .fill_nan = planned->def->fill_nan};
    if (!device->ops->encode) {
        return gk_fail(err, GK_UNSUPPORTED, "device %s has no tensor maps", device->props.device);
    }
    map.address = tensor_address(plan, planned->def->tensor, memory) +
                  (uint64_t)planned->offset * gk_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < map.rank; i++) {
        map.dims[i] = (uint64_t)planned->dims[i];
        map.strides[i] = (uint64_t)planned->strides[i];
        map.box[i] = (uint32_t)planned->box[i];
        map.element_strides[i] = (uint32_t)planned->element_strides[i];
    }
    enum gk_status status = device->ops->encode(device, &map, bytes_out, err);
    return status == GK_OK ? GK_OK : gk_fail_in(err, status, "tensor map %s", planned->def->name);
}

static enum gk_status argument_bits(const struct gk_plan *plan, const struct gk_plan_arg *arg,
                                    const struct gk_memory *memory, uint64_t *bits_out,
                                    struct gk_err *err)
{
    const struct gk_plan_tensor *tensor = &plan->tensors[arg->index % GK_TENSORS_MAX];
    uint64_t address = 0;
    switch (arg->kind) {
    case GK_ARG_TENSOR:
        if (tensor->present) {
            address = tensor_address(plan, arg->index, memory);
        }
        break;
    case GK_ARG_WORKSPACE:
        if (plan->workspaces[arg->index].present) {
            address = memory->workspaces[arg->index].address + (uint64_t)arg->byte_offset;
        }
        break;
    case GK_ARG_RESULT:
        address = memory->results[arg->index].address;
        break;
    case GK_ARG_VALUE:
        address = arg->bits;
        break;
    case GK_ARG_TENSOR_MAP:
        return gk_fail(err, GK_INTERNAL, "a tensor map has no bits");
    }
    *bits_out = address;
    return GK_OK;
}

static void set_l2_window(const struct gk_plan *plan, const struct gk_launch_def *def,
                          const struct gk_memory *memory, struct gk_device_launch *launch)
{
    static const enum gk_device_l2 policies[] = {[GK_L2_PERSISTING] = GK_DEVICE_L2_PERSISTING,
                                                 [GK_L2_STREAMING] = GK_DEVICE_L2_STREAMING,
                                                 [GK_L2_NORMAL] = GK_DEVICE_L2_NORMAL};
    if (def->l2_window_tensor >= 0 && plan->tensors[def->l2_window_tensor].present) {
        launch->l2_window.address = memory->tensors[def->l2_window_tensor].address;
        launch->l2_window.bytes = memory->tensors[def->l2_window_tensor].bytes;
        launch->l2_window.hit_ratio = def->l2_window_hit_ratio;
        launch->l2_window.policy = policies[def->l2_window_policy];
    }
}

static enum gk_status prepare_launch(struct gk_device *device, const struct gk_plan *plan,
                                     uint32_t index, const struct gk_loaded *loaded,
                                     const struct gk_memory *memory,
                                     struct gk_device_launch *launch, struct gk_err *err)
{
    const struct gk_plan_launch *planned = &plan->launches[index];
    memset(launch, 0, sizeof *launch);
    memcpy(launch->grid, planned->grid, sizeof launch->grid);
    memcpy(launch->block, planned->block, sizeof launch->block);
    memcpy(launch->cluster, planned->cluster, sizeof launch->cluster);
    launch->smem_bytes = planned->smem_bytes;
    launch->regs = loaded->regs[index];
    launch->cooperative = planned->def->cooperative;
    launch->pdl = planned->def->pdl;
    launch->nonportable_cluster = planned->def->nonportable_cluster;
    launch->carveout = planned->carveout;
    launch->arg_count = planned->arg_count;
    set_l2_window(plan, planned->def, memory, launch);
    for (uint32_t i = 0; i < planned->arg_count; i++) {
        const struct gk_plan_arg *arg = &planned->args[i];
        uint64_t bits = 0;
        enum gk_status status = GK_OK;
        launch->args[i].size = arg->size;
        if (arg->kind == GK_ARG_TENSOR_MAP) {
            status = encode_map(device, plan, arg->index, memory, launch->args[i].bytes, err);
        } else {
            status = argument_bits(plan, arg, memory, &bits, err);
            memcpy(launch->args[i].bytes, &bits, sizeof bits);
        }
        if (status != GK_OK) {
            return gk_fail_in(err, status, "launch %s: argument %" PRIu32, planned->def->name, i);
        }
    }
    return GK_OK;
}

static void add_report(struct gk_device_report *sum, const struct gk_device_report *one)
{
    sum->counter_count = one->counter_count;
    for (uint32_t i = 0; i < one->counter_count; i++) {
        sum->counters[i].name = one->counters[i].name;
        sum->counters[i].value += one->counters[i].value;
    }
}

static enum gk_status run_phase(struct gk_device *device, const struct gk_plan *plan, bool is_plan,
                                bool overlap, const struct gk_loaded *loaded,
                                const struct gk_memory *memory, struct gk_device_launch *launch,
                                struct gk_run *run, struct gk_err *err)
{
    bool ahead = overlap; /* something that the next launch may begin in */
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        const struct gk_plan_launch *planned = &plan->launches[i];
        struct gk_device_report report = {0};
        if (!planned->present || planned->def->is_plan != is_plan) {
            continue;
        }
        enum gk_status status = prepare_launch(device, plan, i, loaded, memory, launch, err);
        if (status == GK_OK) {
            launch->pdl = launch->pdl && ahead;
            ahead = true;
            status = device->ops->launch(device, loaded->kernels[i], launch, &report, err);
        }
        if (status != GK_OK) {
            run->launch = planned->def->name;
            if (status == GK_TRIAL) {
                run->report = report;
            }
            return status;
        }
        *(is_plan ? &run->plan_ns : &run->run_ns) += report.ns;
        add_report(&run->report, &report);
    }
    return GK_OK;
}

/* An endless loop must not cost what the largest problem may: a launch gets 64 times the work that
 * its problem is estimated at, but never less than a second or two of interpreting. A correct
 * kernel does useful work in a few instructions a flop or byte. */
#define LAUNCH_WORK_MIN    2e9 /* thread instructions: about a second */
#define LAUNCH_WORK_FACTOR 64

static int64_t launch_limit(const struct gk_plan *plan, int64_t device_limit)
{
    double useful = plan->flops * GK_INSTRUCTIONS_A_FLOP + plan->bytes;
    double limit = useful * LAUNCH_WORK_FACTOR;
    limit = limit > LAUNCH_WORK_MIN ? limit : LAUNCH_WORK_MIN;
    return limit < (double)device_limit ? (int64_t)limit : device_limit;
}

enum gk_status gk_plan_run(struct gk_device *device, const struct gk_plan *plan,
                           const struct gk_loaded *loaded, const struct gk_memory *memory,
                           struct gk_run *run_out, struct gk_err *err)
{
    memset(run_out, 0, sizeof *run_out);
    if (device->ops->limit) {
        device->ops->limit(device, launch_limit(plan, device->props.work_limit));
    }
    struct gk_device_launch *launch = calloc(1, sizeof *launch);
    if (!launch) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status =
        run_phase(device, plan, true, false, loaded, memory, launch, run_out, err);
    if (status == GK_OK) {
        status = run_phase(device, plan, false, false, loaded, memory, launch, run_out, err);
    }
    free(launch);
    return status;
}

enum gk_status gk_plan_issue(struct gk_device *device, const struct gk_plan *plan,
                             const struct gk_loaded *loaded, const struct gk_memory *memory,
                             bool overlap, struct gk_run *run_out, struct gk_err *err)
{
    const uint32_t zero = 0;
    enum gk_status status = GK_OK;
    uint32_t workspaces = plan->template_ ? plan->template_->workspace_count : 0;
    memset(run_out, 0, sizeof *run_out);
    for (uint32_t i = 0; i < workspaces && status == GK_OK; i++) {
        const struct gk_buffer *buffer = &memory->workspaces[i];
        if (plan->workspaces[i].present && buffer->bytes > 0 &&
            plan->workspaces[i].def->init == GK_WS_ZERO) {
            status = device->ops->fill(device, buffer->address, buffer->bytes, &zero, 1, err);
        }
    }
    struct gk_device_launch *launch = status == GK_OK ? calloc(1, sizeof *launch) : NULL;
    if (status == GK_OK) {
        status = launch
                     ? run_phase(device, plan, false, overlap, loaded, memory, launch, run_out, err)
                     : gk_fail(err, GK_NOMEM, "out of memory");
    }
    free(launch);
    return status;
}

enum gk_status gk_plan_prepare(struct gk_device *device, const struct gk_plan *plan,
                               const struct gk_loaded *loaded, const struct gk_memory *memory,
                               bool overlap, struct gk_issue *issues_out, uint32_t *count_out,
                               struct gk_err *err)
{
    uint32_t count = 0;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < plan->launch_count && status == GK_OK; i++) {
        const struct gk_plan_launch *planned = &plan->launches[i];
        if (planned->present && !planned->def->is_plan) {
            struct gk_issue *issue = &issues_out[count++];
            issue->kernel = loaded->kernels[i];
            status = prepare_launch(device, plan, i, loaded, memory, &issue->launch, err);
            issue->launch.pdl = issue->launch.pdl && (count > 1 || overlap);
        }
    }
    *count_out = count;
    return status;
}
