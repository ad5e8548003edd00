/*
 * Local search over the forest: a space-filling sample of each tree, then climbs by one parameter
 * at a time, and new starts when they end.
 *
 * Each tree has CLIMBS climbs that take turns, so that one bad valley does not hold the whole
 * batch. A climb proposes the neighbours of its centre, steps of one value first, then any other
 * value of one parameter; the first that turns out better becomes the centre. When a climb has
 * nothing left to propose, two steps along a constraint that ties parameters tried last, it starts
 * again: from the best result that was never a centre, from a kick (two or three parameters of a
 * good config drawn anew), or from a point drawn at random; `multistart` always from the last. A
 * failed config is no centre and no improvement, and says nothing about its neighbours. Rejected:
 * waiting until all neighbours are told before moving, which idles workers; and simulated
 * annealing, whose schedule has to know the budget.
 *
 * Trees share the trials: one whose best is worse gets fewer, down to an eighth, never none.
 * All state follows from seed, hints and the order of asks and tells; nothing else is read.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/neighbours.h"
#include "search/strategy_base.h"

#define CLIMBS            2
#define RINGS             3
#define SAMPLE_MIN        4
#define SAMPLE_MAX        24
#define SAMPLE_UNBOUNDED  16   /* when no budget of trials is known */
#define SAMPLE_SHARE      6    /* the sample is a sixth of the tree's trials */
#define SAMPLE_CANDIDATES 12   /* drawn for each point of the sample, the farthest is kept */
#define ELITE_RATIO       1.10 /* a start from results this near to the best */
#define WEIGHT_MIN        0.125
#define KICK_TRIES        64 /* draws until a kick is legal and new */

#define PARENT_NONE 0 /* else climb + 1 */
#define PARENT_TOLD UINT8_MAX

struct result {
    uint32_t index;
    bool was_centre;
    double time_ns;
};

enum climb_state { CLIMB_IDLE, CLIMB_WAITING, CLIMB_GOING };

struct climb {
    enum climb_state state;
    uint32_t centre; /* WAITING: the start that was asked for; GOING: the config climbed from */
    double centre_ns;
    uint32_t ring; /* 0: steps of one value, 1: other values, 2: two steps along a constraint */
    uint32_t at, count;
    uint32_t neighbours[NEIGHBOURS_LIST_MAX]; /* of this ring, shuffled */
};

struct tree {
    uint32_t first, count;
    uint32_t asked;
    uint32_t turn;     /* of the climbs */
    uint32_t restarts; /* chooses the kind of the next start */
    struct strategy_draw draw;
    uint32_t sample[SAMPLE_MAX];
    uint32_t sample_count, sample_next;
    struct result *results; /* ok ones, in order of tells */
    uint32_t result_count, result_capacity;
    uint32_t best; /* into results; valid when result_count > 0 */
    struct climb climbs[CLIMBS];
};

struct local_search {
    struct gk_strategy base;
    struct gk_prng prng;
    bool from_anywhere; /* multistart: a climb begins at random and nowhere else */
    uint8_t *parent;    /* by index: the climb that asked for it, or PARENT_TOLD */
    bool failed;        /* a tell found no memory: the next ask says so */
    uint32_t tree_count;
    struct tree trees[GK_TREES_MAX];
};

/* ------------------------------------------------------------------ sample */

/* Parameters that differ count 1, and more the farther apart their values are in the list. */
static double distance(const struct gk_tree *tree, const uint8_t *a, const uint8_t *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        if (a[i] != b[i]) {
            sum += 1 + fabs((double)a[i] - b[i]) / (tree->params[i].value_count - 1);
        }
    }
    return sum;
}

static uint32_t sample_size(const struct gk_strategy *base, uint32_t tree_count, uint32_t count)
{
    uint64_t size = SAMPLE_UNBOUNDED;
    if (base->budget) {
        size = base->budget / tree_count / SAMPLE_SHARE;
    }
    size = size < SAMPLE_MIN ? SAMPLE_MIN : size;
    size = size > SAMPLE_MAX ? SAMPLE_MAX : size;
    return (uint32_t)(size < count ? size : count);
}

