/* The walk over one tree. See space_walk.h. Pure; any thread. */
#include "search/space_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t saturate_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t saturate_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* ------------------------------------------------------------------ one point */

static enum gk_status fail_rule(const struct gk_tree *tree, uint32_t rule, const int64_t *values,
                                struct gk_err *err)
{
    struct gk_config config = {.count = tree->param_count};
    memcpy(config.values, values, tree->param_count * sizeof values[0]);
    char *text = gk_config_text(tree, &config);
    enum gk_status status = gk_fail_in(err, GK_RANGE, "%s: %s", text ? text : tree->template_name,
                                       tree->rules[rule].name);
    free(text);
    return status;
}

enum gk_status judge_point(const struct gk_tree *tree, const int64_t *values, union gk_value *slots,
                           uint32_t *broken_out, struct gk_err *err)
{
    memcpy(slots, tree->base, tree->slot_count * sizeof slots[0]);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        slots[tree->params[i].slot].i = values[i];
    }
    for (uint32_t i = 0; i < tree->rule_count; i++) {
        const struct gk_rule *rule = &tree->rules[i];
        int64_t truth = 1;
        enum gk_status status = rule->is_constraint
                                    ? gk_expr_eval_int(rule->expr, slots, &truth, err)
                                    : gk_expr_eval(rule->expr, slots, &slots[rule->slot], err);
        if (status != GK_OK) {
            return fail_rule(tree, i, values, err);
        }
        if (!truth) {
            *broken_out = i;
            return GK_OK;
        }
    }
    *broken_out = RULE_NONE;
    return GK_OK;
}

/* ------------------------------------------------------------------ the plan */

struct walk {
    const struct gk_tree *tree;
    const struct walk_leaf *leaf;
    struct walk_result *result;
    uint64_t *steps;
    union gk_value *slots;   /* the point under construction */
    union gk_value *scratch; /* for judge_point, below a rule that could not be evaluated */
    uint32_t *order;         /* rules by level, declared order inside a level */
    uint32_t
        first[GK_PARAMS_MAX + 2]; /* order[first[l] .. first[l + 1]) are the rules of level l */
    uint64_t below[GK_PARAMS_MAX + 1]; /* raw points under a prefix of that many parameters */
    uint32_t ruled;                    /* no rule reads parameters from this one on */
    bool in_order;                     /* a rule above could not be evaluated: leaves decide */
    uint8_t digits[GK_PARAMS_MAX];
    int64_t values[GK_PARAMS_MAX];
};

/* Level of a rule: how many parameters, in declared order, are bound when all that it reads is. */
static uint32_t rule_level(const struct gk_expr *expr, const uint8_t *slot_level)
{
    uint32_t level = 0;
    int64_t last = gk_expr_slot_max(expr);
    for (int64_t slot = 0; slot <= last; slot++) {
        if (slot_level[slot] > level && gk_expr_uses(expr, (uint32_t)slot)) {
            level = slot_level[slot];
        }
    }
    return level;
}

static enum gk_status plan_rules(struct walk *walk, struct gk_err *err)
{
    const struct gk_tree *tree = walk->tree;
    uint8_t slot_level[GK_SCOPE_SYMBOLS_MAX] = {0};
    uint8_t *level = calloc(tree->rule_count + 1, 1);
    walk->order = calloc(tree->rule_count + 1, sizeof walk->order[0]);
    if (!level || !walk->order) {
        free(level);
        return gk_fail(err, GK_NOMEM, "space of %s: no memory for %u rules", tree->template_name,
                       tree->rule_count);
    }
    for (uint32_t i = 0; i < tree->param_count; i++) {
        slot_level[tree->params[i].slot] = (uint8_t)(i + 1);
    }
    for (uint32_t i = 0; i < tree->rule_count; i++) {
        const struct gk_rule *rule = &tree->rules[i];
        level[i] = (uint8_t)rule_level(rule->expr, slot_level);
        if (!rule->is_constraint) {
            slot_level[rule->slot] = level[i];
        }
        walk->ruled = level[i] > walk->ruled ? level[i] : walk->ruled;
    }
    uint32_t placed = 0;
    for (uint32_t at = 0; at <= tree->param_count; at++) {
        walk->first[at] = placed;
        for (uint32_t i = 0; i < tree->rule_count; i++) {
            if (level[i] == at) {
                walk->order[placed++] = i;
            }
        }
    }
    walk->first[tree->param_count + 1] = placed;
    walk->below[tree->param_count] = 1;
    for (uint32_t i = tree->param_count; i-- > 0;) {
        walk->below[i] = saturate_mul(walk->below[i + 1], tree->params[i].value_count);
    }
    free(level);
    return GK_OK;
}

