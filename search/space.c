/*
 * The kept space: packed digits, index <-> config. See space.h. Pure; any thread, read-only after
 * create.
 *
 * A config is stored as its digits, high bits first, in as few whole bytes as its tree needs (18 at
 * the most). So the order of memcmp is the declared order, the walk writes configs already sorted,
 * and find is a binary search without an index beside it.
 */
#include "search/space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "search/space_walk.h"

#define PACKED_MAX ((GK_PARAMS_MAX * 6 + 7) / 8) /* 64 values are 6 bits */

struct kept_tree {
    uint32_t first; /* index of its first config */
    uint32_t count;
    uint32_t bytes; /* of one packed config; 0: the tree has one config at most */
    uint8_t bits[GK_PARAMS_MAX];
    uint8_t *packed; /* count * bytes */
    size_t capacity; /* bytes allocated */
};

struct gk_space {
    const struct gk_space_def *def;
    uint32_t count;
    uint64_t raw;
    bool listed; /* the legal ones were given; no rule says why another is not */
    struct kept_tree trees[GK_TREES_MAX];
};

/* ------------------------------------------------------------------ packing */

static void plan_packing(struct kept_tree *kept, const struct gk_tree *tree)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        uint8_t bits = 0;
        while ((1u << bits) < tree->params[i].value_count) {
            bits++;
        }
        kept->bits[i] = bits;
        all += bits;
    }
    kept->bytes = (all + 7) / 8;
}

static void pack(const struct kept_tree *kept, uint32_t param_count, const uint8_t *digits,
                 uint8_t *packed)
{
    uint32_t window = 0, filled = 0; /* bits not yet written, at most 7 + 6 */
    uint8_t *end = packed;
    for (uint32_t i = 0; i < param_count; i++) {
        window = window << kept->bits[i] | digits[i];
        filled += kept->bits[i];
        if (filled >= 8) {
            filled -= 8;
            *end++ = (uint8_t)(window >> filled);
            window &= (1u << filled) - 1;
        }
    }
    if (filled) {
        *end = (uint8_t)(window << (8 - filled));
    }
}

static void unpack(const struct kept_tree *kept, uint32_t param_count, const uint8_t *packed,
                   uint8_t *digits)
{
    uint32_t window = 0, filled = 0;
    for (uint32_t i = 0; i < param_count; i++) {
        if (filled < kept->bits[i]) {
            window = window << 8 | *packed++;
            filled += 8;
        }
        filled -= kept->bits[i];
        digits[i] = (uint8_t)(window >> filled);
        window &= (1u << filled) - 1;
    }
}

/* ------------------------------------------------------------------ create */

struct keeping {
    struct gk_space *space;
    struct kept_tree *kept;
    uint32_t param_count;
};

static enum gk_status keep(void *context, const uint8_t *digits, struct gk_err *err)
{
    struct keeping *keeping = context;
    struct kept_tree *kept = keeping->kept;
    if (keeping->space->count == GK_SPACE_CONFIGS_MAX) {
        return gk_fail(err, GK_LIMIT, "the space has more than %u legal configs",
                       GK_SPACE_CONFIGS_MAX);
    }
    size_t used = (size_t)kept->count * kept->bytes;
    if (used + kept->bytes > kept->capacity) {
        size_t capacity = kept->capacity ? kept->capacity * 2 : 4096;
        uint8_t *packed = realloc(kept->packed, capacity);
        if (!packed) {
            return gk_fail(err, GK_NOMEM, "no memory for a space of %u configs",
                           keeping->space->count);
        }
        kept->packed = packed;
        kept->capacity = capacity;
    }
    if (kept->bytes) {
        pack(kept, keeping->param_count, digits, kept->packed + used);
    }
    kept->count++;
    keeping->space->count++;
    return GK_OK;
}

static void give_back_slack(struct kept_tree *kept)
{
    size_t used = (size_t)kept->count * kept->bytes;
    uint8_t *packed = used ? realloc(kept->packed, used) : NULL;
    if (packed) {
        kept->packed = packed;
        kept->capacity = used;
    }
}