/* Points far from each other: each is the farthest of some random ones from those before it. */
static void make_sample(struct local_search *self, uint32_t number)
{
    struct tree *tree = &self->trees[number];
    const struct gk_tree *def = &gk_space_def_of(self->base.space)->trees[number];
    uint8_t kept[SAMPLE_MAX][GK_PARAMS_MAX], digits[GK_PARAMS_MAX];
    uint32_t drawn = 0, size = sample_size(&self->base, self->tree_count, tree->count);
    while (tree->sample_count < size) {
        double farthest = -1;
        uint32_t chosen = 0;
        for (uint32_t i = 0; i < SAMPLE_CANDIDATES && drawn < tree->count; i++) {
            uint32_t index = tree->first + permute_at(&tree->draw.permute, drawn++);
            double nearest = INFINITY;
            gk_space_digits(self->base.space, index, digits);
            for (uint32_t k = 0; k < tree->sample_count; k++) {
                nearest = fmin(nearest, distance(def, digits, kept[k]));
            }
            if (nearest > farthest) {
                farthest = nearest;
                chosen = index;
            }
        }
        if (farthest < 0) {
            return; /* a small tree: every config was a candidate once */
        }
        gk_space_digits(self->base.space, chosen, kept[tree->sample_count]);
        tree->sample[tree->sample_count++] = chosen;
    }
}

/* ------------------------------------------------------------------ climbs */

static void shuffle(struct gk_prng *prng, uint32_t *items, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)gk_prng_below(prng, i);
        uint32_t item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}

/* Lists the legal neighbours of the centre in the climb's ring. */
static void list_neighbours(struct local_search *self, uint32_t number, struct climb *climb)
{
    static const enum neighbourhood rings[RINGS] = {NEIGHBOURS_ADJACENT, NEIGHBOURS_OTHER,
                                                    NEIGHBOURS_ALONG};
    climb->at = 0;
    climb->count = neighbours_list(self->base.space, number, climb->centre, rings[climb->ring],
                                   climb->neighbours);
    shuffle(&self->prng, climb->neighbours, climb->count);
}

static void set_centre(struct local_search *self, uint32_t number, struct climb *climb,
                       struct result *result)
{
    result->was_centre = true;
    climb->state = CLIMB_GOING;
    climb->centre = result->index;
    climb->centre_ns = result->time_ns;
    climb->ring = 0;
    list_neighbours(self, number, climb);
}

/* The best result that never was a centre and is not slower than `ratio` times the best; or NULL.
 */
static struct result *best_unclimbed(struct tree *tree, double ratio)
{
    struct result *found = NULL;
    for (uint32_t i = 0; i < tree->result_count; i++) {
        struct result *result = &tree->results[i];
        if (!result->was_centre && (!found || result->time_ns < found->time_ns) &&
            result->time_ns <= ratio * tree->results[tree->best].time_ns) {
            found = result;
        }
    }
    return found;
}

/* A config near to a good one: two or three of its parameters drawn anew. */
static bool kick(struct local_search *self, uint32_t number, uint32_t from, uint32_t *index_out)
{
    const struct gk_tree *def = &gk_space_def_of(self->base.space)->trees[number];
    uint8_t own[GK_PARAMS_MAX], digits[GK_PARAMS_MAX];
    if (!def->param_count) {
        return false;
    }
    gk_space_digits(self->base.space, from, own);
    for (uint32_t i = 0; i < KICK_TRIES; i++) {
        uint64_t moves = 2 + gk_prng_below(&self->prng, 2);
        memcpy(digits, own, sizeof digits);
        while (moves-- > 0) {
            uint64_t param = gk_prng_below(&self->prng, def->param_count);
            digits[param] = (uint8_t)gk_prng_below(&self->prng, def->params[param].value_count);
        }
        if (gk_space_find_digits(self->base.space, number, digits, index_out) &&
            !strategy_is_used(&self->base, *index_out)) {
            return true;
        }
    }
    return false;
}

/* One of the results within ELITE_RATIO of the best, each as likely. */
static uint32_t draw_elite(struct local_search *self, const struct tree *tree)
{
    double limit_ns = ELITE_RATIO * tree->results[tree->best].time_ns;
    uint32_t count = 0, chosen = tree->best;
    for (uint32_t i = 0; i < tree->result_count; i++) {
        if (tree->results[i].time_ns <= limit_ns && gk_prng_below(&self->prng, ++count) == 0) {
            chosen = i;
        }
    }
    return tree->results[chosen].index;
}

/* A start that has no result yet; the climb waits for it. */
static uint32_t ask_start(struct local_search *self, uint32_t number, struct climb *climb)
{
    struct tree *tree = &self->trees[number];
    uint32_t index = 0, kind = self->from_anywhere ? 3 : tree->restarts % 4;
    bool found = false;
    if (tree->result_count && kind != 3) {
        uint32_t from = kind == 2 ? draw_elite(self, tree) : tree->results[tree->best].index;
        found = kick(self, number, from, &index);
    }
    if (!found) { /* the caller saw that the tree has something left */
        found = strategy_draw_peek(&tree->draw, &self->base, &index);
        GK_ASSERT(found);
    }
    tree->restarts++;
    climb->state = CLIMB_WAITING;
    climb->centre = index;
    return index;
}

