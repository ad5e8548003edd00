/* The model of one tree. See model.h. */
#include "search/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/neighbours.h"

_Static_assert(GK_PARAMS_MAX % 8 == 0, "digits are compared eight at a time");
_Static_assert(GAUSS_EXTRAS == STRATEGY_EXTRAS, "a model takes what strategy_extras() gives");

#define KEEP_MAX      144 /* points kept when there is no room for all results */
#define MANY          448 /* results from which a search is long: smaller steps, quicker asks */
#define MANY_POINTS   176 /* then: points at most */
#define MANY_KEEP     96
#define ROOM          24  /* free behind the next ask after a rebuild: or each ask would need one */
#define KEEP_BEST     64  /* the best of those, the others at random */
#define PENDING_MAX   48  /* points on their way that outlive a rebuild, the newest */
#define FIT_POINTS    128 /* the scales are fitted on so many; the cost grows with the cube */
#define FIT_BEST      64
#define FIT_TRIES     24
#define FIT_TRIES_BIG 2   /* once not all results are points: the scales are known by then */
#define CLIP          1.0 /* of the way from best to median: what is slower than that ... */
#define CLIP_SLOPE    0.3 /* ... counts in part, since how slow slow ones are matters little */
#define LEFT_MIN      1e-6
#define TRUST_FIRST   0.5 /* weight of the overall share of failures, in like configs */
#define TRUST_VALUE   1   /* and among those that share a value */
#define RISK_POWER    2   /* what may fail must promise much: a failure teaches little */
#define FAIL_CERTAIN  0.98
#define DRAWN_BASE    200 /* candidates drawn at random for an ask ... */
#define DRAWN_LONG    32  /* ... of a long search, whose room has long been searched through ... */
#define DRAWN_EACH    3   /* ... and for each config of it */
#define DRAWN_MAX     256
#define PRIOR_TRUST   0.6 /* of a time, both standardised: what a prior is taken to say at first */
#define PRIOR_FIRST   1.5 /* before any time is known: its weight against filling the space */
#define CENTRES       4   /* the best whose neighbours are brought into view */

/* ------------------------------------------------------------------ life cycle */

static bool in_pool(const struct model *model, uint32_t index)
{
    uint32_t at = index - model->first;
    return model->in_pool[at / 8] >> at % 8 & 1;
}

static void mark_pool(struct model *model, uint32_t index, bool is_in)
{
    uint32_t at = index - model->first;
    uint8_t bit = (uint8_t)(1u << at % 8);
    model->in_pool[at / 8] =
        (uint8_t)(is_in ? model->in_pool[at / 8] | bit : model->in_pool[at / 8] & ~bit);
}

static void make_point(const struct model *model, uint32_t index, struct gauss_point *point_out)
{
    uint8_t digits[GK_PARAMS_MAX];
    gk_space_digits(model->base->space, index, digits);
    gauss_digits(&model->gauss.axes, digits, point_out->digits);
    strategy_extras(model->base, model->tree, index, digits, point_out->extras);
}

enum gk_status model_create(const struct gk_strategy *base, uint32_t tree, uint32_t pool_max,
                            struct model **model_out, struct gk_err *err)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model) {
        return gk_fail(err, GK_NOMEM, "no memory for a model");
    }
    model->base = base;
    model->tree = tree;
    model->best_log = INFINITY;
    model->stamp = 1;
    model->scale = 1;
    model->amplitude = 1;
    gk_space_tree_range(base->space, tree, &model->first, &model->count);
    gk_prng_init(&model->prng, base->seed, 2000 + tree);
    permute_init(&model->draw, model->count, base->seed, 3000 + tree);
    uint32_t capacity = model->count < pool_max ? model->count : pool_max;
    enum gk_status status =
        gauss_init(&model->gauss, &gk_space_def_of(base->space)->trees[tree], err);
    if (status == GK_OK) {
        status = pool_init(&model->pool, capacity, err);
    }
    model->in_pool = calloc(model->count / 8 + 1, 1);
    model->told = calloc(model->count / 8 + 1, 1);
    if (status == GK_OK && (!model->in_pool || !model->told)) {
        status = gk_fail(err, GK_NOMEM, "no memory for a model of %u configs", model->count);
    }
    if (status != GK_OK) {
        model_destroy(model);
        return status;
    }
    *model_out = model;
    return GK_OK;
}

