/* The candidates of a model. See candidates.h. */
#include "search/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/lanes.h"

#define BLOCK (4 * LANES) /* candidates solved together */

enum gk_status pool_init(struct pool *pool, uint32_t capacity, struct gk_err *err)
{
    memset(pool, 0, sizeof *pool);
    pool->capacity = capacity;
    pool->stride = (capacity + BLOCK - 1) / BLOCK * BLOCK;
    size_t n = pool->stride;
    pool->index = calloc(n, sizeof pool->index[0]);
    pool->points = calloc(n, sizeof pool->points[0]);
    pool->digits = calloc(n, GK_PARAMS_MAX);
    pool->left = calloc(n, sizeof pool->left[0]);
    pool->mean = calloc(n, sizeof pool->mean[0]);
    pool->cost = calloc(n, sizeof pool->cost[0]);
    pool->failed = calloc(n, sizeof pool->failed[0]);
    pool->passed = calloc(n, sizeof pool->passed[0]);
    pool->block = calloc((size_t)GAUSS_POINTS_MAX * BLOCK, sizeof pool->block[0]);
    pool->score = calloc(n, sizeof pool->score[0]);
    pool->stamp = calloc(n, sizeof pool->stamp[0]);
    pool->top = calloc(n / BLOCK + 1, sizeof pool->top[0]);
    if (!pool->index || !pool->digits || !pool->points || !pool->left || !pool->mean ||
        !pool->cost || !pool->failed || !pool->passed || !pool->block || !pool->score ||
        !pool->stamp || !pool->top) {
        return gk_fail(err, GK_NOMEM, "no memory for %u candidates of a model", capacity);
    }
    return GK_OK;
}

void pool_fini(struct pool *pool)
{
    free(pool->index);
    free(pool->points);
    free(pool->digits);
    free(pool->v);
    free(pool->left);
    free(pool->mean);
    free(pool->cost);
    free(pool->failed);
    free(pool->passed);
    free(pool->block);
    free(pool->score);
    free(pool->stamp);
    free(pool->top);
    memset(pool, 0, sizeof *pool);
}

enum gk_status pool_reserve(struct pool *pool, uint32_t rows, struct gk_err *err)
{
    if (rows <= pool->row_capacity) {
        return GK_OK;
    }
    uint32_t wanted = pool->row_capacity ? pool->row_capacity * 2 : 16;
    wanted = wanted < rows ? rows : wanted;
    wanted = wanted > GAUSS_POINTS_MAX ? GAUSS_POINTS_MAX : wanted;
    float *v = realloc(pool->v, (size_t)wanted * pool->stride * sizeof v[0]);
    if (!v) {
        return gk_fail(err, GK_NOMEM, "no memory for %u points of a model", wanted);
    }
    pool->v = v;
    memset(v + (size_t)pool->row_capacity * pool->stride, 0,
           (size_t)(wanted - pool->row_capacity) * pool->stride * sizeof v[0]);
    pool->row_capacity = wanted;
    return GK_OK;
}

size_t pool_bytes(const struct pool *pool)
{
    size_t each = sizeof pool->index[0] + GK_PARAMS_MAX + sizeof pool->points[0] +
                  5 * sizeof(float) + sizeof pool->score[0] + sizeof pool->stamp[0] +
                  pool->row_capacity * sizeof pool->v[0];
    return each * pool->stride + GAUSS_POINTS_MAX * BLOCK * sizeof pool->block[0];
}

/* ------------------------------------------------------------------ kernels of many */

/* values[i] *= e^-x[i] for a block of x from 0 to 80, to seven digits: in plain arithmetic and in
 * steps that the compiler takes many at a time, so that every machine gets the same bits. */
static inline void times_falling_exp(float *restrict values, const float *restrict x)
{
    int32_t bits[BLOCK];
    float power[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++) {
        float halves = -x[i] * 1.44269504f;
        int32_t whole = (int32_t)(halves - 0.5f); /* towards zero, so the rest is within a half */
        float rest = (halves - (float)whole) * 0.693147181f;
        float sum =
            1 +
            rest * (1 + rest * (0.5f +
                                rest * (0.166666667f +
                                        rest * (0.0416666667f +
                                                rest * (0.00833333333f + rest * 0.00138888889f)))));
        values[i] *= sum;
        bits[i] = (whole + 127) << 23;
    }
    memcpy(power, bits, sizeof power);
    for (uint32_t i = 0; i < BLOCK; i++) {
        values[i] *= power[i];
    }
}

/* likeness[i] of `point` to a block of candidates, whose digits lie group after group, `stride`
 * apart. */
