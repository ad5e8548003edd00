/* The candidates of a model. See candidates.h. */
#include "search/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64 /* candidates solved together */

enum gk_status pool_init(struct pool *pool, uint32_t capacity, struct gk_err *err)
{
    memset(pool, 0, sizeof *pool);
    pool->capacity = capacity;
    size_t n = capacity;
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
    if (!pool->index || !pool->digits || !pool->points || !pool->left || !pool->mean ||
        !pool->cost || !pool->failed || !pool->passed || !pool->block || !pool->score ||
        !pool->stamp) {
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
    float *v = realloc(pool->v, (size_t)wanted * pool->capacity * sizeof v[0]);
    if (!v) {
        return gk_fail(err, GK_NOMEM, "no memory for %u points of a model", wanted);
    }
    pool->v = v;
    pool->row_capacity = wanted;
    return GK_OK;
}

size_t pool_bytes(const struct pool *pool)
{
    size_t each = sizeof pool->index[0] + GK_PARAMS_MAX + sizeof pool->points[0] +
                  5 * sizeof(float) + sizeof pool->score[0] + sizeof pool->stamp[0] +
                  pool->row_capacity * sizeof pool->v[0];
    return each * pool->capacity + GAUSS_POINTS_MAX * BLOCK * sizeof pool->block[0];
}

/* ------------------------------------------------------------------ kernels of many */

/* e^-x for x >= 0, to seven digits: in plain arithmetic, so that the compiler takes it eight or
 * four at a time and every machine gets the same bits. */
static inline float falling_exp(float x)
{
    x = x > 80 ? 80 : x;
    float halves = -x * 1.44269504f;
    int whole = (int)(halves - 0.5f); /* towards zero, so the rest is within a half */
    float rest = (halves - (float)whole) * 0.693147181f;
    float sum =
        1 + rest * (1 + rest * (0.5f +
                                rest * (0.166666667f +
                                        rest * (0.0416666667f +
                                                rest * (0.00833333333f + rest * 0.00138888889f)))));
    union {
        uint32_t bits;
        float value;
    } power = {.bits = (uint32_t)(whole + 127) << 23};
    return sum * power.value;
}

/* likeness[i] of `point` to count <= BLOCK candidates, whose digits lie axis after axis, `stride`
 * apart. */
static void likeness_block(const struct gauss *gauss, const struct gauss_point *point,
                           const uint8_t *digits, size_t stride, uint32_t count,
                           float *restrict likeness)
{
    float square[BLOCK] = {0}, jump[BLOCK] = {0};
    for (uint32_t axis = 0; axis < gauss->axes.count; axis++, digits += stride) {
        const float *pairs = gauss->tables + 2 * ((size_t)gauss->offset[axis] +
                                                  point->digits[axis] * gauss->axes.values[axis]);
        for (uint32_t i = 0; i < count; i++) {
            square[i] += pairs[2 * digits[i]];
            jump[i] += pairs[2 * digits[i] + 1];
        }
    }
    for (uint32_t i = 0; i < BLOCK; i++) {
        float r = sqrtf(5 * square[i]);
        likeness[i] = (1 + r + r * r / 3) * falling_exp(r + jump[i]);
    }
}

/* The digits of some slots, side by side as likeness_block wants them. */
static void gather(const struct pool *pool, const struct gauss *gauss, const uint32_t *slots,
                   uint32_t count, uint8_t out[GK_PARAMS_MAX * BLOCK])
{
    for (uint32_t axis = 0; axis < gauss->axes.count; axis++) {
        const uint8_t *digits = pool->digits + (size_t)axis * pool->capacity;
        for (uint32_t i = 0; i < count; i++) {
            out[axis * BLOCK + i] = digits[slots[i]];
        }
    }
}

static double extras_of(const struct gauss *gauss, const struct gauss_point *a,
                        const struct gauss_point *b)
{
    return gauss_kernel(gauss, a, b) - gauss_likeness(gauss, a, b);
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
static void add_extras(const struct pool *pool, const struct gauss *gauss,
                       const struct gauss_point *point, const uint32_t *slots, uint32_t at,
                       uint32_t count, float *restrict kernel)
{
    for (uint32_t i = 0; has_extras(point) && i < count; i++) {
        kernel[i] += (float)extras_of(gauss, point, &pool->points[slots ? slots[i] : at + i]);
    }
}

static void subtract_row(float *restrict to, const float *restrict from, float factor,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] -= factor * from[i];
    }
}

/* ------------------------------------------------------------------ operations */

