/* Every config once, in declared order: tree after tree. For small spaces and for proofs. */
#include <stdlib.h>

#include "search/strategy_base.h"

struct exhaustive {
    struct gk_strategy base;
    uint32_t at; /* nothing before it is left */
};

static void exhaustive_destroy(struct gk_strategy *self)
{
    if (self) {
        strategy_fini(self);
        free(self);
    }
}

static enum gk_status exhaustive_create(const struct gk_strategy_setup *setup,
                                        struct gk_strategy **self_out, struct gk_err *err)
{
    struct exhaustive *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for strategy exhaustive");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status != GK_OK) {
        exhaustive_destroy(&self->base);
        return status;
    }
    *self_out = &self->base;
    return GK_OK;
}

static uint32_t exhaustive_next(struct gk_strategy *base)
{
    struct exhaustive *self = (struct exhaustive *)base;
    while (!strategy_take(base, self->at)) {
        self->at++;
    }
    return self->at++;
}

static enum gk_status exhaustive_ask(struct gk_strategy *self, uint32_t n, uint32_t *indices_out,
                                     uint32_t *count_out, struct gk_err *err)
{
    return strategy_ask(self, n, indices_out, count_out, exhaustive_next, NULL, err);
}

static void exhaustive_tell(struct gk_strategy *self, const struct gk_tell *tell)
{
    (void)strategy_take(self, tell->index); /* told but not asked: counts as tried */
}

const struct gk_strategy_ops strategy_exhaustive = {
    .name = "exhaustive",
    .doc = "every config once, in declared order",
    .version = 1,
    .create = exhaustive_create,
    .destroy = exhaustive_destroy,
    .ask = exhaustive_ask,
    .tell = exhaustive_tell,
};