/* The next neighbour that nobody asked for; false when the climb has come to its end. */
static bool next_neighbour(struct local_search *self, uint32_t number, struct climb *climb,
                           uint32_t *index_out)
{
    for (;;) {
        while (climb->at < climb->count) {
            uint32_t index = climb->neighbours[climb->at++];
            if (!strategy_is_used(&self->base, index)) {
                *index_out = index;
                return true;
            }
        }
        if (climb->ring == RINGS - 1) {
            climb->state = CLIMB_IDLE;
            return false;
        }
        climb->ring++;
        list_neighbours(self, number, climb);
    }
}

/* What this climb wants next: neighbours, or a new start. False while it waits. */
static bool climb_next(struct local_search *self, uint32_t number, struct climb *climb,
                       uint32_t *index_out)
{
    struct tree *tree = &self->trees[number];
    for (;;) { /* ends: each turn spends a result that was no centre yet */
        if (climb->state == CLIMB_WAITING) {
            return false;
        }
        if (climb->state == CLIMB_GOING && next_neighbour(self, number, climb, index_out)) {
            return true;
        }
        bool at_first = tree->restarts < CLIMBS; /* first from the sample, whatever its spread */
        bool at_result = at_first || (tree->restarts % 4 == 0 && !self->from_anywhere);
        struct result *start =
            at_result ? best_unclimbed(tree, at_first ? INFINITY : ELITE_RATIO) : NULL;
        if (!start) {
            *index_out = ask_start(self, number, climb);
            return true;
        }
        tree->restarts++;
        set_centre(self, number, climb, start);
    }
}

/* ------------------------------------------------------------------ ask */

static uint32_t next_of_tree(struct local_search *self, uint32_t number)
{
    struct tree *tree = &self->trees[number];
    while (tree->sample_next < tree->sample_count) {
        uint32_t index = tree->sample[tree->sample_next++];
        if (!strategy_is_used(&self->base, index)) {
            return index;
        }
    }
    for (uint32_t i = 0; i < CLIMBS; i++) {
        uint32_t turn = tree->turn, index;
        tree->turn = (turn + 1) % CLIMBS;
        if (climb_next(self, number, &tree->climbs[turn], &index)) {
            self->parent[index] = (uint8_t)(turn + 1);
            return index;
        }
    }
    /* Every climb waits for its start: a larger batch than the search has plans for, or lost tells.
     */
    uint32_t index = ask_start(self, number, &tree->climbs[tree->turn]);
    self->parent[index] = (uint8_t)(tree->turn + 1);
    return index;
}

static double tree_weight(const struct tree *tree, double best_ns)
{
    if (!tree->result_count) { /* nothing worked yet: full weight until its sample is through */
        return tree->asked < tree->sample_count ? 1 : WEIGHT_MIN;
    }
    double ratio = best_ns / tree->results[tree->best].time_ns;
    return fmax(ratio * ratio * ratio * ratio, WEIGHT_MIN);
}

static uint32_t local_next(struct gk_strategy *base)
{
    struct local_search *self = (struct local_search *)base;
    double best_ns = INFINITY, least = INFINITY;
    uint32_t chosen = 0, unused;
    for (uint32_t i = 0; i < self->tree_count; i++) {
        const struct tree *tree = &self->trees[i];
        if (tree->result_count) {
            best_ns = fmin(best_ns, tree->results[tree->best].time_ns);
        }
    }
    for (uint32_t i = 0; i < self->tree_count; i++) {
        struct tree *tree = &self->trees[i];
        double share = tree->asked / tree_weight(tree, best_ns);
        if (share < least && strategy_draw_peek(&tree->draw, base, &unused)) {
            least = share;
            chosen = i;
        }
    }
    uint32_t index = next_of_tree(self, chosen);
    bool taken = strategy_take(base, index);
    GK_ASSERT(taken);
    self->trees[chosen].asked++;
    return index;
}

static enum gk_status local_ask(struct gk_strategy *base, uint32_t n, uint32_t *indices_out,
                                uint32_t *count_out, struct gk_err *err)
{
    struct local_search *self = (struct local_search *)base;
    if (self->failed) {
        *count_out = 0;
        return gk_fail(err, GK_NOMEM, "no memory for the results of a search");
    }
    return strategy_ask(base, n, indices_out, count_out, local_next, NULL, err);
}

