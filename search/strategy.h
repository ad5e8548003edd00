/*
 * Strategies: who to try next. Deterministic for (space, seed, hints, tells in order); no clock, no
 * I/O.
 *
 * ask() never repeats an index that was asked or told before. tell() takes every outcome, also of
 * configs that the strategy did not ask for (hints, replayed logs). A strategy is rebuilt after a
 * restart by replaying the logged asks and tells: under the same version each replayed ask must
 * give the same indices.
 */
#ifndef GK_SEARCH_STRATEGY_H
#define GK_SEARCH_STRATEGY_H

#include "core/prng.h"
#include "search/space.h"

struct gk_tell {
    uint32_t index;
    bool ok;
    double time_ns; /* of an ok one */
    double cost_ns; /* compile + verify + measure: what it took */
    uint32_t
        samples; /* that time_ns is the median of; 0: not known, taken for a whole measurement */
};

struct gk_strategy_setup {
    const struct gk_space *space; /* borrowed */
    uint64_t seed;
    uint64_t budget_trials; /* 0: not bounded by a count */
    const uint32_t *hints;  /* tried first, in order: default, incumbent, neighbours' winners */
    uint32_t hint_count;
    double budget_ns; /* compile and device time; 0: not bounded by it */
    /* What an analytic model expects of a config, in any unit that goes with the time; 0 or less:
     * it says nothing. NULL: there is none. Called while the strategy lives. */
    double (*prior)(void *context, uint32_t index);
    void *prior_context;
};

struct gk_strategy; /* any strategy's state */

struct gk_strategy_ops {
    const char *name; /* "portfolio", "surrogate", "evolve", "local", .. */
    const char *doc;  /* one line */
    uint32_t version; /* raised when the same inputs would give other asks */
    enum gk_status (*create)(const struct gk_strategy_setup *setup, struct gk_strategy **self_out,
                             struct gk_err *err);
    void (*destroy)(struct gk_strategy *self);
    /* Up to n indices; fewer, or GK_END with *count_out 0, when the space is used up. */
    enum gk_status (*ask)(struct gk_strategy *self, uint32_t n, uint32_t *indices_out,
                          uint32_t *count_out, struct gk_err *err);
    void (*tell)(struct gk_strategy *self, const struct gk_tell *tell);
};

/* NULL if there is none of that name. */
const struct gk_strategy_ops *gk_strategy_find(const char *name);
/* i-th strategy, NULL past the end; the first is the default. */
const struct gk_strategy_ops *gk_strategy_at(uint32_t index);

#endif
