/*
 * Plans: every number of a trial, from expressions. See render.h. Pure; any thread.
 *
 * The order is that of what depends on what: slots (problem, device, config, rules), tensors, then
 * maps and workspaces (render_tensor.c), then launches (render_launch.c). Grids that read k.* wait
 * for gk_plan_refine().
 */
#include "kernels/render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/catalog_internal.h"
#include "kernels/render_internal.h"

/* ------------------------------------------------------------------ whole plans */

static enum gk_status render_common(struct gk_plan *plan, struct gk_err *err)
{
    const struct gk_op *op = plan->op;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < op->tensor_count && status == GK_OK; i++) {
        status = gk_render_tensor(plan, &op->tensors[i], &plan->tensors[i], err);
    }
    if (status == GK_OK && op->flops) {
        status = gk_expr_eval_real(op->flops, plan->slots, &plan->flops, err);
    }
    if (status == GK_OK && op->bytes) {
        status = gk_expr_eval_real(op->bytes, plan->slots, &plan->bytes, err);
    }
    return status;
}

static enum gk_status fill_slots(struct gk_plan *plan, const struct gk_problem *problem,
                                 const struct gk_config *config, struct gk_err *err)
{
    const struct gk_template *t = plan->template_;
    plan->slot_count = gk_scope_count(t ? t->scope : plan->op->fields.scope);
    plan->slots = calloc(plan->slot_count + 1, sizeof *plan->slots);
    if (!plan->slots) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    memcpy(plan->slots, problem->slots, problem->slot_count * sizeof *plan->slots);
    if (!t) {
        return GK_OK;
    }
    gk_device_props_fill(&plan->dev, plan->slots + t->dev_slot);
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
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_tree_evaluate(&tree, config, slots, err);
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
    plan->launch_count = template_->launch_count;
    enum gk_status status = fill_slots(plan, problem, config, err);
    if (status == GK_OK) {
        status = render_common(plan, err);
    }
    for (uint32_t i = 0; i < template_->workspace_count && status == GK_OK; i++) {
        status = gk_render_workspace(plan, &template_->workspaces[i], &plan->workspaces[i], err);
    }
    for (uint32_t i = 0; i < template_->map_count && status == GK_OK; i++) {
        status = gk_render_map(plan, &template_->maps[i], &plan->maps[i], err);
    }
    for (uint32_t i = 0; i < template_->launch_count && status == GK_OK; i++) {
        status = gk_render_launch(plan, i, &template_->launches[i], problem, config, err);
    }
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
    plan->launch_count = 1;
    enum gk_status status = fill_slots(plan, problem, NULL, err);
    if (status == GK_OK) {
        status = render_common(plan, err);
    }
    if (status == GK_OK) {
        status = gk_render_launch(plan, 0, &op->reference, problem, NULL, err);
    }
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
    if (!gk_render_reads_k(plan, launch->def)) {
        return GK_OK;
    }
    status = gk_render_grid(plan, launch, err);
    if (status == GK_OK) {
        status = gk_launch_check(launch, &plan->dev, err);
    }
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
        enum gk_status status = gk_expr_eval_real(tolerance->terms[i].c, plan->slots, &c, err);
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

enum gk_status gk_plan_generator_arg(const struct gk_plan *plan, const struct gk_expr *arg,
                                     double fallback, double *value_out, struct gk_err *err)
{
    if (!arg) {
        *value_out = fallback;
        return GK_OK;
    }
    return gk_expr_eval_real(arg, plan->slots, value_out, err);
}