GK_CLONES static void likeness_block(const struct gauss *gauss, const struct gauss_point *point,
                                     const uint8_t *digits, size_t stride, float *restrict likeness)
{
    uint8_t own[GK_PARAMS_MAX];
    float sums[BLOCK][2] = {{0}}, square[BLOCK], jump[BLOCK];
    gauss_group_digits(gauss, point->digits, own);
    for (uint32_t group = 0; group < gauss->groups.count; group++, digits += stride) {
        const float *row = gauss->grouped + 2 * (gauss->groups.offset[group] +
                                                 (size_t)own[group] * gauss->groups.values[group]);
        for (uint32_t i = 0; i < BLOCK; i++) {
            const float *pair = row + 2 * (size_t)digits[i];
            sums[i][0] += pair[0];
            sums[i][1] += pair[1];
        }
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        square[i] = sums[i][0];
        jump[i] = sums[i][1];
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        float r = sqrtf(5 * square[i]);
        likeness[i] = 1 + r + r * r / 3;
        jump[i] += r;
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        jump[i] = jump[i] < 80 ? jump[i] : 80;
    }
    times_falling_exp(likeness, jump);
}

/* The digits of some slots, side by side as likeness_block wants them. */
static void gather(const struct pool *pool, const struct gauss *gauss, const uint32_t *slots,
                   uint32_t count, uint8_t out[GK_PARAMS_MAX * BLOCK])
{
    for (uint32_t group = 0; group < gauss->groups.count; group++) {
        const uint8_t *digits = pool->digits + (size_t)group * pool->stride;
        for (uint32_t i = 0; i < count; i++) {
            out[group * BLOCK + i] = digits[slots[i]];
        }
    }
}

static bool has_extras(const struct gauss_point *point)
{
    for (uint32_t i = 0; i < GAUSS_EXTRAS; i++) {
        if (point->extras[i] < 0 || point->extras[i] > 0) {
            return true;
        }
    }
    return false;
}

/* The likeness becomes the kernel. slots NULL: those from `at` on. */
static void add_extras(const struct pool *pool, const struct gauss_point *point,
                       const uint32_t *slots, uint32_t at, uint32_t count, float *restrict kernel)
{
    for (uint32_t i = 0; has_extras(point) && i < count; i++) {
        kernel[i] += (float)gauss_extras(point, &pool->points[slots ? slots[i] : at + i]);
    }
}

/* out -= sum of factors[k] * row k, in the order of k, for one block of each row. */
GK_CLONES static void subtract_rows(float *restrict out, const float *restrict rows, size_t stride,
                                    const float *restrict factors, uint32_t count)
{
    lanes *to = (lanes *)out;
    lanes a = to[0], b = to[1], c = to[2], d = to[3];
    for (uint32_t k = 0; k < count; k++) {
        const lanes *row = (const lanes *)(rows + k * stride);
        float factor = factors[k];
        a -= factor * row[0];
        b -= factor * row[1];
        c -= factor * row[2];
        d -= factor * row[3];
    }
    to[0] = a;
    to[1] = b;
    to[2] = c;
    to[3] = d;
}

/* to += factor * row, for one block. */
static inline void add_row(float *restrict to, const float *restrict row, float factor)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        to[i] += factor * row[i];
    }
}

/* ------------------------------------------------------------------ operations */

GK_CLONES static void finish_row(float *restrict row, float *restrict left, float pivot)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        row[i] *= pivot;
        left[i] -= row[i] * row[i];
    }
}

void pool_append(struct pool *pool, const struct gauss *gauss, const struct gauss_point *points)
{
    GK_ASSERT(gauss->count == pool->rows + 1 && gauss->count <= pool->row_capacity);
    uint32_t last = pool->rows++;
    float *row = pool->v + (size_t)last * pool->stride;
    const float *factors = gauss->lower + (size_t)last * gauss->stride;
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        uint32_t count = pool->count - at < BLOCK ? pool->count - at : BLOCK;
        likeness_block(gauss, &points[last], pool->digits + at, pool->stride, row + at);
        add_extras(pool, &points[last], NULL, at, count, row + at);
        subtract_rows(row + at, pool->v + at, pool->stride, factors, last);
        finish_row(row + at, pool->left + at, 1 / factors[last]);
    }
}

/* Likeness to a config that failed or passed: they reach less far than times do. */
static inline float nearness(float likeness)
{
    return likeness * likeness * likeness;
}

GK_CLONES static void add_nearness(float *restrict sums, const float *restrict likeness)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        sums[i] += nearness(likeness[i]);
    }
}

GK_CLONES static void add_block(float *restrict mean, float *restrict paid,
                                const float *restrict row, float x, float cost)
{
    add_row(mean, row, x);
    add_row(paid, row, cost);
}

