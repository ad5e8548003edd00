/*
 * Plans: every number of a trial, from expressions. See render.h. Pure; any thread.
 *
 * The order is that of what depends on what: slots (problem, device, config, rules), tensors, then maps
 * and workspaces, then launches. Grids that read k.* wait for gk_plan_refine().
 */
#include "kernels/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/catalog_internal.h"
#include "kernels/render_internal.h"

/* ------------------------------------------------------------------ expressions with a name */

/* `fallback` when the expression is absent; an error names what it was for. */
__attribute__((format(printf, 5, 6))) static enum gk_status
eval(const struct gk_plan *plan, const struct gk_expr *expr, int64_t fallback, int64_t *value_out,
     const char *format, ...)
{
    struct gk_err err = {0};
    *value_out = fallback;
    if (!expr) {
        return GK_OK;
    }
    enum gk_status status = gk_expr_eval_int(expr, plan->slots, value_out, &err);
    if (status == GK_OK) {
        return GK_OK;
    }
    char what[160];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap); /* a cut name still helps */
    va_end(ap);
    return gk_fail(plan->err, status, "%s: %s", what, err.text);
}

static bool truth(const struct gk_plan *plan, const struct gk_expr *when, enum gk_status *status,
                  const char *kind, const char *name)
{
    int64_t holds = 1;
    *status = eval(plan, when, 1, &holds, "%s %s: when", kind, name);
    return *status == GK_OK && holds != 0;
}

/* ------------------------------------------------------------------ tensors */

static enum gk_dtype resolve_dtype(const struct gk_plan *plan, const struct gk_dtype_ref *ref)
{
    enum gk_dtype dtype = ref->dtype;
    if (ref->from_field) {
        const struct gk_field *field = &plan->op->fields.fields[ref->field];
        int64_t index = plan->slots[field->slot].i;
        GK_ASSERT(index >= 0 && index < (int64_t)field->value_count);
        GK_ASSERT(gk_dtype_from_name(field->values[index], &dtype)); /* checked at load */
    }
    return dtype;
}

static enum gk_status fail_tensor(const struct gk_plan *plan, const struct gk_tensor *def,
                                  const char *what, uint32_t axis, int64_t value,
                                  const char *allowed)
{
    return gk_fail(plan->err, GK_RANGE, "tensor %s: %s %" PRIu32 " is %" PRId64 "; %s", def->name,
                   what, axis, value, allowed);
}

