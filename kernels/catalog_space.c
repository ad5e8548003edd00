/*
 * From a problem and a device to a space: which templates serve, which config is the default, and
 * what a config's rules say.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ one rule */

/* " (BM = 256, smem = 300000)": the values that the expression read. */
static void put_values(const struct gk_expr *expr, const struct gk_scope *scope,
                       const union gk_value *slots, struct gk_buf *buf)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < gk_scope_count(scope); i++) {
        const struct gk_symbol *symbol = gk_scope_at(scope, i);
        if (!gk_expr_uses(expr, symbol->slot) || symbol->type == GK_VALUE_SERIES) {
            continue;
        }
        gk_buf_printf(buf, "%s%s = ", shown++ ? ", " : " (", symbol->name);
        if (symbol->type == GK_VALUE_REAL) {
            char text[32];
            gk_real_text(slots[symbol->slot].r, text);
            gk_buf_puts(buf, text);
        } else if (symbol->enum_values && slots[symbol->slot].i >= 0 &&
                   slots[symbol->slot].i < (int64_t)symbol->enum_count) {
            gk_buf_puts(buf, symbol->enum_values[slots[symbol->slot].i]);
        } else {
            gk_buf_printf(buf, "%" PRId64, slots[symbol->slot].i);
        }
    }
    if (shown) {
        gk_buf_putc(buf, ')');
    }
}

enum gk_status gk_rule_apply(const struct gk_rule *rule, const struct gk_scope *scope,
                             union gk_value *slots, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    int64_t holds = 0;
    if (!rule->is_constraint) {
        union gk_value value;
        status = gk_expr_eval(rule->expr, slots, &value, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "derived name %s", rule->name);
        }
        slots[rule->slot] = value;
        return GK_OK;
    }
    status = gk_expr_eval_int(rule->expr, slots, &holds, err);
    if (status != GK_OK) {
        return gk_fail_in(err, status, "constraint %s", rule->name);
    }
    if (holds != 0) {
        return GK_OK;
    }
    struct gk_buf values = {0};
    put_values(rule->expr, scope, slots, &values);
    status = gk_fail(err, GK_INPUT, "constraint %s: %.300s: %.300s%s", rule->name,
                     gk_expr_text(rule->expr), rule->doc ? rule->doc : "does not hold",
                     gk_buf_text(&values));
    gk_buf_fini(&values);
    return status;
}

/* ------------------------------------------------------------------ rules over fields alone */

/* Fills op slots from the problem; the rest is zero. */
static union gk_value *make_base(const struct gk_template *t, const struct gk_problem *problem,
                                 const struct gk_device_props *dev)
{
    union gk_value *slots = calloc(gk_scope_count(t->scope) + 1, sizeof *slots);
    if (!slots) {
        return NULL;
    }
    memcpy(slots, problem->slots, problem->slot_count * sizeof *slots);
    if (dev) {
        gk_device_props_fill(dev, slots + t->dev_slot);
    }
    return slots;
}

/* Evaluates the rules that read nothing unknown: `known_end` slots (fields, or fields and dev.*)
 * and derived names made of those. A rule with a parameter in it is left to the search. */
static enum gk_status apply_known(const struct gk_template *t, uint32_t known_end,
                                  union gk_value *slots, struct gk_err *err)
{
    bool known[GK_SCOPE_SYMBOLS_MAX] = {false};
    uint32_t count = gk_scope_count(t->scope);
    for (uint32_t i = 0; i < known_end; i++) {
        known[i] = true;
    }
    for (uint32_t i = 0; i < t->rule_count; i++) {
        const struct gk_rule *rule = &t->rules[i];
        bool usable = true;
        for (uint32_t slot = 0; usable && slot < count; slot++) {
            usable = known[slot] || !gk_expr_uses(rule->expr, slot);
        }
        if (!usable) {
            continue;
        }
        enum gk_status status = gk_rule_apply(rule, t->scope, slots, err);
        if (status != GK_OK) {
            return status;
        }
        if (!rule->is_constraint) {
            known[rule->slot] = true;
        }
    }
    return GK_OK;
}

/* Op symbols stand before dev.*, dev.* before the parameters: the known part is a prefix. */
static uint32_t known_with_dev(const struct gk_op *op, const struct gk_template *t)
{
    uint32_t end = t->dev_slot;
    GK_ASSERT(end == gk_scope_count(op->fields.scope));
    const struct gk_symbol *symbol = NULL;
    while ((symbol = gk_scope_at(t->scope, end)) && strncmp(symbol->name, "dev.", 4) == 0) {
        end++;
    }
    return end;
}

static enum gk_status fail_none(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_buf *reasons, struct gk_err *err)
{
    if (op->template_count == 0) {
        return gk_fail(err, GK_INPUT, "op %s has no template", op->fields.op);
    }
    return gk_fail(err, GK_INPUT, "no template serves %.200s:%s",
                   problem->canonical ? problem->canonical : op->fields.op, gk_buf_text(reasons));
}

/* A constraint that says no speaks of the problem; an expression that cannot be evaluated is a
 * mistake of the template, and its file is where it is mended. */
static void put_reason(const struct gk_template *t, const struct gk_err *why, struct gk_buf *buf)
{
    gk_buf_printf(buf, "\n  %s: %s", why->status == GK_INPUT ? t->name : t->file, why->text);
}

enum gk_status gk_catalog_serves(const struct gk_op *op, const struct gk_problem *problem,
                                 struct gk_err *err)
{
    struct gk_buf reasons = {0};
    enum gk_status status = GK_INPUT;
    for (uint32_t i = 0; i < op->template_count && status != GK_OK; i++) {
        const struct gk_template *t = &op->templates[i];
        union gk_value *slots = make_base(t, problem, NULL);
        struct gk_err why = {0};
        if (!slots) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
            goto out;
        }
        status = apply_known(t, t->dev_slot, slots, &why);
        free(slots);
        if (status != GK_OK) {
            put_reason(t, &why, &reasons);
        }
    }
    if (status != GK_OK) {
        status = fail_none(op, problem, &reasons, err);
    }