static enum gk_status check_bounds(const struct gk_tree *tree, struct gk_err *err)
{
    if (tree->param_count > GK_PARAMS_MAX) {
        return gk_fail(err, GK_LIMIT, "%s has %u parameters; allowed: %d", tree->template_name,
                       tree->param_count, GK_PARAMS_MAX);
    }
    if (tree->slot_count > GK_SCOPE_SYMBOLS_MAX) {
        return gk_fail(err, GK_LIMIT, "%s has %u names; allowed: %d", tree->template_name,
                       tree->slot_count, GK_SCOPE_SYMBOLS_MAX);
    }
    for (uint32_t i = 0; i < tree->param_count; i++) {
        uint32_t count = tree->params[i].value_count;
        if (count == 0 || count > GK_PARAM_VALUES_MAX) {
            return gk_fail(err, GK_LIMIT, "%s: parameter %s has %u values; allowed: 1 to %d",
                           tree->template_name, tree->params[i].name, count, GK_PARAM_VALUES_MAX);
        }
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ the walk */

static enum gk_status visit(struct walk *walk, struct gk_err *err)
{
    walk->result->legal = saturate_add(walk->result->legal, 1);
    return walk->leaf ? walk->leaf->visit(walk->leaf->context, walk->digits, err) : GK_OK;
}

static enum gk_status visit_in_order(struct walk *walk, struct gk_err *err)
{
    uint32_t broken;
    *walk->steps += walk->tree->rule_count;
    enum gk_status status = judge_point(walk->tree, walk->values, walk->scratch, &broken, err);
    if (status != GK_OK) {
        return status;
    }
    if (broken != RULE_NONE) {
        walk->result->cut[broken] = saturate_add(walk->result->cut[broken], 1);
        return GK_OK;
    }
    return visit(walk, err);
}

/* Evaluates the rules of a level: false if the prefix is cut off. */
static bool pass_level(struct walk *walk, uint32_t level)
{
    for (uint32_t i = walk->first[level]; i < walk->first[level + 1]; i++) {
        uint32_t number = walk->order[i];
        const struct gk_rule *rule = &walk->tree->rules[number];
        union gk_value value;
        enum gk_status status = rule->is_constraint
                                    ? gk_expr_eval_int(rule->expr, walk->slots, &value.i, NULL)
                                    : gk_expr_eval(rule->expr, walk->slots, &value, NULL);
        if (status != GK_OK) {
            walk->in_order = true;
            return true;
        }
        if (!rule->is_constraint) {
            walk->slots[rule->slot] = value;
        } else if (!value.i) {
            uint64_t *cut = &walk->result->cut[number];
            *cut = saturate_add(*cut, walk->below[level]);
            return false;
        }
    }
    return true;
}

/* `level` parameters are bound and their rules have passed. Recursion: at most GK_PARAMS_MAX deep.
 */
static enum gk_status descend(struct walk *walk, uint32_t level, struct gk_err *err)
{
    if (level == walk->tree->param_count) {
        return walk->in_order ? visit_in_order(walk, err) : visit(walk, err);
    }
    if (!walk->leaf && !walk->in_order && level >= walk->ruled) {
        walk->result->legal = saturate_add(walk->result->legal, walk->below[level]);
        return GK_OK;
    }
    const struct gk_param *param = &walk->tree->params[level];
    bool in_order = walk->in_order;
    for (uint32_t digit = 0; digit < param->value_count; digit++) {
        *walk->steps += 1 + walk->first[level + 2] - walk->first[level + 1];
        if (*walk->steps > GK_SPACE_STEPS_MAX) {
            return gk_fail(err, GK_LIMIT,
                           "space of %s: more than %" PRIu64 " steps to enumerate; give its "
                           "constraints earlier parameters, or fewer values",
                           walk->tree->template_name, GK_SPACE_STEPS_MAX);
        }
        walk->digits[level] = (uint8_t)digit;
        walk->values[level] = param->values[digit];
        walk->slots[param->slot].i = param->values[digit];
        walk->in_order = in_order;
        if (in_order || pass_level(walk, level + 1)) {
            enum gk_status status = descend(walk, level + 1, err);
            if (status != GK_OK) {
                return status;
            }
        }
    }
    walk->in_order = in_order;
    return GK_OK;
}

enum gk_status walk_tree(const struct gk_tree *tree, const struct walk_leaf *leaf,
                         struct walk_result *result, uint64_t *steps, struct gk_err *err)
{
    struct walk walk = {.tree = tree, .leaf = leaf, .result = result, .steps = steps};
    enum gk_status status = check_bounds(tree, err);
    if (status == GK_OK) {
        status = plan_rules(&walk, err);
    }
    if (status != GK_OK) {
        goto out;
    }
    result->raw = walk.below[0];
    walk.slots = calloc(tree->slot_count + 1, sizeof walk.slots[0]);
    walk.scratch = calloc(tree->slot_count + 1, sizeof walk.scratch[0]);
    if (!walk.slots || !walk.scratch) {
        status = gk_fail(err, GK_NOMEM, "space of %s: no memory for %u names", tree->template_name,
                         tree->slot_count);
        goto out;
    }
    memcpy(walk.slots, tree->base, tree->slot_count * sizeof walk.slots[0]);
    if (pass_level(&walk, 0)) {
        status = descend(&walk, 0, err);
    }
out:
    free(walk.order);
    free(walk.slots);
    free(walk.scratch);
    return status;
}