void model_destroy(struct model *model)
{
    if (model) {
        gauss_fini(&model->gauss);
        pool_fini(&model->pool);
        free(model->in_pool);
        free(model->told);
        free(model->results);
        free(model);
    }
}

size_t model_bytes(const struct model *model)
{
    size_t square = (size_t)model->gauss.stride * model->gauss.stride;
    return sizeof *model + pool_bytes(&model->pool) + 2 * square * sizeof(double) +
           model->count / 4 + model->result_capacity * sizeof model->results[0];
}

/* ------------------------------------------------------------------ points */

static enum gk_status reserve(struct model *model, uint32_t points, struct gk_err *err)
{
    enum gk_status status = gauss_reserve(&model->gauss, points, err);
    return status == GK_OK ? pool_reserve(&model->pool, points, err) : status;
}

static uint32_t find_point(const struct model *model, uint32_t index)
{
    uint32_t i = model->gauss.count;
    while (i > 0 && model->index[i - 1] != index) {
        i--;
    }
    return i - 1; /* UINT32_MAX: there is none */
}

/* What to take a result for: a whole measurement says it itself, a short one is believed. */
static double taken_for(const struct model *model, uint32_t i)
{
    return model->weight[i] > 1 ? model->believed[i] : model->log_ns[i];
}

static void set_point(struct model *model, uint32_t at, const struct model_result *result)
{
    model->index[at] = result->index;
    model->is_ok[at] = true;
    model->is_pending[at] = false;
    model->log_ns[at] = result->log_ns;
    model->believed[at] = result->log_ns;
    model->log_cost[at] = result->log_cost;
    model->weight[at] = result->weight;
    make_point(model, result->index, &model->points[at]);
}

static bool is_before(const struct model_result *a, const struct model_result *b)
{
    return a->log_ns < b->log_ns || (a->log_ns <= b->log_ns && a->index < b->index);
}

/* Brings the best `count` results to the front, in order: of those that a rebuild left there few
 * move, so this costs one look at each result. */
static void best_first(struct model *model, uint32_t count)
{
    struct model_result *results = model->results;
    for (uint32_t i = 1; i < model->result_count; i++) {
        uint32_t at = i < count ? i : count;
        if (at == count && !is_before(&results[i], &results[count - 1])) {
            continue;
        }
        struct model_result result = results[i];
        if (at == count) {
            results[i] = results[--at];
        }
        for (; at > 0 && is_before(&result, &results[at - 1]); at--) {
            results[at] = results[at - 1];
        }
        results[at] = result;
    }
}

static bool is_long(const struct model *model)
{
    return model->result_count >= MANY;
}

static uint32_t points_max(const struct model *model)
{
    return is_long(model) ? MANY_POINTS : GAUSS_POINTS_MAX;
}

/* Brings the results that shall be points to the front: the best, then others at random; and says
 * how many. The order of results means nothing else. */
static uint32_t choose_results(struct model *model, uint32_t room)
{
    uint32_t keep = model->result_count;
    if (keep <= room) {
        return keep;
    }
    keep = is_long(model) ? MANY_KEEP : KEEP_MAX;
    keep = keep < room ? keep : room;
    best_first(model, KEEP_BEST);
    for (uint32_t i = KEEP_BEST; i < keep; i++) {
        uint32_t other = i + (uint32_t)gk_prng_below(&model->prng, model->result_count - i);
        struct model_result result = model->results[i];
        model->results[i] = model->results[other];
        model->results[other] = result;
    }
    return keep;
}

/* Keeps what is on its way, at the front of the arrays; returns how many. */
static uint32_t keep_pending(struct model *model)
{
    uint32_t count = 0, pending = 0;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        pending += model->is_pending[i];
    }
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (!model->is_pending[i] || pending-- > PENDING_MAX) {
            continue;
        }
        model->index[count] = model->index[i];
        model->points[count] = model->points[i];
        model->is_pending[count] = true;
        model->is_ok[count] = false;
        model->weight[count++] = 1;
    }
    return count;
}

static struct pool_source source_of(const struct model *model)
{
    return (struct pool_source){.points = model->points,
                                .ok = model->is_ok,
                                .x = model->x,
                                .cost = model->cost_x,
                                .failed = model->failed,
                                .failed_count = model->failed_count < MODEL_FAILED_MAX
                                                    ? model->failed_count
                                                    : MODEL_FAILED_MAX};
}