static void solve_block(struct pool *pool, const struct gauss *gauss,
                        const struct pool_source *source, const uint32_t *slots, uint32_t count)
{
    uint8_t digits[GK_PARAMS_MAX * BLOCK] = {0};
    float mean[BLOCK] = {0}, paid[BLOCK] = {0}, left[BLOCK] = {0}, passed[BLOCK] = {0};
    float failed[BLOCK] = {0};
    gather(pool, gauss, slots, count, digits);
    for (uint32_t i = 0; i < count; i++) {
        const struct gauss_point *point = &pool->points[slots[i]];
        left[i] = has_extras(point) ? 1 + (float)gauss_extras(point, point) : 1;
    }
    for (uint32_t k = 0; k < gauss->count; k++) {
        float *row = pool->block + (size_t)k * BLOCK;
        const float *factors = gauss->lower + (size_t)k * gauss->stride;
        likeness_block(gauss, &source->points[k], digits, BLOCK, row);
        if (source->ok[k]) {
            add_nearness(passed, row);
        }
        add_extras(pool, &source->points[k], slots, 0, count, row);
        subtract_rows(row, pool->block, BLOCK, factors, k);
        finish_row(row, left, 1 / factors[k]);
        add_block(mean, paid, row, (float)source->x[k], (float)source->cost[k]);
        for (uint32_t i = 0; i < count; i++) {
            pool->v[(size_t)k * pool->stride + slots[i]] = row[i];
        }
    }
    for (uint32_t k = 0; k < source->failed_count; k++) {
        float likeness[BLOCK];
        likeness_block(gauss, &source->failed[k], digits, BLOCK, likeness);
        add_nearness(failed, likeness);
    }
    for (uint32_t i = 0; i < count; i++) {
        pool->left[slots[i]] = left[i];
        pool->mean[slots[i]] = mean[i];
        pool->cost[slots[i]] = paid[i];
        pool->passed[slots[i]] = passed[i];
        pool->failed[slots[i]] = failed[i];
    }
}

void pool_solve(struct pool *pool, const struct gauss *gauss, const struct pool_source *source,
                const uint32_t *slots, uint32_t count)
{
    for (uint32_t at = 0; at < count; at += BLOCK) {
        solve_block(pool, gauss, source, slots + at, count - at < BLOCK ? count - at : BLOCK);
    }
    pool->rows = gauss->count;
}

void pool_solve_all(struct pool *pool, const struct gauss *gauss, const struct pool_source *source)
{
    uint32_t slots[BLOCK];
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        uint32_t count = pool->count - at < BLOCK ? pool->count - at : BLOCK;
        for (uint32_t i = 0; i < count; i++) {
            slots[i] = at + i; /* free ones too: their rows are kept like all */
        }
        solve_block(pool, gauss, source, slots, count);
    }
    pool->rows = gauss->count;
}

void pool_means(struct pool *pool, const double *x, const double *cost)
{
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        float mean[BLOCK] = {0}, paid[BLOCK] = {0};
        for (uint32_t k = 0; k < pool->rows; k++) {
            add_block(mean, paid, pool->v + (size_t)k * pool->stride + at, (float)x[k],
                      (float)cost[k]);
        }
        memcpy(pool->mean + at, mean, sizeof mean);
        memcpy(pool->cost + at, paid, sizeof paid);
    }
}

void pool_told(struct pool *pool, const struct gauss *gauss, const struct gauss_point *point,
               bool ok)
{
    float likeness[BLOCK];
    float *sums = ok ? pool->passed : pool->failed;
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        likeness_block(gauss, point, pool->digits + at, pool->stride, likeness);
        add_nearness(sums + at, likeness);
    }
}

void pool_put(struct pool *pool, const struct gauss *gauss, uint32_t slot, uint32_t index,
              const struct gauss_point *point)
{
    pool->index[slot] = index;
    pool->points[slot] = *point;
    pool_score(pool, slot, INFINITY);
    uint8_t digits[GK_PARAMS_MAX];
    gauss_group_digits(gauss, point->digits, digits);
    for (uint32_t group = 0; group < gauss->groups.count; group++) {
        pool->digits[(size_t)group * pool->stride + slot] = digits[group];
    }
}

void pool_clear(struct pool *pool, uint32_t slot)
{
    pool->index[slot] = POOL_NONE;
    pool_score(pool, slot, -INFINITY);
}

void pool_score(struct pool *pool, uint32_t slot, double score)
{
    pool->score[slot] = score;
    pool->top[slot / BLOCK] = POOL_NONE;
}

static uint32_t top_of_block(const struct pool *pool, uint32_t at)
{
    uint32_t end = pool->count - at < BLOCK ? pool->count : at + BLOCK, best = at;
    for (uint32_t i = at + 1; i < end; i++) {
        best = pool->score[i] > pool->score[best] ? i : best;
    }
    return best;
}

uint32_t pool_top(const struct pool *pool)
{
    uint32_t best = 0;
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        uint32_t *top = &pool->top[at / BLOCK];
        if (*top == POOL_NONE) {
            *top = top_of_block(pool, at);
        }
        best = pool->score[*top] > pool->score[best] ? *top : best;
    }
    return best;
}
