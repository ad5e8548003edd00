/*
 * Differential evolution over the forest: a population of each tree, each of whose members is
 * challenged by a trial config and gives way to it when that turns out better.
 *
 * A trial takes each parameter from the member, or with CROSSOVER from its mutant: the best member
 * or another one, plus the difference of two more along the list of values, so that a population
 * that has drawn together takes small steps by itself; enums, whose values have no order, take one
 * of the values met. What is not legal or used up is bred again; a member that finds no trial in
 * BREED_TRIES is told by a random config instead. Steady state: trials are told in any order, and
 * each only concerns its own member. The trees take turns as in local search: a tree whose best is
 * behind gets fewer trials, never none.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/strategy_base.h"

#define POPULATION  16
#define CROSSOVER   0.6
#define STEP_LEAST  0.4 /* of the difference of two members, drawn up to STEP_MOST */
#define STEP_MOST   1.0
#define TO_BEST     0.5  /* chance that the best is what the difference is added to */
#define CHANGE      0.08 /* chance of a parameter to be drawn anew: or a lost value stays lost */
#define BREED_TRIES 32
#define WEIGHT_MIN  0.125

struct being {
    uint32_t index;
    double time_ns; /* INFINITY: not told, or failed */
};

struct herd { /* of one tree */
    uint32_t first, count;
    uint32_t asked, turn;
    uint32_t size; /* members that were born */
    double best_ns;
    struct being beings[POPULATION];
    struct strategy_draw draw;
};

struct evolve {
    struct gk_strategy base;
    struct gk_prng prng;
    uint8_t *rival; /* by index: member that the trial challenges + 1; 0: none */
    uint32_t tree_count;
    struct herd herds[GK_TREES_MAX];
};

static void evolve_destroy(struct gk_strategy *base)
{
    struct evolve *self = (struct evolve *)base;
    if (self) {
        free(self->rival);
        strategy_fini(base);
        free(self);
    }
}

static enum gk_status evolve_create(const struct gk_strategy_setup *setup,
                                    struct gk_strategy **self_out, struct gk_err *err)
{
    struct evolve *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for strategy evolve");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status == GK_OK && !(self->rival = calloc(self->base.count, 1))) {
        status = gk_fail(err, GK_NOMEM, "no memory for a search of %u configs", self->base.count);
    }
    if (status != GK_OK) {
        evolve_destroy(&self->base);
        return status;
    }
    gk_prng_init(&self->prng, setup->seed, 21);
    self->tree_count = gk_space_tree_count(setup->space);
    for (uint32_t i = 0; i < self->tree_count; i++) {
        struct herd *herd = &self->herds[i];
        gk_space_tree_range(setup->space, i, &herd->first, &herd->count);
        strategy_draw_init(&herd->draw, setup->space, i, setup->seed);
        herd->best_ns = INFINITY;
    }
    *self_out = &self->base;
    return GK_OK;
}

/* ------------------------------------------------------------------ breeding */

static uint32_t best_being(const struct herd *herd)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < herd->size; i++) {
        best = herd->beings[i].time_ns < herd->beings[best].time_ns ? i : best;
    }
    return best;
}

static uint8_t mutate(struct evolve *self, const struct gk_param *param, int base, int plus,
                      int minus, double step)
{
    int last = (int)param->value_count - 1;
    if (gk_prng_unit(&self->prng) < CHANGE) {
        return (uint8_t)gk_prng_below(&self->prng, param->value_count);
    }
    if (param->names) {
        return (uint8_t)(plus != minus && gk_prng_unit(&self->prng) < step ? plus : base);
    }
    int value = base + (int)lround(step * (plus - minus));
    value = value < 0 ? -value : value > last ? 2 * last - value : value; /* back from the edge */
    return (uint8_t)(value < 0 ? 0 : value > last ? last : value);
}