/* Extents, and strides as given or packed. */
static enum gk_status render_layout(const struct gk_plan *plan, struct gk_plan_tensor *tensor)
{
    const struct gk_tensor *def = tensor->def;
    bool packed = tensor->rank == 0 || !def->strides[0];
    tensor->elements = 1;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        enum gk_status status = eval(plan, def->extents[i], 1, &tensor->extents[i],
                                     "tensor %s: extent %" PRIu32, def->name, i);
        if (status == GK_OK && (tensor->extents[i] < 0 || tensor->extents[i] > GK_EXTENT_MAX)) {
            status = fail_tensor(plan, def, "extent", i, tensor->extents[i],
                                 "0 to 2^40 is allowed");
        }
        tensor->strides[i] = tensor->elements;
        if (status == GK_OK && !packed) {
            status = eval(plan, def->strides[i], 1, &tensor->strides[i],
                          "tensor %s: stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK && tensor->strides[i] < 0) {
            status = fail_tensor(plan, def, "stride", i, tensor->strides[i],
                                 "0 and more is allowed");
        }
        if (status == GK_OK &&
            __builtin_mul_overflow(tensor->elements, tensor->extents[i], &tensor->elements)) {
            status = gk_fail(plan->err, GK_RANGE, "tensor %s: more than 2^63 elements", def->name);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

/* One past the last element addressed; an empty tensor addresses none. */
static enum gk_status render_span(const struct gk_plan *plan, const struct gk_device_props *dev,
                                  struct gk_plan_tensor *tensor)
{
    int64_t span = tensor->offset, reach = 0;
    bool over = false;
    for (uint32_t i = 0; i < tensor->rank && tensor->elements > 0; i++) {
        over = over || __builtin_mul_overflow(tensor->extents[i] - 1, tensor->strides[i], &reach) ||
               __builtin_add_overflow(span, reach, &span);
    }
    over = over || __builtin_add_overflow(span, tensor->elements > 0 ? 1 : 0, &span);
    int64_t bytes = 0;
    over = over || __builtin_mul_overflow(span, (int64_t)gk_dtype_bytes(tensor->dtype), &bytes);
    if (over || bytes > dev->mem_bytes) {
        return gk_fail(plan->err, GK_LIMIT,
                       "tensor %s: %s%" PRId64 " bytes; the device has %" PRId64, tensor->def->name,
                       over ? "over " : "", over ? INT64_MAX : bytes, dev->mem_bytes);
    }
    tensor->span = span;
    return GK_OK;
}

static enum gk_status render_tensor(const struct gk_plan *plan, const struct gk_device_props *dev,
                                    const struct gk_tensor *def, struct gk_plan_tensor *tensor)
{
    enum gk_status status = GK_OK;
    tensor->def = def;
    tensor->dtype = resolve_dtype(plan, &def->dtype);
    tensor->rank = def->rank;
    tensor->present = truth(plan, def->when, &status, "tensor", def->name);
    if (status != GK_OK || !tensor->present) {
        return status;
    }
    status = eval(plan, def->offset, 0, &tensor->offset, "tensor %s: offset", def->name);
    if (status == GK_OK) {
        status = eval(plan, def->align, 256, &tensor->align, "tensor %s: align", def->name);
    }
    if (status != GK_OK) {
        return status;
    }
    int64_t least = gk_dtype_bytes(tensor->dtype);
    if (tensor->offset < 0 || tensor->offset > GK_EXTENT_MAX) {
        return gk_fail(plan->err, GK_RANGE,
                       "tensor %s: offset is %" PRId64 "; 0 to 2^40 is allowed", def->name,
                       tensor->offset);
    }
    if (tensor->align < least || tensor->align > (1 << 20) ||
        (tensor->align & (tensor->align - 1)) != 0) {
        return gk_fail(plan->err, GK_RANGE,
                       "tensor %s: align is %" PRId64 "; a power of two from %" PRId64
                       " (an element) to 2^20 is allowed",
                       def->name, tensor->align, least);
    }
    status = render_layout(plan, tensor);
    return status == GK_OK ? render_span(plan, dev, tensor) : status;
}

/* ------------------------------------------------------------------ maps and workspaces */

static enum gk_status render_map(const struct gk_plan *plan, const struct gk_tensor_map *def,
                                 struct gk_plan_map *map)
{
    enum gk_status status = GK_OK;
    map->def = def;
    map->present = truth(plan, def->when, &status, "tensor map", def->name);
    if (status != GK_OK || !map->present) {
        return status;
    }
    const struct gk_plan_tensor *tensor = &plan->tensors[def->tensor];
    if (!tensor->present) {
        return gk_fail(plan->err, GK_INPUT,
                       "tensor map %s: tensor %s does not exist in this problem; give the map a "
                       "\"when\"",
                       def->name, tensor->def->name);
    }
    status = eval(plan, def->offset, 0, &map->offset, "tensor map %s: offset", def->name);
    int64_t packed = gk_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < def->rank && status == GK_OK; i++) {
        status = eval(plan, def->dims[i], 1, &map->dims[i], "tensor map %s: dim %" PRIu32, def->name,
                      i);
        if (status == GK_OK) {
            status = eval(plan, def->box[i], 1, &map->box[i], "tensor map %s: box %" PRIu32,
                          def->name, i);
        }
        if (status == GK_OK) {
            status = eval(plan, def->element_strides[i], 1, &map->element_strides[i],
                          "tensor map %s: element stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK) {
            status = eval(plan, def->strides[i], packed, &map->strides[i],
                          "tensor map %s: stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK && __builtin_mul_overflow(packed, map->dims[i], &packed)) {
            status = gk_fail(plan->err, GK_RANGE, "tensor map %s: more than 2^63 bytes", def->name);
        }
    }
    return status;
}

/* The corner of the view that lies farthest must still be in the tensor's buffer: a map that promises
 * more than was allocated reads another tensor's bytes without an error. */
static enum gk_status check_map(const struct gk_plan *plan, const struct gk_plan_map *map)
{
    const struct gk_plan_tensor *tensor = &plan->tensors[map->def->tensor];
    int64_t bytes = gk_dtype_bytes(tensor->dtype), last = 0, reach = 0;
    bool over = __builtin_mul_overflow(map->offset, bytes, &last) || map->offset < 0;
    for (uint32_t i = 0; i < map->def->rank; i++) {
        over = over || __builtin_mul_overflow(map->dims[i] - 1, map->strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
    }
    int64_t held = (tensor->span - tensor->offset) * bytes;
    if (over || last > held - bytes) {
        return gk_fail(plan->err, GK_INPUT,
                       "constraint tensor_map.%s.inside: the view ends at byte %" PRId64
                       " of tensor %s, which has %" PRId64,
                       map->def->name, over ? INT64_MAX : last + bytes, tensor->def->name, held);
    }
    return GK_OK;
}

static enum gk_status render_workspace(const struct gk_plan *plan, const struct gk_device_props *dev,
                                       const struct gk_workspace *def,
                                       struct gk_plan_workspace *workspace)
{
    enum gk_status status = GK_OK;
    int64_t extent = 0;
    workspace->def = def;
    workspace->present = truth(plan, def->when, &status, "workspace", def->name);
    if (status != GK_OK || !workspace->present) {
        return status;
    }
    status = eval(plan, def->extent, 0, &extent, "workspace %s: extent", def->name);
    if (status == GK_OK) {
        status = eval(plan, def->align, 256, &workspace->align, "workspace %s: align", def->name);
    }
    if (status != GK_OK) {
        return status;
    }
    int64_t size = gk_dtype_bytes(def->dtype);
    if (extent < 0 || extent > dev->mem_bytes / size) {
        return gk_fail(plan->err, GK_LIMIT,
                       "workspace %s: %" PRId64 " elements of %s; 0 to %" PRId64
                       " (the device's memory) is allowed",
                       def->name, extent, gk_dtype_name(def->dtype), dev->mem_bytes / size);
    }
    if (workspace->align < size || workspace->align > (1 << 20) ||
        (workspace->align & (workspace->align - 1)) != 0) {
        return gk_fail(plan->err, GK_RANGE,
                       "workspace %s: align is %" PRId64 "; a power of two from %" PRId64
                       " to 2^20 is allowed",
                       def->name, workspace->align, size);
    }
    workspace->bytes = extent * size;
    return GK_OK;
}

/* ------------------------------------------------------------------ launches */

static enum gk_status render_args(const struct gk_plan *plan, struct gk_plan_launch *launch)
{
    const struct gk_launch_def *def = launch->def;
    for (uint32_t i = 0; i < def->arg_count; i++) {
        const struct gk_arg *from = &def->args[i];
        struct gk_plan_arg *arg = &launch->args[i];
        enum gk_status status = GK_OK;
        *arg = (struct gk_plan_arg){.kind = from->kind, .index = from->index, .size = 8};
        if (from->kind == GK_ARG_TENSOR_MAP) {
            arg->size = 128;
        } else if (from->kind == GK_ARG_WORKSPACE) {
            status = eval(plan, from->expr, 0, &arg->byte_offset,
                          "launch %s: argument %" PRIu32 ": offset", def->name, i);
            const struct gk_plan_workspace *workspace = &plan->workspaces[from->index];
            if (status == GK_OK && workspace->present &&
                (arg->byte_offset < 0 || arg->byte_offset > workspace->bytes)) {
                status = gk_fail(plan->err, GK_RANGE,
                                 "launch %s: argument %" PRIu32 ": offset is %" PRId64
                                 "; workspace %s has %" PRId64 " bytes",
                                 def->name, i, arg->byte_offset, workspace->def->name,
                                 workspace->bytes);
            }
        } else if (from->kind == GK_ARG_VALUE) {
            char where[160];
            union gk_value value = {.i = 0};
            (void)snprintf(where, sizeof where, "launch %s: argument %" PRIu32 " (%.40s)", def->name,
                           i, gk_expr_text(from->expr)); /* a cut name still helps */
            struct gk_err err = {0};
            status = gk_expr_eval(from->expr, plan->slots, &value, &err);
            if (status != GK_OK) {
                return gk_fail(plan->err, status, "%s: %s", where, err.text);
            }
            status = gk_scalar_encode(from->scalar, gk_expr_type(from->expr) == GK_VALUE_REAL, value,
                                      where, arg, plan->err);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    launch->arg_count = def->arg_count;
    return GK_OK;
}

static bool reads_k(const struct gk_plan *plan, const struct gk_launch_def *def)
{
    for (uint32_t axis = 0; axis < 3; axis++) {
        for (uint32_t k = plan->template_ ? plan->template_->k_slot : plan->slot_count;
             def->grid[axis] && k < plan->slot_count; k++) {
            if (gk_expr_uses(def->grid[axis], k)) {
                return true;
            }
        }
    }
    return false;
}

static enum gk_status render_three(const struct gk_plan *plan, const struct gk_launch_def *def,
                                   struct gk_expr *const exprs[3], const char *what,
                                   const int64_t limits[3], uint32_t out[3])
{
    for (uint32_t i = 0; i < 3; i++) {
        int64_t value = 1;
        enum gk_status status = eval(plan, exprs[i], 1, &value, "launch %s: %s.%c", def->name, what,
                                     (char)('x' + i));
        if (status == GK_OK) {
            status = gk_dimension_check(def, what, i, value, limits[i], plan->err);
        }
        if (status != GK_OK) {
            return status;
        }
        out[i] = (uint32_t)value;
    }
    return GK_OK;
}

static enum gk_status render_grid(const struct gk_plan *plan, struct gk_plan_launch *launch)
{
    static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535};
    return render_three(plan, launch->def, launch->def->grid, "grid", grid_max, launch->grid);
}

static enum gk_status render_shape(struct gk_plan *plan, const struct gk_device_props *dev,
                                   struct gk_plan_launch *launch)
{
    static const int64_t any[3] = {UINT16_MAX, UINT16_MAX, UINT16_MAX}; /* checked closely below */
    const struct gk_launch_def *def = launch->def;
    int64_t smem = 0, carveout = -1;
    enum gk_status status = render_three(plan, def, def->block, "block", any, launch->block);
    if (status == GK_OK) {
        status = render_three(plan, def, def->cluster, "cluster", any, launch->cluster);
    }
    if (status == GK_OK) {
        status = eval(plan, def->smem, 0, &smem, "launch %s: smem", def->name);
    }
    if (status == GK_OK && (smem < 0 || smem > INT32_MAX)) {
        status = gk_fail(plan->err, GK_LIMIT, "launch %s: %" PRId64 " bytes of shared memory",
                         def->name, smem);
    }
    if (status == GK_OK) {
        status = eval(plan, def->carveout, -1, &carveout, "launch %s: carveout", def->name);
    }
    if (status == GK_OK && (carveout < -1 || carveout > 100)) {
        status = gk_fail(plan->err, GK_RANGE,
                         "launch %s: carveout is %" PRId64 "; 0 to 100 percent is allowed", def->name,
                         carveout);
    }
    if (status != GK_OK) {
        return status;
    }
    launch->smem_bytes = (uint32_t)smem;
    launch->carveout = (int32_t)carveout;
    if (reads_k(plan, def)) {
        plan->needs_k = true;
        memcpy(launch->grid, launch->cluster, sizeof launch->grid); /* passes the check below */
        status = gk_launch_check(launch, dev, plan->err);
        memset(launch->grid, 0, sizeof launch->grid); /* gk_plan_refine() fills it in */
        return status;
    }
    status = render_grid(plan, launch);
    return status == GK_OK ? gk_launch_check(launch, dev, plan->err) : status;
}

/* The key of the code that a launch runs: see render.h. */
static struct gk_hash module_key(const struct gk_plan *plan, const struct gk_plan_launch *launch,
                                 const char *target)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "module 1"); /* another way of hashing gets another word here */
    gk_hasher_part(&hasher, launch->def->tokens.bytes, GK_HASH_SIZE);
    gk_hasher_text(&hasher, launch->def->kernel);
    gk_hasher_text(&hasher, target);
    uint32_t options = plan->template_ ? plan->template_->option_count : 0;
    for (uint32_t i = 0; i < options; i++) {
        gk_hasher_text(&hasher, plan->template_->options[i]);
    }
    gk_hasher_text(&hasher, ""); /* parts the options from the defines */
    for (uint32_t i = 0; i < launch->define_count; i++) {
        gk_hasher_text(&hasher, launch->defines[i]);
    }
    return gk_hasher_final(&hasher);
}

/* A launch that reads a tensor map which this problem lacks cannot be given its 128 bytes. */
static enum gk_status check_args(const struct gk_plan *plan, const struct gk_plan_launch *launch)
{
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const struct gk_plan_arg *arg = &launch->args[i];
        if (arg->kind == GK_ARG_TENSOR_MAP && !plan->maps[arg->index].present) {
            return gk_fail(plan->err, GK_INPUT,
                           "launch %s: argument %" PRIu32 ": tensor map %s does not exist in this "
                           "problem",
                           launch->def->name, i, plan->template_->maps[arg->index].name);
        }
    }
    return GK_OK;
}

static enum gk_status render_launch(struct gk_plan *plan, uint32_t index,
                                    const struct gk_launch_def *def,
                                    const struct gk_problem *problem,
                                    const struct gk_config *config,
                                    const struct gk_device_props *dev)
{
    struct gk_plan_launch *launch = &plan->launches[index];
    enum gk_status status = GK_OK;
    launch->def = def;
    launch->carveout = -1;
    launch->present = truth(plan, def->when, &status, "launch", def->name);
    if (status != GK_OK || !launch->present) {
        return status;
    }
    status = render_shape(plan, dev, launch);
    if (status == GK_OK) {
        status = render_args(plan, launch);
    }
    if (status == GK_OK) {
        status = check_args(plan, launch);
    }
    if (status == GK_OK) {
        status = gk_catalog_defines(plan->op, plan->template_, index, problem, config, dev->target,
                                    &launch->defines, &launch->define_count, plan->err);
    }
    if (status == GK_OK) {
        launch->module_key = module_key(plan, launch, dev->target);
    }
    return status;
}

/* ------------------------------------------------------------------ whole plans */

static enum gk_status render_common(struct gk_plan *plan, const struct gk_device_props *dev)
{
    const struct gk_op *op = plan->op;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < op->tensor_count && status == GK_OK; i++) {
        status = render_tensor(plan, dev, &op->tensors[i], &plan->tensors[i]);
    }
    if (status == GK_OK && op->flops) {
        status = gk_expr_eval_real(op->flops, plan->slots, &plan->flops, plan->err);
    }
    if (status == GK_OK && op->bytes) {
        status = gk_expr_eval_real(op->bytes, plan->slots, &plan->bytes, plan->err);
    }
    return status;
}

static enum gk_status fill_slots(struct gk_plan *plan, const struct gk_problem *problem,
                                 const struct gk_config *config, const struct gk_device_props *dev)
{
    const struct gk_template *t = plan->template_;
    plan->slot_count = gk_scope_count(t ? t->scope : plan->op->fields.scope);
    plan->slots = calloc(plan->slot_count + 1, sizeof *plan->slots);
    if (!plan->slots) {
        return gk_fail(plan->err, GK_NOMEM, "out of memory");
    }
    memcpy(plan->slots, problem->slots, problem->slot_count * sizeof *plan->slots);
    if (!t) {
        return GK_OK;
    }
    gk_device_props_fill(dev, plan->slots + t->dev_slot);
    const struct gk_tree tree = {.template_name = t->name,
                                 .template_hash = t->hash,
                                 .params = t->params,
                                 .param_count = t->param_count,
                                 .rules = t->rules,
                                 .rule_count = t->rule_count,
                                 .scope = t->scope,
                                 .base = plan->slots,
                                 .slot_count = plan->slot_count};
    union gk_value *slots = calloc(plan->slot_count + 1, sizeof *slots);
    if (!slots) {
        return gk_fail(plan->err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_tree_evaluate(&tree, config, slots, plan->err);
    free(plan->slots);
    plan->slots = slots;
    return status;
}

enum gk_status gk_plan_render(const struct gk_op *op, const struct gk_template *template_,
                              const struct gk_problem *problem, const struct gk_config *config,
                              const struct gk_device_props *dev, struct gk_plan *plan_out,
                              struct gk_err *err)
{
    struct gk_plan *plan = calloc(1, sizeof *plan); /* 100 KB: not for a stack */
    if (!plan) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    plan->op = op;
    plan->template_ = template_;
    plan->dev = *dev;
    plan->err = err;
    plan->launch_count = template_->launch_count;
    enum gk_status status = fill_slots(plan, problem, config, dev);
    if (status == GK_OK) {
        status = render_common(plan, dev);
    }
    for (uint32_t i = 0; i < template_->workspace_count && status == GK_OK; i++) {
        status = render_workspace(plan, dev, &template_->workspaces[i], &plan->workspaces[i]);
    }
    for (uint32_t i = 0; i < template_->map_count && status == GK_OK; i++) {
        status = render_map(plan, &template_->maps[i], &plan->maps[i]);
        if (status == GK_OK && plan->maps[i].present) {
            status = check_map(plan, &plan->maps[i]);
        }
    }
    for (uint32_t i = 0; i < template_->launch_count && status == GK_OK; i++) {
        status = render_launch(plan, i, &template_->launches[i], problem, config, dev);
    }
    plan->err = NULL;
    if (status == GK_OK) {
        *plan_out = *plan;
    } else {
        gk_plan_fini(plan);
    }
    free(plan);
    return status;
}

enum gk_status gk_plan_reference(const struct gk_op *op, const struct gk_problem *problem,
                                 const struct gk_device_props *dev, struct gk_plan *plan_out,
                                 struct gk_err *err)
{
    if (!op->has_reference) {
        return gk_fail(err, GK_NOT_FOUND, "op %s has no reference", op->fields.op);
    }
    struct gk_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    plan->op = op;
    plan->dev = *dev;
    plan->err = err;
    plan->launch_count = 1;
    enum gk_status status = fill_slots(plan, problem, NULL, dev);
    if (status == GK_OK) {
        status = render_common(plan, dev);
    }
    if (status == GK_OK) {
        status = render_launch(plan, 0, &op->reference, problem, NULL, dev);
    }
    plan->err = NULL;
    if (status == GK_OK) {
        *plan_out = *plan;
    } else {
        gk_plan_fini(plan);
        status = gk_fail_in(err, status, "reference of op %s", op->fields.op);
    }
    free(plan);
    return status;
}

void gk_plan_fini(struct gk_plan *plan)
{
    if (!plan) {
        return;
    }
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(plan->launches); i++) {
        gk_defines_free(plan->launches[i].defines, plan->launches[i].define_count);
    }
    free(plan->slots);
    memset(plan, 0, sizeof *plan);
}

/* ------------------------------------------------------------------ after compiling */

static void set_facts(struct gk_plan *plan, const struct gk_kernel_facts *facts)
{
    union gk_value *k = plan->slots + plan->template_->k_slot;
    k[0].i = facts->regs;
    k[1].i = facts->spill_bytes;
    k[2].i = facts->static_smem;
    k[3].i = facts->blocks_per_sm;
    k[4].i = facts->max_clusters;
}

static enum gk_status refine_launch(struct gk_plan *plan, uint32_t index, struct gk_err *err)
{
    const struct gk_template *t = plan->template_;
    struct gk_plan_launch *launch = &plan->launches[index];
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < t->after_count; i++) {
        if (t->after[i].launch >= 0 && t->after[i].launch != (int32_t)index) {
            continue;
        }
        status = gk_rule_apply(&t->after[i].rule, t->scope, plan->slots, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "launch %s", launch->def->name);
        }
    }
    if (!reads_k(plan, launch->def)) {
        return GK_OK;
    }
    plan->err = err;
    status = render_grid(plan, launch);
    if (status == GK_OK) {
        status = gk_launch_check(launch, &plan->dev, err);
    }
    plan->err = NULL;
    return status;
}

enum gk_status gk_plan_refine(struct gk_plan *plan, const struct gk_kernel_facts *facts,
                              struct gk_err *err)
{
    if (!plan->template_) {
        return GK_OK; /* a reference has no rules */
    }
    for (uint32_t i = 0; i < plan->launch_count; i++) {
        if (!plan->launches[i].present) {
            continue;
        }
        set_facts(plan, &facts[i]);
        enum gk_status status = refine_launch(plan, i, err);
        if (status != GK_OK) {
            return status;
        }
    }
    plan->needs_k = false;
    return GK_OK;
}

enum gk_status gk_plan_tolerance(const struct gk_plan *plan, uint32_t tensor, double *scale_out,
                                 double *norm_out, struct gk_err *err)
{
    double scale = 0, norm = -1;
    if (tensor >= plan->op->tensor_count) {
        return gk_fail(err, GK_INPUT, "op %s has no tensor %" PRIu32, plan->op->fields.op, tensor);
    }
    const struct gk_tolerance *tolerance = &plan->op->tolerance[tensor];
    const char *name = plan->op->tensors[tensor].name;
    for (uint32_t i = 0; i < tolerance->term_count; i++) {
        double c = 0;
        enum gk_status status =
            gk_expr_eval_real(tolerance->terms[i].c, plan->slots, &c, err);
        if (status == GK_OK && !(c >= 0)) {
            status = gk_fail(err, GK_RANGE, "c is %g; 0 and more is allowed", c);
        }
        if (status != GK_OK) {
            return gk_fail_in(err, status, "tolerance of %s: term %s", name,
                              tolerance->terms[i].name);
        }
        scale += c * tolerance->terms[i].u;
    }
    if (tolerance->norm) {
        enum gk_status status = gk_expr_eval_real(tolerance->norm, plan->slots, &norm, err);
        if (status == GK_OK && !(norm >= 0)) {
            status = gk_fail(err, GK_RANGE, "%g; 0 and more is allowed", norm);
        }
        if (status != GK_OK) {
            return gk_fail_in(err, status, "tolerance of %s: norm", name);
        }
    }
    *scale_out = scale;
    *norm_out = norm;
    return GK_OK;
}

enum gk_status gk_plan_generator_arg(const struct gk_plan *plan, const struct gk_generator *gen,
                                     uint32_t i, double fallback, double *value_out,
                                     struct gk_err *err)
{
    if (i >= GK_ARRAY_COUNT(gen->args) || !gen->args[i]) {
        *value_out = fallback;
        return GK_OK;
    }
    return gk_expr_eval_real(gen->args[i], plan->slots, value_out, err);
}
