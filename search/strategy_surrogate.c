/*
 * A surrogate: a model of each tree (model.h) says which config promises the greatest improvement,
 * and that one is next. Alone it is the strongest single strategy where the optimum has company,
 * and weak at the last step to a lonely one; the portfolio adds that.
 */
#include <stdlib.h>

#include "search/guide.h"

struct surrogate {
    struct gk_strategy base;
    struct guide guide;
    struct strategy_draw draws[GK_TREES_MAX]; /* for what no model has in view */
};

static void surrogate_destroy(struct gk_strategy *base)
{
    struct surrogate *self = (struct surrogate *)base;
    if (self) {
        guide_fini(&self->guide);
        strategy_fini(base);
        free(self);
    }
}

static enum gk_status surrogate_create(const struct gk_strategy_setup *setup,
                                       struct gk_strategy **self_out, struct gk_err *err)
{
    struct surrogate *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for strategy surrogate");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status == GK_OK) {
        status = guide_init(&self->guide, &self->base, err);
    }
    if (status != GK_OK) {
        surrogate_destroy(&self->base);
        return status;
    }
    for (uint32_t i = 0; i < gk_space_tree_count(setup->space); i++) {
        strategy_draw_init(&self->draws[i], setup->space, i, setup->seed);
    }
    *self_out = &self->base;
    return GK_OK;
}

static uint32_t surrogate_next(struct gk_strategy *base)
{
    struct surrogate *self = (struct surrogate *)base;
    uint32_t index = 0;
    double score;
    bool found = guide_start(&self->guide, &index) || guide_pick(&self->guide, &index, &score);
    for (uint32_t i = 0; !found; i++) { /* ends: the caller saw that something is left */
        GK_ASSERT(i < gk_space_tree_count(base->space));
        found = strategy_draw_peek(&self->draws[i], base, &index);
    }
    bool taken = strategy_take(base, index);
    GK_ASSERT(taken);
    return index;
}

static void surrogate_given(struct gk_strategy *base, uint32_t index)
{
    guide_expect(&((struct surrogate *)base)->guide, index);
}

static enum gk_status surrogate_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                                    uint32_t *count_out, struct gk_err *err)
{
    struct surrogate *self = (struct surrogate *)base;
    enum gk_status status = guide_prepare(&self->guide, n, err);
    if (status != GK_OK) {
        *count_out = 0;
        return status;
    }
    return strategy_ask(base, n, indices_out, count_out, surrogate_next, surrogate_given, err);
}

static void surrogate_tell(struct gk_strategy *base, const struct gk_tell *tell)
{
    (void)strategy_take(base, tell->index); /* told but not asked: counts as tried */
    guide_tell(&((struct surrogate *)base)->guide, tell);
}

const struct gk_strategy_ops strategy_surrogate = {
    .name = "surrogate",
    .doc = "a Gaussian process of each template; the greatest expected improvement is next",
    .version = 2,
    .create = surrogate_create,
    .destroy = surrogate_destroy,
    .ask = surrogate_ask,
    .tell = surrogate_tell,
};