/* ------------------------------------------------------------------ targets */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Where times begin to count only in part. */
static double clip_of(const struct model *model)
{
    double sorted[GAUSS_POINTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (model->is_ok[i]) {
            sorted[count++] = model->log_ns[i];
        }
    }
    if (!count) {
        return INFINITY;
    }
    qsort(sorted, count, sizeof sorted[0], by_value);
    return sorted[0] + CLIP * (sorted[count / 2] - sorted[0]);
}

/* What is believed of a config before any is like it: where the process's own mean lies. The times
 * say by its extras how much of that was right. */
static double expected(const struct gauss_point *point)
{
    return PRIOR_TRUST * (double)point->extras[0];
}

/* Standardised targets of the ok points, less what was expected; returns how many there are. */
static uint32_t make_targets(struct model *model, double *targets)
{
    double limit = clip_of(model), sum = 0, squares = 0, costs = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (model->is_ok[i]) {
            double value = model->log_ns[i];
            value = value > limit ? limit + CLIP_SLOPE * (value - limit) : value;
            targets[i] = value;
            sum += value;
            costs += model->log_cost[i];
            count++;
        }
    }
    model->centre = count ? sum / count : 0;
    model->cost_centre = count ? costs / count : 0;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (model->is_ok[i]) {
            targets[i] -= model->centre;
            squares += targets[i] * targets[i];
        }
    }
    model->scale = count ? fmax(sqrt(squares / count), 1e-4) : 1;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        targets[i] = model->is_ok[i] ? targets[i] / model->scale - expected(&model->points[i]) : 0;
    }
    return count;
}

/* What the ok points are believed to take: their times less the part that is noise. */
static void believe(struct model *model)
{
    double back[GAUSS_POINTS_MAX];
    memcpy(back, model->x, model->gauss.count * sizeof back[0]);
    gauss_solve_back(&model->gauss, back);
    model->best_log = INFINITY;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (model->is_ok[i]) {
            double noise = model->gauss.scales.noise * model->weight[i] * back[i] * model->scale;
            model->believed[i] = model->log_ns[i] - noise;
            model->best_log = fmin(model->best_log, taken_for(model, i));
        }
    }
}

/* What changed may have raised them. */
static void forget_scores(struct model *model)
{
    for (uint32_t i = 0; i < model->pool.count; i++) {
        pool_score(&model->pool, i, model->pool.index[i] == POOL_NONE ? -INFINITY : INFINITY);
    }
    model->is_unscored = true;
}

/* After tells, with the points in U as they are. */
static void retarget(struct model *model)
{
    double targets[GAUSS_POINTS_MAX], squares = 0;
    uint32_t count = make_targets(model, targets);
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        bool is_ok = model->is_ok[i];
        double cost = is_ok ? model->log_cost[i] - model->cost_centre : 0;
        /* 0 is what is believed of a point on its way, and of one that failed */
        model->x[i] = is_ok ? gauss_solve_step(&model->gauss, model->x, i, targets[i]) : 0;
        model->cost_x[i] = is_ok ? gauss_solve_step(&model->gauss, model->cost_x, i, cost) : 0;
        squares += model->x[i] * model->x[i];
    }
    model->amplitude = (squares + 1) / (count + 1.0);
    believe(model);
    model->is_stale = false;
    model->stamp++;
    forget_scores(model);
}

/* ------------------------------------------------------------------ rebuild */

/* Scales from the ok points; of many, the best and evenly chosen others. */
static void fit(struct model *model, uint32_t tries)
{
    struct gauss_point points[FIT_POINTS];
    double targets[GAUSS_POINTS_MAX], values[FIT_POINTS], weights[FIT_POINTS];
    double sorted[GAUSS_POINTS_MAX], border = INFINITY;
    uint32_t count = make_targets(model, targets), taken = 0, passed = 0, ok = 0;
    if (count > FIT_POINTS) {
        for (uint32_t i = 0; i < model->gauss.count; i++) {
            if (model->is_ok[i]) {
                sorted[ok++] = targets[i];
            }
        }
        qsort(sorted, count, sizeof sorted[0], by_value);
        border = sorted[FIT_BEST - 1];
    }
    uint32_t every = count > FIT_POINTS ? (count - FIT_BEST) / (FIT_POINTS - FIT_BEST) + 1 : 1;
    for (uint32_t i = 0; i < model->gauss.count && taken < FIT_POINTS; i++) {
        bool is_ok = model->is_ok[i];
        if (is_ok && (targets[i] <= border || passed++ % every == 0)) {
            points[taken] = model->points[i];
            values[taken] = targets[i];
            weights[taken++] = model->weight[i];
        }
    }
    gauss_fit(&model->gauss, points, values, weights, taken, tries, &model->prng);
}

