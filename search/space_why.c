/* Counting a space without keeping it, and why one config is not in it. See space.h. Pure; any
 * thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "search/space.h"
#include "search/space_walk.h"

/* ------------------------------------------------------------------ tally */

static void add_reject(struct gk_space_reject reject, struct gk_space_reject *rejects,
                       uint32_t reject_max, uint32_t *count)
{
    uint32_t at = *count;
    while (at > 0 && rejects[at - 1].cut < reject.cut) {
        at--; /* equal ones stay in declared order */
    }
    if (at == reject_max) {
        return;
    }
    uint32_t moved = *count < reject_max ? *count - at : reject_max - 1 - at;
    memmove(&rejects[at + 1], &rejects[at], moved * sizeof rejects[0]);
    rejects[at] = reject;
    *count = at + 1 + moved;
}

enum gk_status gk_space_tally(const struct gk_space_def *def, uint64_t *legal_out,
                              uint64_t *raw_out, struct gk_space_reject *rejects_out,
                              uint32_t reject_max, uint32_t *reject_count_out, struct gk_err *err)
{
    uint64_t legal = 0, raw = 0, steps = 0;
    uint32_t rejects = 0;
    for (uint32_t i = 0; i < def->tree_count; i++) {
        const struct gk_tree *tree = &def->trees[i];
        struct walk_result result = {.cut = calloc(tree->rule_count + 1, sizeof result.cut[0])};
        if (!result.cut) {
            return gk_fail(err, GK_NOMEM, "space of %s: no memory", tree->template_name);
        }
        enum gk_status status = walk_tree(tree, NULL, &result, &steps, err);
        for (uint32_t rule = 0; rejects_out && rule < tree->rule_count; rule++) {
            if (result.cut[rule]) {
                add_reject((struct gk_space_reject){tree->template_name, tree->rules[rule].name,
                                                    result.cut[rule]},
                           rejects_out, reject_max, &rejects);
            }
        }
        free(result.cut);
        if (status != GK_OK) {
            return status;
        }
        legal = saturate_add(legal, result.legal);
        raw = saturate_add(raw, result.raw);
    }
    *legal_out = legal;
    *raw_out = raw;
    if (reject_count_out) {
        *reject_count_out = rejects;
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ why */

static const struct gk_tree *find_tree(const struct gk_space_def *def, const char *name,
                                       struct gk_err *err)
{
    struct gk_buf names = {0};
    for (uint32_t i = 0; i < def->tree_count; i++) {
        if (strcmp(def->trees[i].template_name, name) == 0) {
            gk_buf_fini(&names);
            return &def->trees[i];
        }
        gk_buf_printf(&names, "%s%s", i ? ", " : "", def->trees[i].template_name);
    }
    (void)gk_fail(err, GK_INPUT,
                  "no template '%s' serves this problem on this device; those that do: %s", name,
                  def->tree_count ? gk_buf_text(&names) : "none");
    gk_buf_fini(&names);
    return NULL;
}

static enum gk_status check_values(const struct gk_tree *tree, const struct gk_config *config,
                                   struct gk_err *err)
{
    if (config->count != tree->param_count) {
        return gk_fail(err, GK_INPUT, "%s takes %u parameters; the config has %u",
                       tree->template_name, tree->param_count, config->count);
    }
    for (uint32_t i = 0; i < tree->param_count; i++) {
        const struct gk_param *param = &tree->params[i];
        struct gk_buf allowed = {0};
        bool listed = false;
        for (uint32_t v = 0; v < param->value_count; v++) {
            listed = listed || param->values[v] == config->values[i];
            gk_buf_printf(&allowed, "%s%" PRId64, v ? ", " : "", param->values[v]);
        }
        if (!listed) {
            (void)gk_fail(err, GK_INPUT, "%s: parameter %s is %" PRId64 "; allowed: %s",
                          tree->template_name, param->name, config->values[i],
                          gk_buf_text(&allowed));
        }
        gk_buf_fini(&allowed);
        if (!listed) {
            return GK_INPUT;
        }
    }
    return GK_OK;
}

static void show_derived(const struct gk_tree *tree, const struct gk_rule *rule,
                         union gk_value value, struct gk_buf *buf)
{
    const struct gk_symbol *symbol = gk_scope_at(tree->scope, rule->slot);
    if (symbol && symbol->type == GK_VALUE_REAL) {
        gk_buf_printf(buf, "%s = %g\n", rule->name, value.r);
    } else {
        gk_buf_printf(buf, "%s = %" PRId64 "\n", rule->name, value.i);
    }
}

static enum gk_status fail_broken(const struct gk_tree *tree, const struct gk_config *config,
                                  const struct gk_rule *rule, const union gk_value *slots,
                                  struct gk_err *err)
{
    struct gk_buf values = {0};
    gk_expr_show_values(rule->expr, slots, &values);
    char *text = gk_config_text(tree, config);
    enum gk_status status =
        gk_fail(err, GK_INPUT, "%s: constraint %s is broken: %s%s%s%s",
                text ? text : tree->template_name, rule->name, gk_expr_text(rule->expr),
                gk_buf_text(&values), rule->doc ? ": " : "", rule->doc ? rule->doc : "");
    free(text);
    gk_buf_fini(&values);
    return status;
}

/* The derived names of a point, also those behind a broken constraint: people ask why to see the
 * numbers. */
static void show_all_derived(const struct gk_tree *tree, const struct gk_config *config,
                             union gk_value *slots, struct gk_buf *buf)
{
    memcpy(slots, tree->base, tree->slot_count * sizeof slots[0]);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        slots[tree->params[i].slot].i = config->values[i];
    }
    for (uint32_t i = 0; i < tree->rule_count; i++) {
        const struct gk_rule *rule = &tree->rules[i];
        if (rule->is_constraint) {
            continue;
        }
        if (gk_expr_eval(rule->expr, slots, &slots[rule->slot], NULL) != GK_OK) {
            return; /* later names may read this one */
        }
        show_derived(tree, rule, slots[rule->slot], buf);
    }
}

enum gk_status gk_space_why(const struct gk_space_def *def, const struct gk_config *config,
                            struct gk_buf *derived_out, struct gk_err *err)
{
    const struct gk_tree *tree = find_tree(def, config->template_name, err);
    if (!tree) {
        return GK_INPUT;
    }
    enum gk_status status = check_values(tree, config, err);
    if (status != GK_OK) {
        return status;
    }
    union gk_value *slots = calloc(tree->slot_count + 1, sizeof slots[0]);
    if (!slots) {
        return gk_fail(err, GK_NOMEM, "no memory for %u names", tree->slot_count);
    }
    uint32_t broken = RULE_NONE;
    status = judge_point(tree, config->values, slots, &broken, err);
    if (status == GK_OK && broken != RULE_NONE) {
        status = fail_broken(tree, config, &tree->rules[broken], slots, err);
    }
    if (derived_out) {
        show_all_derived(tree, config, slots, derived_out);
    }
    free(slots);
    return status;
}