void pool_append(struct pool *pool, const struct gauss *gauss, const struct gauss_point *points)
{
    GK_ASSERT(gauss->count == pool->rows + 1 && gauss->count <= pool->row_capacity);
    uint32_t last = pool->rows++;
    float *row = pool->v + (size_t)last * pool->capacity;
    const double *column = gauss->upper + last;
    float kernel[BLOCK];
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        uint32_t count = pool->count - at < BLOCK ? pool->count - at : BLOCK;
        likeness_block(gauss, &points[last], pool->digits + at, pool->capacity, count, kernel);
        add_extras(pool, gauss, &points[last], NULL, at, count, kernel);
        memcpy(row + at, kernel, count * sizeof kernel[0]);
    }
    for (uint32_t k = 0; k < last; k++) {
        subtract_row(row, pool->v + (size_t)k * pool->capacity,
                     (float)column[(size_t)k * gauss->stride], pool->count);
    }
    float pivot = 1 / (float)column[(size_t)last * gauss->stride];
    for (uint32_t i = 0; i < pool->count; i++) {
        row[i] *= pivot;
        pool->left[i] -= row[i] * row[i];
    }
}

/* Likeness to a config that failed or passed: they reach less far than times do. */
static inline float nearness(float likeness)
{
    return likeness * likeness * likeness;
}

static void solve_block(struct pool *pool, const struct gauss *gauss,
                        const struct pool_source *source, const uint32_t *slots, uint32_t count)
{
    uint8_t digits[GK_PARAMS_MAX * BLOCK] = {0};
    float mean[BLOCK] = {0}, paid[BLOCK] = {0}, left[BLOCK] = {0}, passed[BLOCK] = {0};
    gather(pool, gauss, slots, count, digits);
    for (uint32_t i = 0; i < count; i++) {
        const struct gauss_point *point = &pool->points[slots[i]];
        left[i] = has_extras(point) ? (float)gauss_kernel(gauss, point, point) : 1;
    }
    for (uint32_t k = 0; k < gauss->count; k++) {
        float *row = pool->block + (size_t)k * BLOCK;
        const double *column = gauss->upper + k;
        likeness_block(gauss, &source->points[k], digits, BLOCK, count, row);
        for (uint32_t i = 0; source->ok[k] && i < BLOCK; i++) {
            passed[i] += nearness(row[i]);
        }
        add_extras(pool, gauss, &source->points[k], slots, 0, count, row);
        for (uint32_t p = 0; p < k; p++) {
            subtract_row(row, pool->block + (size_t)p * BLOCK,
                         (float)column[(size_t)p * gauss->stride], BLOCK);
        }
        float pivot = 1 / (float)column[(size_t)k * gauss->stride];
        for (uint32_t i = 0; i < BLOCK; i++) {
            row[i] *= pivot;
            left[i] -= row[i] * row[i];
            mean[i] += (float)source->x[k] * row[i];
            paid[i] += (float)source->cost[k] * row[i];
        }
        for (uint32_t i = 0; i < count; i++) {
            pool->v[(size_t)k * pool->capacity + slots[i]] = row[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        pool->left[slots[i]] = left[i];
        pool->mean[slots[i]] = mean[i];
        pool->cost[slots[i]] = paid[i];
        pool->passed[slots[i]] = passed[i];
        pool->failed[slots[i]] = 0;
    }
    for (uint32_t k = 0; k < source->failed_count; k++) {
        float likeness[BLOCK];
        likeness_block(gauss, &source->failed[k], digits, BLOCK, count, likeness);
        for (uint32_t i = 0; i < count; i++) {
            pool->failed[slots[i]] += nearness(likeness[i]);
        }
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
    memset(pool->mean, 0, pool->count * sizeof pool->mean[0]);
    memset(pool->cost, 0, pool->count * sizeof pool->cost[0]);
    for (uint32_t k = 0; k < pool->rows; k++) {
        const float *row = pool->v + (size_t)k * pool->capacity;
        subtract_row(pool->mean, row, -(float)x[k], pool->count);
        subtract_row(pool->cost, row, -(float)cost[k], pool->count);
    }
}

void pool_told(struct pool *pool, const struct gauss *gauss, const struct gauss_point *point,
               bool ok)
{
    float likeness[BLOCK];
    float *sums = ok ? pool->passed : pool->failed;
    for (uint32_t at = 0; at < pool->count; at += BLOCK) {
        uint32_t count = pool->count - at < BLOCK ? pool->count - at : BLOCK;
        likeness_block(gauss, point, pool->digits + at, pool->capacity, count, likeness);
        for (uint32_t i = 0; i < count; i++) {
            sums[at + i] += nearness(likeness[i]);
        }
    }
}

void pool_put(struct pool *pool, const struct gauss *gauss, uint32_t slot, uint32_t index,
              const struct gauss_point *point)
{
    pool->index[slot] = index;
    pool->points[slot] = *point;
    pool->score[slot] = INFINITY;
    for (uint32_t axis = 0; axis < gauss->axes.count; axis++) {
        pool->digits[(size_t)axis * pool->capacity + slot] = point->digits[axis];
    }
}

void pool_clear(struct pool *pool, uint32_t slot)
{
    pool->index[slot] = POOL_NONE;
    pool->score[slot] = -INFINITY;
}