/* Points chosen anew, scales fitted, everything solved. */
static enum gk_status rebuild(struct model *model, uint32_t n, struct gk_err *err)
{
    uint32_t pending = keep_pending(model);
    uint32_t kept = choose_results(model, points_max(model) - ROOM - pending - n);
    enum gk_status status = reserve(model, pending + kept + 1, err);
    if (status != GK_OK) {
        return status;
    }
    for (uint32_t i = 0; i < kept; i++) {
        set_point(model, pending + i, &model->results[i]);
    }
    model->gauss.count = pending + kept;
    if (kept >= 2) {
        fit(model, kept < model->result_count ? FIT_TRIES_BIG : FIT_TRIES);
    }
    gauss_factor(&model->gauss, model->points, model->weight, pending + kept);
    retarget(model);
    struct pool_source source = source_of(model);
    pool_solve_all(&model->pool, &model->gauss, &source);
    model->unheard_count = 0;
    model->fit_at = model->result_count + 1 + model->result_count / 10;
    return GK_OK;
}

static void add_point(struct model *model, uint32_t index)
{
    if (model->gauss.count == GAUSS_POINTS_MAX ||
        reserve(model, model->gauss.count + 1, NULL) != GK_OK) {
        return; /* a batch larger than the model: the rest is left out of sight */
    }
    uint32_t at = model->gauss.count;
    make_point(model, index, &model->points[at]);
    model->index[at] = index;
    model->is_pending[at] = true;
    model->is_ok[at] = false;
    model->weight[at] = 1;
    model->x[at] = 0;
    model->cost_x[at] = 0;
    gauss_append(&model->gauss, model->points, &model->points[at], 1);
    pool_append(&model->pool, &model->gauss, model->points);
    model->stamp++; /* the old scores stay: bounds from above */
}

/* ------------------------------------------------------------------ asked and told */

static void forget_candidate(struct model *model, uint32_t index)
{
    if (!in_pool(model, index)) {
        return;
    }
    for (uint32_t i = 0; i < model->pool.count; i++) {
        if (model->pool.index[i] == index) {
            pool_clear(&model->pool, i);
        }
    }
    mark_pool(model, index, false);
}

void model_expect(struct model *model, uint32_t index)
{
    forget_candidate(model, index);
    add_point(model, index);
}

static bool add_result(struct model *model, const struct model_result *result)
{
    uint32_t bit = result->index - model->first;
    bool is_known = model->told[bit / 8] >> bit % 8 & 1;
    for (uint32_t i = 0; is_known && i < model->result_count; i++) {
        if (model->results[i].index == result->index) {
            model->results[i] = *result;
            return true;
        }
    }
    model->told[bit / 8] = (uint8_t)(model->told[bit / 8] | 1u << bit % 8);
    if (model->result_count == model->result_capacity) {
        uint32_t capacity = model->result_capacity ? model->result_capacity * 2 : 64;
        struct model_result *results = realloc(model->results, capacity * sizeof model->results[0]);
        if (!results) {
            return false;
        }
        model->results = results;
        model->result_capacity = capacity;
    }
    model->results[model->result_count++] = *result;
    return true;
}

/* The candidates hear of what failed and what passed with the next ask; or never, if everything is
 * solved anew for it. */
static void hear(struct model *model)
{
    for (uint32_t i = 0; i < model->unheard_count; i++) {
        pool_told(&model->pool, &model->gauss, &model->unheard[i], model->unheard_ok[i]);
    }
    model->unheard_count = 0;
}

static void hear_later(struct model *model, const struct gauss_point *point, bool ok)
{
    if (model->unheard_count == MODEL_UNHEARD_MAX) {
        hear(model);
    }
    model->unheard[model->unheard_count] = *point;
    model->unheard_ok[model->unheard_count++] = ok;
}