/* A trial for one member; false when none of BREED_TRIES is legal and new. */
static bool breed(struct evolve *self, uint32_t tree, uint32_t member, uint32_t *index_out)
{
    const struct gk_tree *def = &gk_space_def_of(self->base.space)->trees[tree];
    const struct herd *herd = &self->herds[tree];
    uint8_t own[GK_PARAMS_MAX], other[3][GK_PARAMS_MAX];
    gk_space_digits(self->base.space, herd->beings[member].index, own);
    for (uint32_t tries = 0; tries < BREED_TRIES && def->param_count; tries++) {
        uint8_t digits[GK_PARAMS_MAX] = {0};
        double step = STEP_LEAST + (STEP_MOST - STEP_LEAST) * gk_prng_unit(&self->prng);
        bool to_best = gk_prng_unit(&self->prng) < TO_BEST;
        for (uint32_t i = 0; i < 3; i++) {
            uint64_t chosen = gk_prng_below(&self->prng, herd->size);
            chosen = i == 0 && to_best ? best_being(herd) : chosen;
            gk_space_digits(self->base.space, herd->beings[chosen].index, other[i]);
        }
        uint64_t surely = gk_prng_below(&self->prng, def->param_count);
        for (uint32_t i = 0; i < def->param_count; i++) {
            bool is_changed = i == surely || gk_prng_unit(&self->prng) < CROSSOVER;
            digits[i] = is_changed ? mutate(self, &def->params[i], other[0][i], other[1][i],
                                            other[2][i], step)
                                   : own[i];
        }
        if (gk_space_find_digits(self->base.space, tree, digits, index_out) &&
            !strategy_is_used(&self->base, *index_out)) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ ask and tell */

static uint32_t next_of_herd(struct evolve *self, uint32_t tree)
{
    struct herd *herd = &self->herds[tree];
    uint32_t index = 0, member = herd->turn;
    if (herd->size < POPULATION) {
        bool found = strategy_draw_peek(&herd->draw, &self->base, &index);
        GK_ASSERT(found); /* the caller saw that the tree has something left */
        member = herd->size++;
        herd->beings[member] = (struct being){.index = index, .time_ns = INFINITY};
    } else {
        herd->turn = (herd->turn + 1) % POPULATION;
        if (!breed(self, tree, member, &index)) {
            bool found = strategy_draw_peek(&herd->draw, &self->base, &index);
            GK_ASSERT(found);
        }
    }
    self->rival[index] = (uint8_t)(member + 1);
    return index;
}

static uint32_t evolve_next(struct gk_strategy *base)
{
    struct evolve *self = (struct evolve *)base;
    double best_ns = INFINITY, least = INFINITY;
    uint32_t chosen = 0, unused;
    for (uint32_t i = 0; i < self->tree_count; i++) {
        best_ns = fmin(best_ns, self->herds[i].best_ns);
    }
    for (uint32_t i = 0; i < self->tree_count; i++) {
        struct herd *herd = &self->herds[i];
        double ratio = herd->best_ns < INFINITY ? best_ns / herd->best_ns : 0;
        double weight = herd->asked < POPULATION ? 1 : fmax(pow(ratio, 4), WEIGHT_MIN);
        if (herd->asked / weight < least && strategy_draw_peek(&herd->draw, base, &unused)) {
            least = herd->asked / weight;
            chosen = i;
        }
    }
    uint32_t index = next_of_herd(self, chosen);
    bool taken = strategy_take(base, index);
    GK_ASSERT(taken);
    self->herds[chosen].asked++;
    return index;
}

static enum gk_status evolve_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                                 uint32_t *count_out, struct gk_err *err)
{
    return strategy_ask(base, n, indices_out, count_out, evolve_next, NULL, err);
}

static void evolve_tell(struct gk_strategy *base, const struct gk_tell *tell)
{
    struct evolve *self = (struct evolve *)base;
    struct herd *herd = &self->herds[gk_space_tree_of(base->space, tell->index)];
    uint32_t member = self->rival[tell->index];
    (void)strategy_take(base, tell->index); /* told but not asked: counts as tried */
    if (!strategy_is_time(tell)) {
        return;
    }
    struct being told = {.index = tell->index, .time_ns = strategy_time(tell)};
    herd->best_ns = fmin(herd->best_ns, told.time_ns);
    if (member) {
        struct being *being = &herd->beings[member - 1];
        *being = told.time_ns < being->time_ns ? told : *being;
    } else if (herd->size < POPULATION) {
        herd->beings[herd->size++] = told; /* a hint joins the population */
    } else {
        uint32_t worst = 0;
        for (uint32_t i = 1; i < POPULATION; i++) {
            worst = herd->beings[i].time_ns > herd->beings[worst].time_ns ? i : worst;
        }
        herd->beings[worst] =
            told.time_ns < herd->beings[worst].time_ns ? told : herd->beings[worst];
    }
}

const struct gk_strategy_ops strategy_evolve = {
    .name = "evolve",
    .doc = "differential evolution of a population of each template",
    .version = 1,
    .create = evolve_create,
    .destroy = evolve_destroy,
    .ask = evolve_ask,
    .tell = evolve_tell,
};
