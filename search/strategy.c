/* The table of strategies and what they share. See strategy.h, strategy_base.h. */
#include "search/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/strategy_base.h"

#define SHORT_DOUBT  0.02 /* spread of a single sample: half of recorded configs have less */
#define PRIOR_SURVEY 256  /* configs whose prior is looked at to know its scale */

static const struct gk_strategy_ops *const strategies[] = {
    &strategy_portfolio, /* the default */
    &strategy_surrogate,  &strategy_evolve, &strategy_local,
    &strategy_multistart, &strategy_random, &strategy_exhaustive,
};

const struct gk_strategy_ops *gk_strategy_at(uint32_t index)
{
    return index < GK_ARRAY_COUNT(strategies) ? strategies[index] : NULL;
}

const struct gk_strategy_ops *gk_strategy_find(const char *name)
{
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(strategies); i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            return strategies[i];
        }
    }
    return NULL;
}

/* Mean and spread of the prior's logarithm over some configs of a tree. */
static void survey_prior(struct gk_strategy *base, uint32_t tree)
{
    struct permute permute;
    double sum = 0, squares = 0;
    uint32_t first, count, known = 0;
    gk_space_tree_range(base->space, tree, &first, &count);
    permute_init(&permute, count, base->seed, 4000 + tree);
    for (uint32_t i = 0; i < count && i < PRIOR_SURVEY; i++) {
        double prior = base->prior(base->prior_context, first + permute_at(&permute, i));
        if (prior > 0) {
            sum += log(prior);
            squares += log(prior) * log(prior);
            known++;
        }
    }
    double mean = known ? sum / known : 0;
    double spread = known ? sqrt(fmax(squares / known - mean * mean, 0)) : 0;
    base->prior_mean[tree] = (float)mean;
    base->prior_spread[tree] = spread > 1e-3 ? (float)spread : 1;
}

enum gk_status strategy_init(struct gk_strategy *base, const struct gk_strategy_setup *setup,
                             struct gk_err *err)
{
    base->space = setup->space;
    base->seed = setup->seed;
    base->budget = setup->budget_trials;
    base->count = gk_space_count(setup->space);
    base->left = base->count;
    for (uint32_t i = 0; i < setup->hint_count; i++) {
        if (setup->hints[i] >= base->count) {
            return gk_fail(err, GK_INPUT, "hint %u is index %u; the space has %u configs", i,
                           setup->hints[i], base->count);
        }
    }
    base->used = calloc(base->count / 8 + 1, 1);
    base->hints = calloc(setup->hint_count + 1, sizeof base->hints[0]);
    base->hint_digits = calloc(setup->hint_count + 1, sizeof base->hint_digits[0]);
    if (!base->used || !base->hints || !base->hint_digits) {
        return gk_fail(err, GK_NOMEM, "no memory for a search of %u configs", base->count);
    }
    if (setup->hint_count) {
        memcpy(base->hints, setup->hints, setup->hint_count * sizeof base->hints[0]);
    }
    base->hint_count = setup->hint_count;
    base->budget_ns = setup->budget_ns;
    base->prior = setup->prior;
    base->prior_context = setup->prior_context;
    for (uint32_t i = 0; i < setup->hint_count; i++) {
        gk_space_digits(base->space, base->hints[i], base->hint_digits[i]);
    }
    for (uint32_t i = 0; base->prior && i < gk_space_tree_count(base->space); i++) {
        survey_prior(base, i);
    }
    return GK_OK;
}

bool strategy_is_time(const struct gk_tell *tell)
{
    return tell->ok && tell->time_ns > 0 && isfinite(tell->time_ns);
}

double strategy_time(const struct gk_tell *tell)
{
    if (!tell->samples || tell->samples >= STRATEGY_SAMPLES) {
        return tell->time_ns;
    }
    return tell->time_ns * (1 + SHORT_DOUBT / sqrt(tell->samples));
}

void strategy_extras(const struct gk_strategy *base, uint32_t tree, uint32_t index,
                     const uint8_t *digits, float extras[STRATEGY_EXTRAS])
{
    uint32_t params = gk_space_def_of(base->space)->trees[tree].param_count;
    uint32_t nearest = UINT32_MAX;
    double prior = base->prior ? base->prior(base->prior_context, index) : 0;
    extras[0] =
        prior > 0 ? ((float)log(prior) - base->prior_mean[tree]) / base->prior_spread[tree] : 0;
    for (uint32_t i = 0; i < base->hint_count; i++) {
        uint32_t differ = 0;
        for (uint32_t k = 0; k < params; k++) {
            differ += base->hint_digits[i][k] != digits[k];
        }
        if (differ < nearest && gk_space_tree_of(base->space, base->hints[i]) == tree) {
            nearest = differ;
        }
    }
    extras[1] = nearest == UINT32_MAX ? 0 : expf(-0.5f * (float)nearest);
}

void strategy_fini(struct gk_strategy *base)
{
    free(base->used);
    free(base->hints);
    free(base->hint_digits);
    memset(base, 0, sizeof *base);
}

bool strategy_is_used(const struct gk_strategy *base, uint32_t index)
{
    return base->used[index / 8] >> index % 8 & 1;
}

bool strategy_take(struct gk_strategy *base, uint32_t index)
{
    GK_ASSERT(index < base->count);
    if (strategy_is_used(base, index)) {
        return false;
    }
    base->used[index / 8] = (uint8_t)(base->used[index / 8] | 1u << index % 8);
    base->left--;
    return true;
}

bool strategy_next_hint(struct gk_strategy *base, uint32_t *index_out)
{
    while (base->hint_next < base->hint_count) {
        uint32_t index = base->hints[base->hint_next++];
        if (strategy_take(base, index)) {
            *index_out = index;
            return true;
        }
    }
    return false;
}

static uint32_t hint_or_next(struct gk_strategy *base, uint32_t (*next)(struct gk_strategy *self))
{
    uint32_t index;
    return strategy_next_hint(base, &index) ? index : next(base);
}

enum gk_status strategy_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                            uint32_t *count_out, uint32_t (*next)(struct gk_strategy *self),
                            void (*given)(struct gk_strategy *self, uint32_t index),
                            struct gk_err *err)
{
    uint32_t count = 0;
    while (count < n && base->left) {
        indices_out[count] = hint_or_next(base, next);
        if (given) {
            given(base, indices_out[count]);
        }
        count++;
    }
    *count_out = count;
    if (!count && n) {
        return gk_fail(err, GK_END, "all %u configs were asked for", base->count);
    }
    return GK_OK;
}

void strategy_draw_init(struct strategy_draw *draw, const struct gk_space *space, uint32_t tree,
                        uint64_t seed)
{
    uint32_t count;
    gk_space_tree_range(space, tree, &draw->first, &count);
    permute_init(&draw->permute, count, seed, 1000 + tree);
    draw->position = 0;
}

bool strategy_draw_peek(struct strategy_draw *draw, const struct gk_strategy *base,
                        uint32_t *index_out)
{
    for (; draw->position < draw->permute.count; draw->position++) {
        uint32_t index = draw->first + permute_at(&draw->permute, draw->position);
        if (!strategy_is_used(base, index)) {
            *index_out = index;
            return true;
        }
    }
    return false;
}
