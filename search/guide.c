/* The models of a forest. See guide.h. */
#include "search/guide.h"

#include <math.h>
#include <string.h>

#define STARTS_USUAL 5 /* of a tree */
#define STARTS_MIN   2
#define START_DRAWN  32  /* with a prior: of so many drawn ones that which it likes best ... */
#define FIRST_DRAWN  256 /* ... and of so many for a tree's first start */
#define STARTS_SHARE 4   /* all trees' starts take at most one trial in so many of the budget */
#define POOL_MIN     64
#define COST_POWER   0.25 /* a config that costs twice as much must promise a fifth more */
#define COST_SECONDS 0.5  /* and this, 1.4 times as much, where the budget is seconds */
#define BEST_MAX     16

enum gk_status guide_init(struct guide *guide, struct gk_strategy *base, struct gk_err *err)
{
    uint32_t trees = 0;
    memset(guide, 0, sizeof *guide);
    guide->base = base;
    guide->tree_count = gk_space_tree_count(base->space);
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        uint32_t first, count;
        gk_space_tree_range(base->space, i, &first, &count);
        trees += count > 0;
    }
    uint64_t starts = base->budget ? base->budget / trees / STARTS_SHARE : STARTS_USUAL;
    starts = starts < STARTS_MIN ? STARTS_MIN : starts;
    guide->starts = (uint32_t)(starts < STARTS_USUAL ? starts : STARTS_USUAL);
    guide->aim = (struct model_aim){.best_log = INFINITY,
                                    .cost_power = base->budget_ns > 0 ? COST_SECONDS : COST_POWER};
    uint32_t pool = MODEL_POOL_MAX / trees;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        uint32_t first, count;
        gk_space_tree_range(base->space, i, &first, &count);
        if (count) {
            enum gk_status status =
                model_create(base, i, pool < POOL_MIN ? POOL_MIN : pool, &guide->models[i], err);
            if (status != GK_OK) {
                return status; /* the caller calls fini */
            }
        }
    }
    return GK_OK;
}

void guide_fini(struct guide *guide)
{
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        model_destroy(guide->models[i]);
        guide->models[i] = NULL;
    }
}

size_t guide_bytes(const struct guide *guide)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        bytes += guide->models[i] ? model_bytes(guide->models[i]) : 0;
    }
    return bytes;
}

struct model *guide_model_of(const struct guide *guide, uint32_t index)
{
    return guide->models[gk_space_tree_of(guide->base->space, index)];
}

enum gk_status guide_prepare(struct guide *guide, uint32_t n, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    guide->aim.best_log = INFINITY;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        if (guide->models[i]) {
            guide->aim.best_log = fmin(guide->aim.best_log, model_learn(guide->models[i], n));
        }
    }
    for (uint32_t i = 0; status == GK_OK && i < guide->tree_count; i++) {
        if (guide->models[i]) {
            status = model_prepare(guide->models[i], n, &guide->aim, err);
        }
    }
    return status;
}

void guide_expect(struct guide *guide, uint32_t index)
{
    guide->asked[gk_space_tree_of(guide->base->space, index)]++;
    model_expect(guide_model_of(guide, index), index);
}

void guide_tell(struct guide *guide, const struct gk_tell *tell)
{
    model_tell(guide_model_of(guide, tell->index), tell);
}

/* The tree that has had the fewest of its starts. */
static bool next_start_tree(const struct guide *guide, uint32_t *tree_out)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        const struct model *model = guide->models[i];
        if (!model || guide->asked[i] >= model->count) {
            continue;
        }
        /* failures count half: a tree must be given the chance to work at all */
        uint32_t failed = model->failed_count / 2;
        uint32_t had = guide->asked[i] - (failed < guide->starts ? failed : guide->starts);
        if (had < guide->starts && had < least) {
            least = had;
            *tree_out = i;
        }
    }
    return least < UINT32_MAX;
}

bool guide_start(struct guide *guide, uint32_t *index_out)
{
    uint32_t tree;
    if (!next_start_tree(guide, &tree)) {
        return false;
    }
    struct model *model = guide->models[tree];
    uint32_t seen = 0, most = !guide->base->prior  ? 1
                              : guide->asked[tree] ? START_DRAWN
                                                   : FIRST_DRAWN;
    double least = INFINITY;
    for (uint32_t tries = 0; tries < model->count && seen < most; tries++) {
        uint32_t index = model->first + permute_at(&model->draw, guide->draw_at[tree]);
        guide->draw_at[tree] = (guide->draw_at[tree] + 1) % model->count;
        if (strategy_is_used(guide->base, index)) {
            continue;
        }
        double prior = most > 1 ? guide->base->prior(guide->base->prior_context, index) : 0;
        if (!seen++ || (prior > 0 && prior < least)) {
            *index_out = index;
            least = prior > 0 ? prior : least;
        }
    }
    return seen > 0;
}

bool guide_pick(struct guide *guide, uint32_t *index_out, double *score_out)
{
    bool found = false;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        uint32_t index;
        double score;
        if (guide->models[i] && model_pick(guide->models[i], &guide->aim, &index, &score) &&
            (!found || score > *score_out)) {
            *score_out = score;
            *index_out = index;
            found = true;
        }
    }
    return found;
}

uint32_t guide_best(const struct guide *guide, uint32_t max, uint32_t *indices_out)
{
    uint32_t count = 0;
    double values[BEST_MAX];
    max = max < BEST_MAX ? max : BEST_MAX;
    for (uint32_t i = 0; i < guide->tree_count; i++) {
        uint32_t indices[BEST_MAX];
        double own[BEST_MAX];
        uint32_t found = guide->models[i] ? model_best(guide->models[i], max, indices, own) : 0;
        for (uint32_t k = 0; k < found; k++) {
            uint32_t at = count < max ? count++ : max;
            for (; at > 0 && values[at - 1] > own[k]; at--) {
                if (at < max) {
                    values[at] = values[at - 1];
                    indices_out[at] = indices_out[at - 1];
                }
            }
            if (at < max) {
                values[at] = own[k];
                indices_out[at] = indices[k];
            }
        }
    }
    return count;
}