/* Whether the values that a rule reads are the problem's and the device's alone. */
static bool reads_base_only(const struct gk_tree *tree, const struct gk_rule *rule)
{
    for (uint32_t i = 0; i < tree->param_count; i++) {
        if (gk_expr_uses(rule->expr, tree->params[i].slot)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < tree->rule_count; i++) {
        if (!tree->rules[i].is_constraint && gk_expr_uses(rule->expr, tree->rules[i].slot)) {
            return false;
        }
    }
    return true;
}

/* Work of one look for a culprit: about a second. A space that needs more gets the plainer answer.
 */
#define CULPRIT_STEPS (UINT64_C(1) << 26)

static enum gk_status stop_at_first(void *context, const uint8_t *digits, struct gk_err *err)
{
    (void)digits;
    (void)err;
    *(bool *)context = true;
    return GK_END;
}

/* Whether no config is legal with the derived names and this constraint alone. False also when that
 * cannot be told: an expression fails without the guards before it, or the steps are used up. */
static bool refuses_all(const struct gk_tree *tree, uint32_t number, struct gk_rule *rules,
                        struct walk_result *scratch, uint64_t *steps)
{
    struct gk_tree alone = *tree;
    bool found = false;
    struct walk_leaf leaf = {stop_at_first, &found};
    alone.rules = rules;
    alone.rule_count = 0;
    for (uint32_t i = 0; i <= number; i++) {
        if (i == number || !tree->rules[i].is_constraint) {
            rules[alone.rule_count++] = tree->rules[i];
        }
    }
    return walk_tree(&alone, &leaf, scratch, steps, NULL) == GK_OK && !found;
}

/* The first constraint that refuses every config by itself: the one to change something about,
 * while one that cut more may only have come first. RULE_NONE if there is none. */
static uint32_t find_culprit(const struct gk_tree *tree)
{
    uint32_t culprit = RULE_NONE;
    uint64_t steps = GK_SPACE_STEPS_MAX - CULPRIT_STEPS;
    struct gk_rule *rules = calloc(tree->rule_count + 1, sizeof rules[0]);
    struct walk_result scratch = {.cut = calloc(tree->rule_count + 1, sizeof scratch.cut[0])};
    for (uint32_t i = 0; rules && scratch.cut && i < tree->rule_count && culprit == RULE_NONE;
         i++) {
        if (tree->rules[i].is_constraint && refuses_all(tree, i, rules, &scratch, &steps)) {
            culprit = i;
        }
    }
    free(rules); /* without memory the plainer answer is given */
    free(scratch.cut);
    return culprit;
}

/* Appends which constraint of the tree refuses all, else which cut most. */
static void show_reason(struct gk_buf *buf, const struct gk_tree *tree,
                        const struct walk_result *result)
{
    uint32_t culprit = find_culprit(tree), worst = culprit;
    for (uint32_t i = 0; culprit == RULE_NONE && i < tree->rule_count; i++) {
        if (result->cut[i] && (worst == RULE_NONE || result->cut[i] > result->cut[worst])) {
            worst = i;
        }
    }
    if (worst == RULE_NONE) {
        return;
    }
    const struct gk_rule *rule = &tree->rules[worst];
    gk_buf_printf(buf, "; %s: constraint %s (%s) cut %" PRIu64 " of %" PRIu64, tree->template_name,
                  rule->name, gk_expr_text(rule->expr),
                  worst == culprit ? result->raw : result->cut[worst], result->raw);
    if (reads_base_only(tree, rule)) {
        gk_expr_show_values(rule->expr, tree->base, buf);
    }
    if (rule->doc) {
        gk_buf_printf(buf, ": %s", rule->doc);
    }
}

static enum gk_status keep_tree(struct gk_space *space, uint32_t number, uint64_t *steps,
                                struct gk_buf *reasons, struct gk_err *err)
{
    const struct gk_tree *tree = &space->def->trees[number];
    struct kept_tree *kept = &space->trees[number];
    struct walk_result result = {.cut = calloc(tree->rule_count + 1, sizeof result.cut[0])};
    if (!result.cut) {
        return gk_fail(err, GK_NOMEM, "space of %s: no memory", tree->template_name);
    }
    kept->first = space->count;
    if (tree->param_count <= GK_PARAMS_MAX) { /* else the walk refuses it */
        plan_packing(kept, tree);
    }
    struct keeping keeping = {space, kept, tree->param_count};
    struct walk_leaf leaf = {keep, &keeping};
    enum gk_status status = walk_tree(tree, &leaf, &result, steps, err);
    if (status == GK_OK) {
        space->raw = saturate_add(space->raw, result.raw);
        give_back_slack(kept);
        if (!kept->count) {
            show_reason(reasons, tree, &result);
        }
    }
    free(result.cut);
    return status;
}

enum gk_status gk_space_create(const struct gk_space_def *def, struct gk_space **space_out,
                               struct gk_err *err)
{
    struct gk_buf reasons = {0};
    uint64_t steps = 0;
    enum gk_status status = GK_OK;
    struct gk_space *space = calloc(1, sizeof *space);
    if (!space) {
        return gk_fail(err, GK_NOMEM, "no memory for a space");
    }
    space->def = def;
    for (uint32_t i = 0; i < def->tree_count; i++) {
        status = keep_tree(space, i, &steps, &reasons, err);
        if (status != GK_OK) {
            goto out;
        }
    }
    if (!space->count) {
        status = gk_fail(err, GK_INPUT, "no config is legal for this problem on this device%s",
                         def->tree_count ? gk_buf_text(&reasons) : "; there is no template at all");
        goto out;
    }
    *space_out = space;
    space = NULL;
out:
    gk_buf_fini(&reasons);
    gk_space_destroy(space);
    return status;
}

static enum gk_status keep_listed(struct gk_space *space, const uint8_t *digits, uint32_t count,
                                  struct gk_err *err)
{
    const struct gk_tree *tree = &space->def->trees[0];
    struct keeping keeping = {space, &space->trees[0], tree->param_count};
    plan_packing(&space->trees[0], tree);
    space->raw = 1;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        space->raw = saturate_mul(space->raw, tree->params[i].value_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *one = digits + (size_t)i * GK_PARAMS_MAX;
        for (uint32_t k = 0; k < tree->param_count; k++) {
            if (one[k] >= tree->params[k].value_count) {
                return gk_fail(err, GK_INPUT, "config %u: value %u of parameter %s, which has %u",
                               i, one[k], tree->params[k].name, tree->params[k].value_count);
            }
        }
        if (i && memcmp(one - GK_PARAMS_MAX, one, tree->param_count) >= 0) {
            return gk_fail(err, GK_INPUT, "config %u does not come behind config %u", i, i - 1);
        }
        enum gk_status status = keep(&keeping, one, err);
        if (status != GK_OK) {
            return status;
        }
    }
    give_back_slack(&space->trees[0]);
    return GK_OK;
}

enum gk_status gk_space_create_listed(const struct gk_space_def *def, const uint8_t *digits,
                                      uint32_t count, struct gk_space **space_out,
                                      struct gk_err *err)
{
    if (def->tree_count != 1 || !count || def->trees[0].param_count > GK_PARAMS_MAX) {
        return gk_fail(err, GK_INPUT,
                       "a list of %u configs over %u trees: one tree of at most %u parameters and "
                       "at least one config are needed",
                       count, def->tree_count, GK_PARAMS_MAX);
    }
    struct gk_space *space = calloc(1, sizeof *space);
    if (!space) {
        return gk_fail(err, GK_NOMEM, "no memory for a space");
    }
    space->def = def;
    space->listed = true;
    enum gk_status status = keep_listed(space, digits, count, err);
    if (status != GK_OK) {
        gk_space_destroy(space);
        return status;
    }
    *space_out = space;
    return GK_OK;
}

void gk_space_destroy(struct gk_space *space)
{
    if (!space) {
        return;
    }
    for (uint32_t i = 0; i < GK_TREES_MAX; i++) {
        free(space->trees[i].packed);
    }
    free(space);
}

/* ------------------------------------------------------------------ questions */

uint32_t gk_space_count(const struct gk_space *space)
{
    return space->count;
}

uint64_t gk_space_raw_count(const struct gk_space *space)
{
    return space->raw;
}

size_t gk_space_bytes(const struct gk_space *space)
{
    size_t bytes = sizeof *space;
    for (uint32_t i = 0; i < space->def->tree_count; i++) {
        bytes += space->trees[i].capacity;
    }
    return bytes;
}

uint32_t gk_space_tree_count(const struct gk_space *space)
{
    return space->def->tree_count;
}

const struct gk_space_def *gk_space_def_of(const struct gk_space *space)
{
    return space->def;
}

void gk_space_tree_range(const struct gk_space *space, uint32_t tree, uint32_t *first_out,
                         uint32_t *count_out)
{
    GK_ASSERT(tree < space->def->tree_count);
    *first_out = space->trees[tree].first;
    *count_out = space->trees[tree].count;
}

uint32_t gk_space_tree_of(const struct gk_space *space, uint32_t index)
{
    GK_ASSERT(index < space->count);
    uint32_t tree = 0;
    while (index - space->trees[tree].first >= space->trees[tree].count) {
        tree++; /* at most GK_TREES_MAX; an empty tree has count 0 and is passed over */
    }
    return tree;
}

void gk_space_digits(const struct gk_space *space, uint32_t index,
                     uint8_t digits_out[GK_PARAMS_MAX])
{
    uint32_t number = gk_space_tree_of(space, index);
    const struct kept_tree *kept = &space->trees[number];
    uint32_t param_count = space->def->trees[number].param_count;
    memset(digits_out, 0, GK_PARAMS_MAX);
    if (kept->bytes) {
        unpack(kept, param_count, kept->packed + (size_t)(index - kept->first) * kept->bytes,
               digits_out);
    }
}

void gk_space_config(const struct gk_space *space, uint32_t index, struct gk_config *config_out)
{
    const struct gk_tree *tree = &space->def->trees[gk_space_tree_of(space, index)];
    uint8_t digits[GK_PARAMS_MAX];
    gk_space_digits(space, index, digits);
    memset(config_out, 0, sizeof *config_out);
    strncpy(config_out->template_name, tree->template_name, sizeof config_out->template_name - 1);
    config_out->template_hash = tree->template_hash;
    config_out->count = tree->param_count;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        config_out->values[i] = tree->params[i].values[digits[i]];
    }
}

