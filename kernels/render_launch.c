/*
 * Plans: launches in numbers: shape, arguments, defines, the key of the code. Pure.
 */
#include "kernels/render_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ launches */

static enum gk_status render_args(const struct gk_plan *plan, struct gk_plan_launch *launch,
                                  struct gk_err *err)
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
            status = gk_render_eval(plan, err, from->expr, 0, &arg->byte_offset,
                                    "launch %s: argument %" PRIu32 ": offset", def->name, i);
            const struct gk_plan_workspace *workspace = &plan->workspaces[from->index];
            if (status == GK_OK && workspace->present &&
                (arg->byte_offset < 0 || arg->byte_offset > workspace->bytes)) {
                status =
                    gk_fail(err, GK_RANGE,
                            "launch %s: argument %" PRIu32 ": offset is %" PRId64
                            "; workspace %s has %" PRId64 " bytes",
                            def->name, i, arg->byte_offset, workspace->def->name, workspace->bytes);
            }
        } else if (from->kind == GK_ARG_VALUE) {
            char where[160];
            union gk_value value = {.i = 0};
            (void)snprintf(where, sizeof where, "launch %s: argument %" PRIu32 " (%.40s)",
                           def->name, i, gk_expr_text(from->expr)); /* a cut name still helps */
            struct gk_err inner = {0};
            status = gk_expr_eval(from->expr, plan->slots, &value, &inner);
            if (status != GK_OK) {
                return gk_fail(err, status, "%s: %s", where, inner.text);
            }
            status = gk_scalar_encode(from->scalar, gk_expr_type(from->expr) == GK_VALUE_REAL,
                                      value, where, arg, err);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    launch->arg_count = def->arg_count;
    return GK_OK;
}

bool gk_render_reads_k(const struct gk_plan *plan, const struct gk_launch_def *def)
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
                                   const int64_t limits[3], uint32_t out[3], struct gk_err *err)
{
    for (uint32_t i = 0; i < 3; i++) {
        int64_t value = 1;
        enum gk_status status = gk_render_eval(plan, err, exprs[i], 1, &value, "launch %s: %s.%c",
                                               def->name, what, (char)('x' + i));
        if (status == GK_OK) {
            status = gk_dimension_check(def, what, i, value, limits[i], err);
        }
        if (status != GK_OK) {
            return status;
        }
        out[i] = (uint32_t)value;
    }
    return GK_OK;
}

enum gk_status gk_render_grid(const struct gk_plan *plan, struct gk_plan_launch *launch,
                              struct gk_err *err)
{
    static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535};
    return render_three(plan, launch->def, launch->def->grid, "grid", grid_max, launch->grid, err);
}

static enum gk_status render_shape(struct gk_plan *plan, struct gk_plan_launch *launch,
                                   struct gk_err *err)
{
    static const int64_t any[3] = {UINT16_MAX, UINT16_MAX, UINT16_MAX}; /* checked closely below */
    const struct gk_launch_def *def = launch->def;
    int64_t smem = 0, carveout = -1;
    enum gk_status status = render_three(plan, def, def->block, "block", any, launch->block, err);
    if (status == GK_OK) {
        status = render_three(plan, def, def->cluster, "cluster", any, launch->cluster, err);
    }
    if (status == GK_OK) {
        status = gk_render_eval(plan, err, def->smem, 0, &smem, "launch %s: smem", def->name);
    }
    if (status == GK_OK && (smem < 0 || smem > INT32_MAX)) {
        status = gk_fail(err, GK_LIMIT, "launch %s: %" PRId64 " bytes of shared memory", def->name,
                         smem);
    }
    if (status == GK_OK) {
        status = gk_render_eval(plan, err, def->carveout, -1, &carveout, "launch %s: carveout",
                                def->name);
    }
    if (status == GK_OK && (carveout < -1 || carveout > 100)) {
        status = gk_fail(err, GK_RANGE,
                         "launch %s: carveout is %" PRId64 "; 0 to 100 percent is allowed",
                         def->name, carveout);
    }
    if (status != GK_OK) {
        return status;
    }
    launch->smem_bytes = (uint32_t)smem;
    launch->carveout = (int32_t)carveout;
    if (gk_render_reads_k(plan, def)) {
        plan->needs_k = true;
        memcpy(launch->grid, launch->cluster, sizeof launch->grid); /* passes the check below */
        status = gk_launch_check(launch, &plan->dev, err);
        memset(launch->grid, 0, sizeof launch->grid); /* gk_plan_refine() fills it in */
        return status;
    }
    status = gk_render_grid(plan, launch, err);
    return status == GK_OK ? gk_launch_check(launch, &plan->dev, err) : status;
}

/* The key of the code that a launch runs: see render.h. */
static struct gk_hash module_key(const struct gk_plan *plan, const struct gk_plan_launch *launch)
{
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, "module 1"); /* another way of hashing gets another word here */
    gk_hasher_part(&hasher, launch->def->tokens.bytes, GK_HASH_SIZE);
    gk_hasher_text(&hasher, launch->def->kernel);
    gk_hasher_text(&hasher, plan->dev.target);
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
static enum gk_status check_args(const struct gk_plan *plan, const struct gk_plan_launch *launch,
                                 struct gk_err *err)
{
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        const struct gk_plan_arg *arg = &launch->args[i];
        if (arg->kind == GK_ARG_TENSOR_MAP && !plan->maps[arg->index].present) {
            return gk_fail(err, GK_INPUT,
                           "launch %s: argument %" PRIu32 ": tensor map %s does not exist in this "
                           "problem",
                           launch->def->name, i, plan->template_->maps[arg->index].name);
        }
    }
    return GK_OK;
}

enum gk_status gk_render_launch(struct gk_plan *plan, uint32_t index,
                                const struct gk_launch_def *def, const struct gk_problem *problem,
                                const struct gk_config *config, struct gk_err *err)
{
    struct gk_plan_launch *launch = &plan->launches[index];
    enum gk_status status = GK_OK;
    launch->def = def;
    launch->carveout = -1;
    launch->present = gk_render_truth(plan, err, def->when, &status, "launch", def->name);
    if (status != GK_OK || !launch->present) {
        return status;
    }
    status = render_shape(plan, launch, err);
    if (status == GK_OK) {
        status = render_args(plan, launch, err);
    }
    if (status == GK_OK) {
        status = check_args(plan, launch, err);
    }
    if (status == GK_OK) {
        status = gk_catalog_defines(plan->op, plan->template_, index, problem, config,
                                    plan->dev.target, &launch->defines, &launch->define_count, err);
    }
    if (status == GK_OK) {
        launch->module_key = module_key(plan, launch);
    }
    return status;
}