void model_tell(struct model *model, const struct gk_tell *tell)
{
    struct gauss_point point;
    uint32_t at = find_point(model, tell->index);
    if (at == UINT32_MAX) {
        model_expect(model, tell->index);
        at = find_point(model, tell->index);
    }
    make_point(model, tell->index, &point);
    model->is_stale = true;
    for (uint32_t i = 0; i < model->gauss.axes.count; i++) {
        model->outcomes[i][point.digits[i]][strategy_is_time(tell)]++;
    }
    if (!strategy_is_time(tell)) {
        model->failed[model->failed_count++ % MODEL_FAILED_MAX] = point;
        if (at != UINT32_MAX) {
            model->is_pending[at] = false;
        }
        hear_later(model, &point, false);
        return;
    }
    struct model_result result = {
        .index = tell->index,
        .log_ns = (float)log(tell->time_ns),
        .log_cost = tell->cost_ns > 1 && isfinite(tell->cost_ns) ? (float)log(tell->cost_ns) : 0,
        .weight = !tell->samples || tell->samples >= STRATEGY_SAMPLES
                      ? 1
                      : (float)STRATEGY_SAMPLES / (float)tell->samples};
    model->failed_memory |= !add_result(model, &result);
    if (at != UINT32_MAX) {
        set_point(model, at, &result);
    }
    hear_later(model, &point, true);
}

/* ------------------------------------------------------------------ scores */

/* Logarithm of the improvement to expect of a normal time: sigma (z Phi(z) + phi(z)). Far out it
 * is a small difference of large numbers, and its asymptote takes over. */
static double log_improvement(double z, double sigma)
{
    double density = -0.5 * z * z - 0.918938533;
    if (z < -5) {
        return log(sigma) + density - 2 * log(-z);
    }
    return log(sigma * (z * 0.5 * erfc(-z * 0.707106781) + exp(density)));
}

/* Chance that a candidate fails. Two looks at the failures so far, and the darker one counts: those
 * that are alike, as the times see likeness; and those that share a value, for what breaks a config
 * need not be what makes it slow. */
static double risk_of(const struct model *model, uint32_t slot)
{
    const struct pool *pool = &model->pool;
    double told = model->failed_count + model->result_count;
    double share = (model->failed_count + 0.5) / (told + 1);
    double failed = (double)pool->failed[slot];
    double risk =
        (failed + TRUST_FIRST * share) / (failed + (double)pool->passed[slot] + TRUST_FIRST);
    for (uint32_t i = 0; i < model->gauss.axes.count; i++) {
        const uint32_t *counts = model->outcomes[i][pool->points[slot].digits[i]];
        double of_value = (counts[0] + TRUST_VALUE * share) / (counts[0] + counts[1] + TRUST_VALUE);
        risk = fmax(risk, of_value);
    }
    return risk;
}

static double score_of(const struct model *model, const struct model_aim *aim, uint32_t slot)
{
    const struct pool *pool = &model->pool;
    double left = fmax(pool->left[slot], LEFT_MIN), score;
    if (!model->result_count || aim->best_log >= HUGE_VAL) {
        /* nothing is known: fill the space, by and by from where a prior likes it */
        score = log(left) - PRIOR_FIRST * (double)pool->points[slot].extras[0];
    } else {
        double sigma = model->scale * sqrt(left * model->amplitude);
        double mean = model->centre +
                      model->scale * ((double)pool->mean[slot] + expected(&pool->points[slot]));
        score = log_improvement((aim->best_log - mean) / sigma, sigma) -
                aim->cost_power * (double)pool->cost[slot];
    }
    if (model->failed_count) {
        score += RISK_POWER * log1p(-FAIL_CERTAIN * fmin(risk_of(model, slot), 1));
    }
    return score;
}

static double rescore(struct model *model, const struct model_aim *aim, uint32_t slot)
{
    pool_score(&model->pool, slot, score_of(model, aim, slot));
    model->pool.stamp[slot] = model->stamp;
    return model->pool.score[slot];
}

/* Scores of a candidate only fall while nothing is told: what is on its way takes variance away and
 * moves no mean. So only those that could still be the best are scored again. */
