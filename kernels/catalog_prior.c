/*
 * What a template expects of a config before anything was compiled: `prior` of kernel.json.
 *
 * Its scope is the template's without k.*, with names of its own behind: nobody else sees those, so
 * that an estimate can be said better without any space, hash or grid to change.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <string.h>

static struct gk_scope *copy_scope(struct gk_reader *r, const struct gk_scope *from)
{
    struct gk_scope *scope = gk_scope_create();
    struct gk_err err = {0};
    enum gk_status status = scope ? GK_OK : gk_fail(&err, GK_NOMEM, "out of memory");
    for (uint32_t i = 0; status == GK_OK && i < gk_scope_count(from); i++) {
        const struct gk_symbol *symbol = gk_scope_at(from, i);
        uint32_t slot = 0;
        status = gk_scope_add(scope, symbol->name, symbol->type, symbol->enum_values,
                              symbol->enum_count, &slot, &err);
        GK_ASSERT(status != GK_OK || slot == symbol->slot);
    }
    if (status != GK_OK) {
        gk_reader_fail(r, "prior", status, "%s", err.text);
    }
    return scope;
}

void gk_prior_read(struct gk_reader *r, const struct gk_json *json, struct gk_template *t)
{
    static const char *const keys[] = {"derived", "seconds", NULL};
    const struct gk_json *object = gk_json_get(json, "prior");
    struct gk_rule_list names = {0};
    if (!object) {
        return;
    }
    size_t mark = gk_reader_enter(r, "prior");
    t->prior.scope = copy_scope(r, t->scope);
    if (t->prior.scope && gk_read_keys(r, object, keys)) {
        gk_read_rules(r, object, t->prior.scope, &names);
        t->prior.seconds = gk_read_expr(r, object, "seconds", t->prior.scope, GK_WANT_REAL, true);
    }
    t->prior.names = names.rules;
    t->prior.name_count = names.count;
    gk_reader_leave(r, mark);
}

void gk_prior_fini(struct gk_prior *prior)
{
    gk_rules_free(prior->names, prior->name_count);
    gk_expr_destroy(prior->seconds);
    gk_scope_destroy(prior->scope);
    memset(prior, 0, sizeof *prior);
}

/* Derived names alone: the config is one of a space, whose constraints were looked at. */
static enum gk_status fill_names(const struct gk_rule *rules, uint32_t count, union gk_value *slots,
                                 struct gk_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        union gk_value value;
        if (rules[i].is_constraint) {
            continue;
        }
        enum gk_status status = gk_expr_eval(rules[i].expr, slots, &value, err);
        if (status != GK_OK) {
            return gk_fail_in(err, status, "derived name %s", rules[i].name);
        }
        slots[rules[i].slot] = value;
    }
    return GK_OK;
}

enum gk_status gk_template_prior(const struct gk_template *template_, const union gk_value *slots,
                                 double *seconds_out, struct gk_err *err)
{
    const struct gk_prior *prior = &template_->prior;
    union gk_value own[GK_SCOPE_SYMBOLS_MAX];
    double seconds = 0;
    if (!prior->seconds) {
        return gk_fail(err, GK_NOT_FOUND, "template %s has no prior", template_->name);
    }
    memcpy(own, slots, template_->k_slot * sizeof own[0]); /* names of its own stand from there */
    enum gk_status status = fill_names(prior->names, prior->name_count, own, err);
    if (status == GK_OK) {
        status = gk_expr_eval_real(prior->seconds, own, &seconds, err);
    }
    if (status == GK_OK && seconds <= 0) {
        status = gk_fail(err, GK_RANGE, "%g seconds; a time above 0 is expected", seconds);
    }
    if (status != GK_OK) {
        return gk_fail_in(err, status, "prior of %s", template_->name);
    }
    *seconds_out = seconds;
    return GK_OK;
}

enum gk_status gk_catalog_prior(const struct gk_op *op, const struct gk_tree *tree,
                                const struct gk_config *config, double *seconds_out,
                                struct gk_err *err)
{
    const struct gk_template *t = gk_op_template(op, tree->template_name);
    union gk_value slots[GK_SCOPE_SYMBOLS_MAX];
    if (!t || !t->prior.seconds) {
        return gk_fail(err, GK_NOT_FOUND, "template %s has no prior", tree->template_name);
    }
    enum gk_status status = gk_tree_slots(tree, config, slots, err);
    return status == GK_OK ? gk_template_prior(t, slots, seconds_out, err) : status;
}

enum gk_status gk_tree_slots(const struct gk_tree *tree, const struct gk_config *config,
                             union gk_value *slots, struct gk_err *err)
{
    if (config->count != tree->param_count) {
        return gk_fail(err, GK_INPUT, "config of %s has %" PRIu32 " values; %" PRIu32 " are needed",
                       tree->template_name, config->count, tree->param_count);
    }
    memcpy(slots, tree->base, tree->slot_count * sizeof slots[0]);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        slots[tree->params[i].slot].i = config->values[i];
    }
    return fill_names(tree->rules, tree->rule_count, slots, err);
}
