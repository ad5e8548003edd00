/*
 * Several searches over one history: members propose, one model of each tree (model.h) knows all
 * results and ranks what they propose, and members that find better configs get more of the budget.
 *
 *   model  the greatest expected improvement of all candidates in view
 *   near   the same among the configs one parameter away from the best: the last step to an
 *          optimum that stands alone, which a smooth model does not believe in
 *   climb  a neighbour of the best whatever the model says, steps of one value first: where times
 *          follow no smooth law, plain local search is ahead of every model
 *   cross  the same among crossings of good configs with a few changes: far steps along what
 *          good ones have in common
 *   draw   at random: what no model thought of, so that no wrong belief is final
 *
 * A member's share follows from what it earned for each of its trials, newer ones counting more,
 * between a third and three times its usual share: what it found when everything was new must not
 * decide for ever, and none ends at nothing. Who is next is computed and not drawn: the member
 * farthest behind its share.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/guide.h"
#include "search/neighbours.h"

#define MEMORY        0.97 /* of a member's earnings and trials, with each trial told */
#define PATIENCE      6.0  /* trials that say nothing yet about a member ... */
#define PATIENCE_GAIN 1.5  /* ... and what they are taken to have earned */
#define GAIN_BEST     1.0  /* earned by a new best */
#define GAIN_CLOSE    0.25 /* and by one within CLOSE of the best */
#define CLOSE         0.01
#define SWAY          3.0 /* a share is at most so many times the usual one, and at least 1 / it */
#define CENTRES       4
#define NEAR_BEHIND   1.0 /* in logarithms of the gain to expect */
#define BARREN        16  /* kept, so that nobody looks through the same neighbours again */
#define CROSS_ELITE   8
#define CROSS_TRIES   64
#define CROSS_KEPT    16
#define CROSS_CHANGE  0.15 /* chance of a parameter to be drawn anew */

enum member { MEMBER_MODEL, MEMBER_NEAR, MEMBER_CLIMB, MEMBER_CROSS, MEMBER_DRAW, MEMBERS };

static const double usual_share[MEMBERS] = {0.62, 0.20, 0.12, 0.04, 0.02};

struct account {
    double tried, earned; /* told trials and what they earned, faded */
    double given, due;    /* trials given, and the sum of its shares */
};

struct portfolio {
    struct gk_strategy base;
    struct guide guide;
    struct gk_prng prng;
    struct strategy_draw draws[GK_TREES_MAX];
    uint32_t draw_turn;
    uint8_t *owner; /* by index: member + 1; 0: a hint, a start, not asked */
    struct account accounts[MEMBERS];
    double best_ns;          /* told; 0: none */
    uint32_t barren[BARREN]; /* configs whose neighbours are all used, newest last ... */
    uint32_t barren_count;   /* ... ever */
};

static void portfolio_destroy(struct gk_strategy *base)
{
    struct portfolio *self = (struct portfolio *)base;
    if (self) {
        guide_fini(&self->guide);
        free(self->owner);
        strategy_fini(base);
        free(self);
    }
}

static enum gk_status portfolio_create(const struct gk_strategy_setup *setup,
                                       struct gk_strategy **self_out, struct gk_err *err)
{
    struct portfolio *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for strategy portfolio");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status == GK_OK) {
        status = guide_init(&self->guide, &self->base, err);
    }
    self->owner = calloc(gk_space_count(setup->space), 1);
    if (status == GK_OK && !self->owner) {
        status = gk_fail(err, GK_NOMEM, "no memory for strategy portfolio");
    }
    if (status != GK_OK) {
        portfolio_destroy(&self->base);
        return status;
    }
    gk_prng_init(&self->prng, setup->seed, 12);
    for (uint32_t i = 0; i < gk_space_tree_count(setup->space); i++) {
        strategy_draw_init(&self->draws[i], setup->space, i, setup->seed);
    }
    *self_out = &self->base;
    return GK_OK;
}

/* ------------------------------------------------------------------ members */

/* A neighbour of one of the best whose promise is not far behind that of the best candidate: near
 * the bottom of a bad valley all neighbours promise little, and the member has nothing. */
