/*
 * Without replacement, the trees in turn: the yardstick of all others. Taking turns and not drawing
 * over the whole forest keeps a template with few configs from being drowned by one with a million.
 */
#include <stdlib.h>

#include "search/strategy_base.h"

struct random_search {
    struct gk_strategy base;
    uint32_t tree_count, turn;
    struct strategy_draw draws[GK_TREES_MAX];
};

static void random_destroy(struct gk_strategy *self)
{
    if (self) {
        strategy_fini(self);
        free(self);
    }
}

static enum gk_status random_create(const struct gk_strategy_setup *setup,
                                    struct gk_strategy **self_out, struct gk_err *err)
{
    struct random_search *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for strategy random");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status != GK_OK) {
        random_destroy(&self->base);
        return status;
    }
    self->tree_count = gk_space_tree_count(setup->space);
    for (uint32_t i = 0; i < self->tree_count; i++) {
        strategy_draw_init(&self->draws[i], setup->space, i, setup->seed);
    }
    *self_out = &self->base;
    return GK_OK;
}

static uint32_t random_next(struct gk_strategy *base)
{
    struct random_search *self = (struct random_search *)base;
    for (;;) { /* ends: something is left, and each turn looks at another tree */
        struct strategy_draw *draw = &self->draws[self->turn];
        uint32_t index;
        self->turn = (self->turn + 1) % self->tree_count;
        if (strategy_draw_peek(draw, base, &index)) {
            (void)strategy_take(base, index); /* peek gives unused ones */
            return index;
        }
    }
}

static enum gk_status random_ask(struct gk_strategy *self, uint32_t n, uint32_t *indices_out,
                                 uint32_t *count_out, struct gk_err *err)
{
    return strategy_ask(self, n, indices_out, count_out, random_next, NULL, err);
}

static void random_tell(struct gk_strategy *self, const struct gk_tell *tell)
{
    (void)strategy_take(self, tell->index); /* told but not asked: counts as tried */
}

const struct gk_strategy_ops strategy_random = {
    .name = "random",
    .doc = "configs drawn without replacement, the templates in turn",
    .version = 1,
    .create = random_create,
    .destroy = random_destroy,
    .ask = random_ask,
    .tell = random_tell,
};