bool model_pick(struct model *model, const struct model_aim *aim, uint32_t *index_out,
                double *score_out)
{
    struct pool *pool = &model->pool;
    for (uint32_t i = 0; model->is_unscored && i < pool->count; i++) {
        if (pool->score[i] >= HUGE_VAL) {
            (void)rescore(model, aim, i);
        }
    }
    model->is_unscored = false;
    while (pool->count) {
        uint32_t best = pool_top(pool);
        if (pool->index[best] == POOL_NONE) {
            return false;
        }
        if (pool->stamp[best] == model->stamp) {
            *index_out = pool->index[best];
            *score_out = pool->score[best];
            return true;
        }
        (void)rescore(model, aim, best);
    }
    return false;
}

/* One byte differs, looked at eight at a time: behind the axes there are zeros. */
static bool is_near(const uint8_t a[GK_PARAMS_MAX], const uint8_t b[GK_PARAMS_MAX])
{
    uint64_t one = 0;
    for (uint32_t i = 0; i < GK_PARAMS_MAX; i += 8) {
        uint64_t x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        x ^= y;
        if (x && one) {
            return false;
        }
        one |= x;
    }
    return one && !(one & ~(UINT64_C(0xff) << (unsigned)__builtin_ctzll(one) / 8 * 8));
}

bool model_pick_near(struct model *model, const struct model_aim *aim, uint32_t centre,
                     uint32_t *index_out, double *score_out)
{
    struct pool *pool = &model->pool;
    struct gauss_point point;
    bool found = false;
    make_point(model, centre, &point);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->index[i] == POOL_NONE || !is_near(point.digits, pool->points[i].digits)) {
            continue;
        }
        double score = rescore(model, aim, i);
        if (!found || score > *score_out) {
            *score_out = score;
            *index_out = pool->index[i];
            found = true;
        }
    }
    return found;
}

bool model_pick_of(struct model *model, const struct model_aim *aim, const uint32_t *indices,
                   uint32_t count, uint32_t *index_out, double *score_out)
{
    struct pool *pool = &model->pool;
    bool found = false;
    for (uint32_t i = 0; i < pool->count; i++) {
        bool is_listed = false;
        for (uint32_t k = 0; k < count && !is_listed; k++) {
            is_listed = pool->index[i] != POOL_NONE && pool->index[i] == indices[k];
        }
        double score = is_listed ? rescore(model, aim, i) : 0;
        if (is_listed && (!found || score > *score_out)) {
            *score_out = score;
            *index_out = pool->index[i];
            found = true;
        }
    }
    return found;
}

uint32_t model_best(const struct model *model, uint32_t max, uint32_t *indices_out,
                    double *values_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->gauss.count; i++) {
        if (!model->is_ok[i]) {
            continue;
        }
        double value = taken_for(model, i);
        uint32_t at = count < max ? count++ : max;
        for (; at > 0 && values_out[at - 1] > value; at--) {
            if (at < max) {
                values_out[at] = values_out[at - 1];
                indices_out[at] = indices_out[at - 1];
            }
        }
        if (at < max) {
            values_out[at] = value;
            indices_out[at] = model->index[i];
        }
    }
    return count;
}

/* ------------------------------------------------------------------ candidates */

/* The value that would stand at `rank` if they were sorted; moves them about. */
static double rank_value(double *values, uint32_t count, uint32_t rank)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) { /* Hoare: what is left holds the rank and shrinks by half or so a turn */
        double pivot = values[low + (high - low) / 2];
        uint32_t i = low, k = high;
        for (;;) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[k] > pivot) {
                k--;
            }
            if (i >= k) {
                break;
            }
            double value = values[i];
            values[i++] = values[k];
            values[k--] = value;
        }
        if (rank <= k) {
            high = k;
        } else {
            low = k + 1;
        }
    }
    return values[rank];
}

/* `count` slots for new candidates: free ones, then those of the lowest scores. */
static void make_room(struct model *model, uint32_t count, uint32_t *slots_out)
{
    struct pool *pool = &model->pool;
    uint32_t found = 0;
    for (uint32_t i = 0; i < pool->count && found < count; i++) {
        if (pool->index[i] == POOL_NONE) {
            slots_out[found++] = i;
        }
    }
    while (found < count && pool->count < pool->capacity) {
        pool_clear(pool, pool->count);
        slots_out[found++] = pool->count++;
    }
    if (found == count) {
        return;
    }
    double sorted[MODEL_POOL_MAX], border;
    uint32_t used = 0;
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->index[i] != POOL_NONE) {
            sorted[used++] = pool->score[i];
        }
    }
    border = rank_value(sorted, used, count - found - 1);
    for (uint32_t i = 0; i < pool->count && found < count; i++) {
        if (pool->index[i] != POOL_NONE && pool->score[i] <= border) {
            mark_pool(model, pool->index[i], false);
            pool_clear(pool, i);
            slots_out[found++] = i;
        }
    }
}