static bool pick_near(struct portfolio *self, uint32_t *index_out)
{
    uint32_t best[CENTRES], top;
    uint32_t count = guide_best(&self->guide, CENTRES, best);
    double most, score;
    if (!guide_pick(&self->guide, &top, &most)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct model *model = guide_model_of(&self->guide, best[i]);
        if (model_pick_near(model, &self->guide.aim, best[i], index_out, &score) &&
            score >= most - NEAR_BEHIND) {
            return true;
        }
    }
    return false;
}

static bool is_barren(const struct portfolio *self, uint32_t index)
{
    for (uint32_t i = 0; i < self->barren_count && i < BARREN; i++) {
        if (self->barren[i] == index) {
            return true;
        }
    }
    return false;
}

/* An unused neighbour of the best config that has one, drawn at random from the nearest ring. */
static bool pick_climb(struct portfolio *self, uint32_t *index_out)
{
    static const enum neighbourhood rings[] = {NEIGHBOURS_ADJACENT, NEIGHBOURS_OTHER,
                                               NEIGHBOURS_ALONG};
    uint32_t best[CENTRES], list[NEIGHBOURS_LIST_MAX];
    uint32_t centres = guide_best(&self->guide, CENTRES, best);
    for (uint32_t i = 0; i < centres; i++) {
        uint32_t tree = gk_space_tree_of(self->base.space, best[i]);
        if (is_barren(self, best[i])) {
            continue;
        }
        for (uint32_t ring = 0; ring < GK_ARRAY_COUNT(rings); ring++) {
            uint32_t count = neighbours_list(self->base.space, tree, best[i], rings[ring], list);
            uint32_t unused = 0;
            for (uint32_t k = 0; k < count; k++) {
                if (!strategy_is_used(&self->base, list[k])) {
                    list[unused++] = list[k];
                }
            }
            if (unused) {
                *index_out = list[gk_prng_below(&self->prng, unused)];
                return true;
            }
        }
        self->barren[self->barren_count++ % BARREN] = best[i];
    }
    return false;
}

/* A child of two good configs of one tree; false when it is not legal or not new. */
static bool cross(struct portfolio *self, const struct model *model, uint32_t mother,
                  uint32_t father, uint32_t *index_out)
{
    const struct gk_tree *def = &gk_space_def_of(self->base.space)->trees[model->tree];
    uint8_t digits[GK_PARAMS_MAX], other[GK_PARAMS_MAX];
    gk_space_digits(self->base.space, mother, digits);
    gk_space_digits(self->base.space, father, other);
    for (uint32_t i = 0; i < def->param_count; i++) {
        if (gk_prng_unit(&self->prng) < 0.5) {
            digits[i] = other[i];
        }
        if (gk_prng_unit(&self->prng) < CROSS_CHANGE) {
            digits[i] = (uint8_t)gk_prng_below(&self->prng, def->params[i].value_count);
        }
    }
    return gk_space_find_digits(self->base.space, model->tree, digits, index_out) &&
           !strategy_is_used(&self->base, *index_out);
}

static bool pick_cross(struct portfolio *self, uint32_t *index_out)
{
    uint32_t top, elite[CROSS_ELITE], children[CROSS_KEPT], found = 0;
    double values[CROSS_ELITE], score;
    if (!guide_best(&self->guide, 1, &top)) {
        return false;
    }
    struct model *model = guide_model_of(&self->guide, top);
    uint32_t count = model_best(model, CROSS_ELITE, elite, values);
    for (uint32_t i = 0; count > 1 && i < CROSS_TRIES && found < CROSS_KEPT; i++) {
        uint64_t mother = gk_prng_below(&self->prng, count);
        uint64_t father = (mother + 1 + gk_prng_below(&self->prng, count - 1)) % count;
        found += cross(self, model, elite[mother], elite[father], &children[found]);
    }
    model_view(model, children, found);
    return model_pick_of(model, &self->guide.aim, children, found, index_out, &score);
}

/* At random, the trees in turn. */
static bool pick_draw(struct portfolio *self, uint32_t *index_out)
{
    uint32_t trees = gk_space_tree_count(self->base.space);
    for (uint32_t i = 0; i < trees; i++) {
        struct strategy_draw *draw = &self->draws[self->draw_turn];
        self->draw_turn = (self->draw_turn + 1) % trees;
        if (strategy_draw_peek(draw, &self->base, index_out)) {
            return true;
        }
    }
    return false;
}