/* ------------------------------------------------------------------ tell */

static struct result *add_result(struct local_search *self, struct tree *tree,
                                 const struct gk_tell *tell)
{
    if (tree->result_count == tree->result_capacity) {
        uint32_t capacity = tree->result_capacity ? tree->result_capacity * 2 : 64;
        struct result *results = realloc(tree->results, capacity * sizeof results[0]);
        if (!results) {
            self->failed = true;
            return NULL;
        }
        tree->results = results;
        tree->result_capacity = capacity;
    }
    struct result *result = &tree->results[tree->result_count];
    *result = (struct result){.index = tell->index, .time_ns = strategy_time(tell)};
    if (!tree->result_count || result->time_ns < tree->results[tree->best].time_ns) {
        tree->best = tree->result_count;
    }
    tree->result_count++;
    return result;
}

static void local_tell(struct gk_strategy *base, const struct gk_tell *tell)
{
    struct local_search *self = (struct local_search *)base;
    (void)strategy_take(base, tell->index); /* told but not asked: counts as tried */
    uint8_t parent = self->parent[tell->index];
    if (parent == PARENT_TOLD) {
        return; /* the first outcome counts */
    }
    self->parent[tell->index] = PARENT_TOLD;
    uint32_t number = gk_space_tree_of(base->space, tell->index);
    struct tree *tree = &self->trees[number];
    struct climb *climb = parent == PARENT_NONE ? NULL : &tree->climbs[parent - 1];
    bool is_start = climb && climb->state == CLIMB_WAITING && climb->centre == tell->index;
    if (!strategy_is_time(tell)) {
        if (is_start) {
            climb->state = CLIMB_IDLE;
        }
        return;
    }
    struct result *result = add_result(self, tree, tell);
    bool is_better = climb && climb->state == CLIMB_GOING && strategy_time(tell) < climb->centre_ns;
    if (result && (is_start || is_better)) {
        set_centre(self, number, climb, result);
    }
}

/* ------------------------------------------------------------------ life */

static void local_destroy(struct gk_strategy *base)
{
    struct local_search *self = (struct local_search *)base;
    if (!self) {
        return;
    }
    for (uint32_t i = 0; i < GK_TREES_MAX; i++) {
        free(self->trees[i].results);
    }
    free(self->parent);
    strategy_fini(base);
    free(self);
}

static enum gk_status create(const struct gk_strategy_setup *setup, bool from_anywhere,
                             struct gk_strategy **self_out, struct gk_err *err)
{
    struct local_search *self = calloc(1, sizeof *self);
    if (!self) {
        return gk_fail(err, GK_NOMEM, "no memory for a local search");
    }
    enum gk_status status = strategy_init(&self->base, setup, err);
    if (status != GK_OK) {
        local_destroy(&self->base);
        return status;
    }
    self->parent = calloc(self->base.count, sizeof self->parent[0]);
    if (!self->parent) {
        status = gk_fail(err, GK_NOMEM, "no memory for a search of %u configs", self->base.count);
        local_destroy(&self->base);
        return status;
    }
    self->from_anywhere = from_anywhere;
    gk_prng_init(&self->prng, setup->seed, 1);
    self->tree_count = gk_space_tree_count(setup->space);
    for (uint32_t i = 0; i < self->tree_count; i++) {
        struct tree *tree = &self->trees[i];
        gk_space_tree_range(setup->space, i, &tree->first, &tree->count);
        strategy_draw_init(&tree->draw, setup->space, i, setup->seed);
        make_sample(self, i);
    }
    *self_out = &self->base;
    return GK_OK;
}

static enum gk_status local_create(const struct gk_strategy_setup *setup,
                                   struct gk_strategy **self_out, struct gk_err *err)
{
    return create(setup, false, self_out, err);
}

static enum gk_status multistart_create(const struct gk_strategy_setup *setup,
                                        struct gk_strategy **self_out, struct gk_err *err)
{
    return create(setup, true, self_out, err);
}

const struct gk_strategy_ops strategy_local = {
    .name = "local",
    .doc = "iterated local search: climbs, and kicks away from what they found",
    .version = 2,
    .create = local_create,
    .destroy = local_destroy,
    .ask = local_ask,
    .tell = local_tell,
};

const struct gk_strategy_ops strategy_multistart = {
    .name = "multistart",
    .doc = "local search from new random starts",
    .version = 1,
    .create = multistart_create,
    .destroy = local_destroy,
    .ask = local_ask,
    .tell = local_tell,
};