void model_view(struct model *model, const uint32_t *indices, uint32_t count)
{
    struct pool *pool = &model->pool;
    uint32_t fresh[MODEL_POOL_MAX], slots[MODEL_POOL_MAX], found = 0;
    uint32_t max = model->covers || pool->capacity < 4 ? pool->capacity : pool->capacity / 4;
    for (uint32_t i = 0; i < count && found < max; i++) {
        bool is_ours = indices[i] - model->first < model->count;
        if (is_ours && !in_pool(model, indices[i]) && !strategy_is_used(model->base, indices[i])) {
            mark_pool(model, indices[i], true); /* the list may name it twice */
            fresh[found++] = indices[i];
        }
    }
    make_room(model, found, slots);
    for (uint32_t i = 0; i < found; i++) {
        struct gauss_point point;
        make_point(model, fresh[i], &point);
        pool_put(pool, &model->gauss, slots[i], fresh[i], &point);
    }
    if (found) {
        struct pool_source source = source_of(model);
        pool_solve(pool, &model->gauss, &source, slots, found);
        model->is_unscored = true;
    }
}

static void view_all(struct model *model)
{
    uint32_t indices[MODEL_POOL_MAX];
    for (uint32_t i = 0; i < model->count; i++) {
        indices[i] = model->first + i;
    }
    model->covers = true;
    model_view(model, indices, model->count);
}

/* New candidates of an ask: neighbours of the best, neighbours of the best candidate, and some at
 * random, so that in time everything is looked at. */
static void view_more(struct model *model, uint32_t n, const struct model_aim *aim)
{
    uint32_t list[NEIGHBOURS_LIST_MAX], best[CENTRES], index;
    double score, values[CENTRES];
    uint32_t drawn = (is_long(model) ? DRAWN_LONG : DRAWN_BASE) + DRAWN_EACH * n,
             centres = model_best(model, CENTRES, best, values);
    if (model_pick(model, aim, &index, &score)) {
        model_view(
            model, list,
            neighbours_list(model->base->space, model->tree, index, NEIGHBOURS_HAMMING, list));
    }
    drawn = drawn < DRAWN_MAX ? drawn : DRAWN_MAX;
    for (uint32_t i = 0; i < drawn; i++) {
        list[i] = model->first + permute_at(&model->draw, model->draw_at);
        model->draw_at = (model->draw_at + 1) % model->count;
    }
    model_view(model, list, drawn);
    for (uint32_t i = 0; i < centres; i++) {
        model_view(
            model, list,
            neighbours_list(model->base->space, model->tree, best[i], NEIGHBOURS_HAMMING, list));
    }
}

double model_learn(struct model *model, uint32_t n)
{
    n = n < PENDING_MAX ? n : PENDING_MAX;
    bool is_full = model->gauss.count + n > points_max(model);
    if (model->failed_memory) {
        return model->best_log;
    }
    if (is_full || (model->is_stale && model->result_count >= model->fit_at)) {
        model->failed_memory = rebuild(model, n, NULL) != GK_OK;
    } else if (model->is_stale) {
        hear(model);
        retarget(model);
        pool_means(&model->pool, model->x, model->cost_x);
    }
    return model->best_log;
}

enum gk_status model_prepare(struct model *model, uint32_t n, const struct model_aim *aim,
                             struct gk_err *err)
{
    if (model->failed_memory) {
        return gk_fail(err, GK_NOMEM, "no memory for the results of a search");
    }
    if (memcmp(&model->aim, aim, sizeof *aim) != 0) { /* then old scores are no bounds */
        model->aim = *aim;
        forget_scores(model);
    }
    if (!model->pool.count && model->count <= model->pool.capacity) {
        view_all(model);
    } else if (!model->covers) {
        view_more(model, n, aim);
    }
    return GK_OK;
}