static bool pick(struct portfolio *self, enum member member, uint32_t *index_out)
{
    double score;
    switch (member) {
    case MEMBER_MODEL:
        return guide_pick(&self->guide, index_out, &score);
    case MEMBER_NEAR:
        return pick_near(self, index_out);
    case MEMBER_CLIMB:
        return pick_climb(self, index_out);
    case MEMBER_CROSS:
        return pick_cross(self, index_out);
    default:
        return pick_draw(self, index_out);
    }
}

/* ------------------------------------------------------------------ shares */

static double rate(const struct account *account)
{
    return (account->earned + PATIENCE_GAIN) / (account->tried + PATIENCE);
}

/* Who is next: each gets its share of this trial, and the one with most due gives it. */
static enum member choose(struct portfolio *self)
{
    double mean = 0, sum = 0, shares[MEMBERS];
    enum member chosen = MEMBER_MODEL;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        mean += usual_share[i] * rate(&self->accounts[i]);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        double sway = rate(&self->accounts[i]) / mean;
        sway = sway > SWAY ? SWAY : sway < 1 / SWAY ? 1 / SWAY : sway;
        shares[i] = usual_share[i] * sway;
        sum += shares[i];
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct account *account = &self->accounts[i];
        account->due += shares[i] / sum;
        const struct account *best = &self->accounts[chosen];
        if (account->due - account->given > best->due - best->given) {
            chosen = (enum member)i;
        }
    }
    return chosen;
}

static uint32_t portfolio_next(struct gk_strategy *base)
{
    struct portfolio *self = (struct portfolio *)base;
    uint32_t index = 0;
    bool found = guide_start(&self->guide, &index);
    if (!found) {
        enum member member = choose(self);
        self->accounts[member].given++; /* also if it has nothing: its turn is over */
        found = pick(self, member, &index);
        if (!found && member != MEMBER_MODEL) {
            member = MEMBER_MODEL;
            found = pick(self, member, &index);
        }
        if (!found) {
            member = MEMBER_DRAW;
            found = pick(self, member, &index);
        }
        GK_ASSERT(found); /* the caller saw that something is left */
        self->owner[index] = (uint8_t)(member + 1);
    }
    bool taken = strategy_take(base, index);
    GK_ASSERT(taken);
    return index;
}

static void portfolio_given(struct gk_strategy *base, uint32_t index)
{
    guide_expect(&((struct portfolio *)base)->guide, index);
}

static enum gk_status portfolio_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                                    uint32_t *count_out, struct gk_err *err)
{
    struct portfolio *self = (struct portfolio *)base;
    enum gk_status status = guide_prepare(&self->guide, n, err);
    if (status != GK_OK) {
        *count_out = 0;
        return status;
    }
    return strategy_ask(base, n, indices_out, count_out, portfolio_next, portfolio_given, err);
}

static void portfolio_tell(struct gk_strategy *base, const struct gk_tell *tell)
{
    struct portfolio *self = (struct portfolio *)base;
    uint8_t owner = self->owner[tell->index];
    double gain = 0;
    (void)strategy_take(base, tell->index); /* told but not asked: counts as tried */
    if (tell->ok && (self->best_ns <= 0 || tell->time_ns < self->best_ns)) {
        gain = GAIN_BEST;
        self->best_ns = tell->time_ns;
    } else if (tell->ok && tell->time_ns < self->best_ns * (1 + CLOSE)) {
        gain = GAIN_CLOSE;
    }
    if (owner) {
        struct account *account = &self->accounts[owner - 1];
        account->earned = account->earned * MEMORY + gain;
        account->tried = account->tried * MEMORY + 1;
    }
    guide_tell(&self->guide, tell);
}

const struct gk_strategy_ops strategy_portfolio = {
    .name = "portfolio",
    .doc = "a model, climbs with and without it, crossings and chance, by what each earns",
    .version = 2,
    .create = portfolio_create,
    .destroy = portfolio_destroy,
    .ask = portfolio_ask,
    .tell = portfolio_tell,
};
