/*
 * What every strategy shares: which indices are used up, the hints, and the trees' turns. Inside
 * search/ only.
 *
 * A strategy embeds struct gk_strategy first. An index is used once it was asked or told; whatever
 * gives indices calls strategy_take(), so that no strategy can repeat one.
 */
#ifndef GK_SEARCH_STRATEGY_BASE_H
#define GK_SEARCH_STRATEGY_BASE_H

#include "search/permute.h"
#include "search/strategy.h"

struct gk_strategy {
    const struct gk_space *space;
    uint64_t seed;
    uint64_t budget; /* trials; 0: unknown */
    uint32_t count;  /* of the space */
    uint32_t left;   /* indices not used */
    uint8_t *used;   /* one bit an index */
    uint32_t *hints; /* own copy */
    uint32_t hint_count, hint_next;
    uint8_t (*hint_digits)[GK_PARAMS_MAX];
    double budget_ns;
    double (*prior)(void *context, uint32_t index);
    void *prior_context;
    float prior_mean[GK_TREES_MAX], prior_spread[GK_TREES_MAX]; /* of its logarithm */
};

/* GK_INPUT when a hint is not an index of the space; GK_NOMEM. The caller calls fini in any case.
 */
enum gk_status strategy_init(struct gk_strategy *base, const struct gk_strategy_setup *setup,
                             struct gk_err *err);
void strategy_fini(struct gk_strategy *base);

bool strategy_is_used(const struct gk_strategy *base, uint32_t index);
/* Marks it used; false if it was. */
bool strategy_take(struct gk_strategy *base, uint32_t index);
/* The next hint that is not used, taken; false when there is none. */
bool strategy_next_hint(struct gk_strategy *base, uint32_t *index_out);

/* Whether a tell carries a time at all; what it is to be taken for when nothing else is known: a
 * time of few samples is lengthened a little, so that luck does not look like a better config. */
bool strategy_is_time(const struct gk_tell *tell);
double strategy_time(const struct gk_tell *tell);
#define STRATEGY_SAMPLES 4 /* of a whole measurement */

/* What is known of a config before anything was measured: extras[0] what the analytic prior says,
 * standardised in its tree, extras[1] how near it is to a hint; 0: nothing. */
#define STRATEGY_EXTRAS 2
void strategy_extras(const struct gk_strategy *base, uint32_t tree, uint32_t index,
                     const uint8_t *digits, float extras[STRATEGY_EXTRAS]);

/* The loop of ask(): hints first, then next(), which must give (and take) an index while any is
 * left. given() (may be NULL) hears of each, hints too. */
enum gk_status strategy_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                            uint32_t *count_out, uint32_t (*next)(struct gk_strategy *self),
                            void (*given)(struct gk_strategy *self, uint32_t index),
                            struct gk_err *err);

/* Draws from one tree without replacement, in a seeded order, passing over used ones. */
struct strategy_draw {
    struct permute permute;
    uint32_t first;    /* of the tree */
    uint32_t position; /* next of the permutation */
};
void strategy_draw_init(struct strategy_draw *draw, const struct gk_space *space, uint32_t tree,
                        uint64_t seed);
/* False when the tree is used up. The index is not taken. */
bool strategy_draw_peek(struct strategy_draw *draw, const struct gk_strategy *base,
                        uint32_t *index_out);

extern const struct gk_strategy_ops strategy_exhaustive, strategy_random, strategy_local,
    strategy_multistart, strategy_evolve, strategy_surrogate, strategy_portfolio;

#endif