/* memcmp of a few bytes, where the call itself would be half of the cost. */
static inline int order_of(const uint8_t *a, const uint8_t *b, uint32_t bytes)
{
    while (bytes > 1 && *a == *b) {
        a++;
        b++;
        bytes--;
    }
    return *a - *b;
}

bool gk_space_find_digits(const struct gk_space *space, uint32_t tree,
                          const uint8_t digits[GK_PARAMS_MAX], uint32_t *index_out)
{
    GK_ASSERT(tree < space->def->tree_count);
    const struct kept_tree *kept = &space->trees[tree];
    uint8_t wanted[PACKED_MAX] = {0};
    if (!kept->bytes) { /* one point at most, nothing to compare */
        if (kept->count) {
            *index_out = kept->first;
        }
        return kept->count > 0;
    }
    pack(kept, space->def->trees[tree].param_count, digits, wanted);
    uint32_t low = 0, high = kept->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = order_of(kept->packed + (size_t)middle * kept->bytes, wanted, kept->bytes);
        if (order == 0) {
            *index_out = kept->first + middle;
            return true;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static bool config_digits(const struct gk_tree *tree, const struct gk_config *config,
                          uint8_t digits_out[GK_PARAMS_MAX])
{
    if (config->count != tree->param_count) {
        return false;
    }
    for (uint32_t i = 0; i < tree->param_count; i++) {
        const struct gk_param *param = &tree->params[i];
        uint32_t digit = 0;
        while (digit < param->value_count && param->values[digit] != config->values[i]) {
            digit++;
        }
        if (digit == param->value_count) {
            return false;
        }
        digits_out[i] = (uint8_t)digit;
    }
    return true;
}

enum gk_status gk_space_find(const struct gk_space *space, const struct gk_config *config,
                             uint32_t *index_out, struct gk_err *err)
{
    for (uint32_t i = 0; i < space->def->tree_count; i++) {
        const struct gk_tree *tree = &space->def->trees[i];
        uint8_t digits[GK_PARAMS_MAX] = {0};
        if (strcmp(tree->template_name, config->template_name) != 0) {
            continue;
        }
        if (!gk_hash_equal(&tree->template_hash, &config->template_hash)) {
            char has[GK_HASH_TEXT_SIZE], wanted[GK_HASH_TEXT_SIZE];
            gk_hash_hex(&tree->template_hash, has);
            gk_hash_hex(&config->template_hash, wanted);
            return gk_fail(err, GK_NOT_FOUND,
                           "the config is of template %s %.12s; the space has %s %.12s",
                           tree->template_name, wanted, tree->template_name, has);
        }
        if (config_digits(tree, config, digits) &&
            gk_space_find_digits(space, i, digits, index_out)) {
            return GK_OK;
        }
        break;
    }
    if (space->listed) {
        return gk_fail(err, GK_NOT_FOUND, "%s: the config is not among the %u that were recorded",
                       config->template_name, space->count);
    }
    enum gk_status status = gk_space_why(space->def, config, NULL, err);
    GK_ASSERT(status != GK_OK); /* the walk and the judge of one point would disagree */
    if (err) {
        err->status = GK_NOT_FOUND;
    }
    return GK_NOT_FOUND;
}