out:
    gk_buf_fini(&reasons);
    return status;
}

static void put_archs(const struct gk_template *t, const char *target, struct gk_buf *buf)
{
    gk_buf_printf(buf, "\n  %s: is written for ", t->name);
    for (uint32_t i = 0; i < t->arch_count; i++) {
        gk_buf_printf(buf, "%s%s", i ? ", " : "", t->archs[i]);
    }
    gk_buf_printf(buf, ", not for %s", target);
}

enum gk_status gk_catalog_space(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_device_props *dev, struct gk_space_def *def_out,
                                struct gk_err *err)
{
    struct gk_space_def def = {0};
    struct gk_buf reasons = {0};
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < op->template_count; i++) {
        const struct gk_template *t = &op->templates[i];
        struct gk_err why = {0};
        if (!gk_template_runs_on(t, dev->target)) {
            put_archs(t, dev->target, &reasons);
            continue;
        }
        union gk_value *slots = make_base(t, problem, dev);
        if (!slots) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
            goto out;
        }
        if (apply_known(t, known_with_dev(op, t), slots, &why) != GK_OK) {
            put_reason(t, &why, &reasons);
            free(slots);
            continue;
        }
        def.trees[def.tree_count++] = (struct gk_tree){.template_name = t->name,
                                                       .template_hash = t->hash,
                                                       .params = t->params,
                                                       .param_count = t->param_count,
                                                       .rules = t->rules,
                                                       .rule_count = t->rule_count,
                                                       .scope = t->scope,
                                                       .base = slots,
                                                       .slot_count = gk_scope_count(t->scope)};
    }
    if (def.tree_count == 0) {
        status = fail_none(op, problem, &reasons, err);
        goto out;
    }
    *def_out = def;
    def = (struct gk_space_def){0};
out:
    gk_space_def_fini(&def);
    gk_buf_fini(&reasons);
    return status;
}

/* ------------------------------------------------------------------ one config */

enum gk_status gk_tree_evaluate(const struct gk_tree *tree, const struct gk_config *config,
                                union gk_value *slots_out, struct gk_err *err)
{
    if (config->count != tree->param_count) {
        return gk_fail(err, GK_INPUT, "config of %s has %" PRIu32 " values; %" PRIu32 " are needed",
                       tree->template_name, config->count, tree->param_count);
    }
    memcpy(slots_out, tree->base, tree->slot_count * sizeof *slots_out);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        slots_out[tree->params[i].slot].i = config->values[i];
    }
    for (uint32_t i = 0; i < tree->rule_count; i++) {
        enum gk_status status = gk_rule_apply(&tree->rules[i], tree->scope, slots_out, err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

static bool is_listed(const struct gk_param *param, int64_t value)
{
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (param->values[i] == value) {
            return true;
        }
    }
    return false;
}

/* GK_NOT_FOUND: this entry does not apply here; anything else but GK_OK is a mistake of op.json. */
static enum gk_status try_default(const struct gk_default_def *entry, const struct gk_tree *tree,
                                  const struct gk_problem *problem, struct gk_config *config_out,
                                  struct gk_err *err)
{
    struct gk_config config = {.template_hash = tree->template_hash, .count = tree->param_count};
    int64_t holds = 1;
    enum gk_status status = GK_OK;
    memcpy(config.template_name, tree->template_name, strlen(tree->template_name) + 1);
    if (entry->when) {
        status = gk_expr_eval_int(entry->when, problem->slots, &holds, err);
    }
    if (status != GK_OK || !holds) {
        return status != GK_OK ? status : GK_NOT_FOUND;
    }
    for (uint32_t i = 0; i < tree->param_count; i++) {
        status = gk_expr_eval_int(entry->values[i], problem->slots, &config.values[i], err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "default of parameter %s", tree->params[i].name);
        }
        if (!is_listed(&tree->params[i], config.values[i])) {
            return GK_NOT_FOUND;
        }
    }
    union gk_value *slots = calloc(tree->slot_count + 1, sizeof *slots);
    if (!slots) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    status = gk_tree_evaluate(tree, &config, slots, NULL);
    free(slots);
    if (status != GK_OK) {
        return GK_NOT_FOUND; /* not legal here: the next entry may be */
    }
    *config_out = config;
    return GK_OK;
}

enum gk_status gk_catalog_default(const struct gk_op *op, const struct gk_problem *problem,
                                  const struct gk_space_def *def, struct gk_config *config_out,
                                  uint32_t *tree_out, struct gk_err *err)
{
    for (uint32_t i = 0; i < op->default_count; i++) {
        const struct gk_default_def *entry = &op->defaults[i];
        const char *name = op->templates[entry->template_index].name;
        for (uint32_t k = 0; k < def->tree_count; k++) {
            if (strcmp(def->trees[k].template_name, name) != 0) {
                continue;
            }
            enum gk_status status = try_default(entry, &def->trees[k], problem, config_out, err);
            if (status == GK_OK) {
                *tree_out = k;
            }
            if (status != GK_NOT_FOUND) {
                return status == GK_OK ? GK_OK
                                       : gk_fail_in(err, status, "op %s: defaults[%" PRIu32 "]",
                                                    op->fields.op, i);
            }
        }
    }
    return gk_fail(err, GK_NOT_FOUND, "op %s: none of its %" PRIu32 " defaults is legal for %.200s",
                   op->fields.op, op->default_count,
                   problem->canonical ? problem->canonical : "this problem");
}
