/* The Gaussian process of a tree. See gauss.h. */
#include "search/gauss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/lanes.h"

#define REACH_USUAL  1.0 /* a step through the whole range makes about half as alike */
#define JUMP_USUAL   0.1
#define NOISE_USUAL  0.01
#define NOISE_MIN    1e-4
#define SCALE_SPREAD 1.2 /* of the prior of each scale's logarithm */
#define NOISE_SPREAD 1.5
#define STEP_SCALES  0.8 /* of one try of the fit, in logarithms */
#define STEP_ALL     0.7

static const double extra_weights[GAUSS_EXTRAS] = {1.0, 0.5};

/* ------------------------------------------------------------------ axes */

void gauss_axes_init(struct gauss_axes *axes, const struct gk_tree *tree)
{
    memset(axes, 0, sizeof *axes);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        const struct gk_param *param = &tree->params[i];
        if (param->value_count < 2) {
            continue;
        }
        uint32_t axis = axes->count++;
        double low = INFINITY, high = -INFINITY, places[GK_PARAM_VALUES_MAX];
        bool positive = true;
        for (uint32_t k = 0; k < param->value_count; k++) {
            positive = positive && param->values[k] > 0;
        }
        for (uint32_t k = 0; k < param->value_count; k++) {
            double value = (double)param->values[k];
            places[k] = positive ? log(value) : value;
            low = fmin(low, places[k]);
            high = fmax(high, places[k]);
        }
        for (uint32_t k = 0; k < param->value_count; k++) {
            axes->at[axis][k] = high > low ? (float)((places[k] - low) / (high - low)) : 0;
        }
        axes->params[axis] = i;
        axes->values[axis] = param->value_count;
        axes->ordered[axis] = !param->names;
    }
}

void gauss_digits(const struct gauss_axes *axes, const uint8_t *digits, uint8_t *out)
{
    memset(out, 0, GK_PARAMS_MAX);
    for (uint32_t i = 0; i < axes->count; i++) {
        out[i] = digits[axes->params[i]];
    }
}

/* ------------------------------------------------------------------ kernel */

static void fill_tables(struct gauss *gauss, const struct gauss_scales *scales)
{
    const struct gauss_axes *axes = &gauss->axes;
    for (uint32_t i = 0; i < axes->count; i++) {
        float *pair = gauss->tables + 2 * (size_t)gauss->offset[i];
        for (uint32_t a = 0; a < axes->values[i]; a++) {
            for (uint32_t b = 0; b < axes->values[i]; b++, pair += 2) {
                double apart = axes->ordered[i] ? axes->at[i][a] - axes->at[i][b] : a != b;
                apart *= scales->reach[i];
                pair[0] = (float)(apart * apart);
                pair[1] = a == b ? 0 : (float)scales->jump[i];
            }
        }
    }
}

/* A group's row for one digit is the outer sum of its axes' rows. */
static void fill_row(const struct gauss *gauss, uint32_t from, uint32_t end, uint32_t digit,
                     float *row)
{
    uint32_t size = 1;
    row[0] = 0;
    row[1] = 0;
    for (uint32_t axis = from; axis < end; axis++) {
        uint32_t values = gauss->axes.values[axis];
        const float *pairs =
            gauss->tables + 2 * ((size_t)gauss->offset[axis] + (size_t)(digit % values) * values);
        digit /= values;
        for (uint32_t b = values; b-- > 0;) { /* the first copy is read by all and made last */
            for (uint32_t i = 0; i < size; i++) {
                row[2 * (b * size + i)] = row[2 * i] + pairs[2 * b];
                row[2 * (b * size + i) + 1] = row[2 * i + 1] + pairs[2 * b + 1];
            }
        }
        size *= values;
    }
}

static void fill_grouped(struct gauss *gauss)
{
    uint32_t from = 0;
    for (uint32_t i = 0; i < gauss->groups.count; i++) {
        uint32_t values = gauss->groups.values[i];
        for (uint32_t digit = 0; digit < values; digit++) {
            fill_row(gauss, from, gauss->groups.end[i], digit,
                     gauss->grouped + 2 * (gauss->groups.offset[i] + (size_t)digit * values));
        }
        from = gauss->groups.end[i];
    }
}

void gauss_group_digits(const struct gauss *gauss, const uint8_t *digits, uint8_t *out)
{
    uint32_t axis = 0;
    for (uint32_t i = 0; i < gauss->groups.count; i++) {
        uint32_t digit = 0, factor = 1;
        for (; axis < gauss->groups.end[i]; axis++) {
            digit += digits[axis] * factor;
            factor *= gauss->axes.values[axis];
        }
        out[i] = (uint8_t)digit;
    }
}

double gauss_likeness(const struct gauss *gauss, const struct gauss_point *a,
                      const struct gauss_point *b)
{
    float square = 0, jump = 0;
    for (uint32_t i = 0; i < gauss->axes.count; i++) {
        const float *pair =
            gauss->tables +
            2 * ((size_t)gauss->offset[i] + a->digits[i] * gauss->axes.values[i] + b->digits[i]);
        square += pair[0];
        jump += pair[1];
    }
    float r = sqrtf(5 * square); /* Matern 5/2: rough enough for times, smooth enough to lead */
    return (double)((1 + r + r * r / 3) * expf(-r - jump));
}

double gauss_extras(const struct gauss_point *a, const struct gauss_point *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < GAUSS_EXTRAS; i++) {
        sum += extra_weights[i] * (double)(a->extras[i] * b->extras[i]);
    }
    return sum;
}

double gauss_kernel(const struct gauss *gauss, const struct gauss_point *a,
                    const struct gauss_point *b)
{
    return gauss_likeness(gauss, a, b) + gauss_extras(a, b);
}

/* ------------------------------------------------------------------ life cycle */

/* Neighbouring axes while their values together are few; returns how many pairs all tables have. */
static size_t make_groups(struct gauss *gauss)
{
    struct gauss_groups *groups = &gauss->groups;
    size_t pairs = 0;
    for (uint32_t axis = 0; axis < gauss->axes.count;) {
        uint32_t values = gauss->axes.values[axis++];
        while (axis < gauss->axes.count && values * gauss->axes.values[axis] <= GAUSS_GROUP_MAX) {
            values *= gauss->axes.values[axis++];
        }
        groups->end[groups->count] = axis;
        groups->values[groups->count] = values;
        groups->offset[groups->count++] = pairs;
        pairs += (size_t)values * values;
    }
    return pairs;
}

enum gk_status gauss_init(struct gauss *gauss, const struct gk_tree *tree, struct gk_err *err)
{
    memset(gauss, 0, sizeof *gauss);
    gauss_axes_init(&gauss->axes, tree);
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < gauss->axes.count; i++) {
        gauss->offset[i] = pairs;
        pairs += gauss->axes.values[i] * gauss->axes.values[i];
        gauss->scales.reach[i] = REACH_USUAL;
        gauss->scales.jump[i] = JUMP_USUAL;
    }
    gauss->scales.noise = NOISE_USUAL;
    gauss->tables = calloc((size_t)pairs + 1, 2 * sizeof gauss->tables[0]);
    gauss->grouped = calloc(make_groups(gauss) + 1, 2 * sizeof gauss->grouped[0]);
    if (!gauss->tables || !gauss->grouped) {
        return gk_fail(err, GK_NOMEM, "no memory for a model of %s", tree->template_name);
    }
    fill_tables(gauss, &gauss->scales);
    fill_grouped(gauss);
    return GK_OK;
}

void gauss_fini(struct gauss *gauss)
{
    free(gauss->tables);
    free(gauss->grouped);
    free(gauss->lower);
    free(gauss->upper);
    free(gauss->work);
    memset(gauss, 0, sizeof *gauss);
}

enum gk_status gauss_reserve(struct gauss *gauss, uint32_t points, struct gk_err *err)
{
    GK_ASSERT(points <= GAUSS_POINTS_MAX);
    if (points <= gauss->stride) {
        return GK_OK;
    }
    uint32_t stride = points <= GAUSS_POINTS_MAX / 4 ? GAUSS_POINTS_MAX / 4 : GAUSS_POINTS_MAX;
    double *upper = calloc((size_t)stride * stride, sizeof upper[0]);
    double *work = calloc((size_t)stride * stride, sizeof work[0]);
    float *lower = calloc((size_t)stride * stride, sizeof lower[0]);
    if (!upper || !work || !lower) {
        free(lower);
        free(upper);
        free(work);
        return gk_fail(err, GK_NOMEM, "no memory for a model of %u points", stride);
    }
    for (uint32_t i = 0; i < gauss->count; i++) {
        memcpy(upper + (size_t)i * stride, gauss->upper + (size_t)i * gauss->stride,
               gauss->count * sizeof upper[0]);
        memcpy(lower + (size_t)i * stride, gauss->lower + (size_t)i * gauss->stride,
               gauss->count * sizeof lower[0]);
    }
    free(gauss->lower);
    gauss->lower = lower;
    free(gauss->upper);
    free(gauss->work);
    gauss->upper = upper;
    gauss->work = work;
    gauss->stride = stride;
    return GK_OK;
}

/* ------------------------------------------------------------------ algebra */

/* to[i] -= factor * from[i]. Both rows of one matrix, never the same row. */
static inline void subtract(double *restrict to, const double *restrict from, double factor,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] -= factor * from[i];
    }
}

static void fill_matrix(const struct gauss *gauss, const struct gauss_point *points,
                        const double *weights, double noise, double *matrix, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double *row = matrix + (size_t)i * gauss->stride;
        for (uint32_t k = i; k < count; k++) {
            row[k] = gauss_kernel(gauss, &points[i], &points[k]);
        }
        row[i] += noise * weights[i];
    }
}

/* In place; only the upper half is read and written. The noise on the diagonal keeps it positive:
 * a pivot below its floor is rounding and is lifted. */
GK_CLONES static void cholesky(double *matrix, uint32_t stride, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        double *row = matrix + (size_t)i * stride;
        double pivot = sqrt(fmax(row[i], NOISE_MIN * 0.01));
        row[i] = pivot;
        for (uint32_t k = i + 1; k < count; k++) {
            row[k] /= pivot;
        }
        for (uint32_t k = i + 1; k < count; k++) {
            subtract(matrix + (size_t)k * stride + k, row + k, row[k], count - k);
        }
    }
}

void gauss_factor(struct gauss *gauss, const struct gauss_point *points, const double *weights,
                  uint32_t count)
{
    GK_ASSERT(count <= gauss->stride);
    fill_matrix(gauss, points, weights, gauss->scales.noise, gauss->upper, count);
    cholesky(gauss->upper, gauss->stride, count);
    gauss->count = count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = i; k < count; k++) {
            gauss->lower[(size_t)k * gauss->stride + i] =
                (float)gauss->upper[(size_t)i * gauss->stride + k];
        }
    }
}

GK_CLONES void gauss_append(struct gauss *gauss, const struct gauss_point *points,
                            const struct gauss_point *point, double weight)
{
    GK_ASSERT(gauss->count < gauss->stride);
    uint32_t last = gauss->count;
    double column[GAUSS_POINTS_MAX];
    double rest = gauss_kernel(gauss, point, point) + gauss->scales.noise * weight;
    for (uint32_t i = 0; i < last; i++) {
        column[i] = gauss_kernel(gauss, &points[i], point);
    }
    for (uint32_t i = 0; i < last; i++) {
        double *row = gauss->upper + (size_t)i * gauss->stride;
        column[i] /= row[i];
        subtract(column + i + 1, row + i + 1, column[i], last - i - 1);
        row[last] = column[i];
        gauss->lower[(size_t)last * gauss->stride + i] = (float)column[i];
        rest -= column[i] * column[i];
    }
    rest = sqrt(fmax(rest, NOISE_MIN * 0.01));
    gauss->upper[(size_t)last * gauss->stride + last] = rest;
    gauss->lower[(size_t)last * gauss->stride + last] = (float)rest;
    gauss->count = last + 1;
}

double gauss_solve_step(const struct gauss *gauss, const double *x, uint32_t i, double value)
{
    const double *column = gauss->upper + i;
    for (uint32_t k = 0; k < i; k++) {
        value -= column[(size_t)k * gauss->stride] * x[k];
    }
    return value / column[(size_t)i * gauss->stride];
}

void gauss_solve_back(const struct gauss *gauss, double *x)
{
    for (uint32_t i = gauss->count; i-- > 0;) {
        const double *row = gauss->upper + (size_t)i * gauss->stride;
        for (uint32_t k = i + 1; k < gauss->count; k++) {
            x[i] -= row[k] * x[k];
        }
        x[i] /= row[i];
    }
}

/* ------------------------------------------------------------------ fit */

static double log_ratio(double value, double usual, double spread)
{
    double z = log(value / usual) / spread;
    return -0.5 * z * z;
}

/* Logarithm of the likelihood of the values, with the process's variance at its best, times the
 * prior of the scales; up to a constant. Leaves the tables of these scales behind. */
static double merit(struct gauss *gauss, const struct gauss_scales *scales,
                    const struct gauss_point *points, const double *values, const double *weights,
                    uint32_t count)
{
    double x[GAUSS_POINTS_MAX], squares = 0, logs = 0, prior;
    fill_tables(gauss, scales);
    fill_matrix(gauss, points, weights, scales->noise, gauss->work, count);
    cholesky(gauss->work, gauss->stride, count);
    memcpy(x, values, count * sizeof x[0]);
    for (uint32_t i = 0; i < count; i++) {
        const double *row = gauss->work + (size_t)i * gauss->stride;
        x[i] /= row[i];
        subtract(x + i + 1, row + i + 1, x[i], count - i - 1);
        squares += x[i] * x[i];
        logs += log(row[i]);
    }
    prior = log_ratio(scales->noise, NOISE_USUAL, NOISE_SPREAD);
    for (uint32_t i = 0; i < gauss->axes.count; i++) {
        prior += log_ratio(scales->reach[i], REACH_USUAL, SCALE_SPREAD) +
                 log_ratio(scales->jump[i], JUMP_USUAL, SCALE_SPREAD);
    }
    return prior - logs - 0.5 * count * log((squares + 1) / (count + 1.0));
}

/* About normal, by the sum of four. */
static double draw_normal(struct gk_prng *prng)
{
    double sum = -2;
    for (int i = 0; i < 4; i++) {
        sum += gk_prng_unit(prng);
    }
    return sum * 1.7320508;
}

/* Every eighth try moves all reaches together, the others one to three scales. */
static struct gauss_scales propose(const struct gauss *gauss, uint32_t number, struct gk_prng *prng)
{
    struct gauss_scales scales = gauss->scales;
    uint32_t axes = gauss->axes.count;
    if (number % 8 == 7) {
        double factor = exp(STEP_ALL * draw_normal(prng));
        for (uint32_t i = 0; i < axes; i++) {
            scales.reach[i] *= factor;
        }
        return scales;
    }
    for (uint64_t moves = 1 + gk_prng_below(prng, 3); moves > 0; moves--) {
        uint64_t which = gk_prng_below(prng, 2 * axes + 1);
        double *scale = which < axes       ? &scales.reach[which]
                        : which < 2 * axes ? &scales.jump[which - axes]
                                           : &scales.noise;
        *scale *= exp(STEP_SCALES * draw_normal(prng));
    }
    scales.noise = fmax(scales.noise, NOISE_MIN);
    return scales;
}

void gauss_fit(struct gauss *gauss, const struct gauss_point *points, const double *values,
               const double *weights, uint32_t count, uint32_t tries, struct gk_prng *prng)
{
    GK_ASSERT(count <= gauss->stride);
    double best = merit(gauss, &gauss->scales, points, values, weights, count);
    for (uint32_t i = 0; i < tries; i++) {
        struct gauss_scales scales = propose(gauss, i, prng);
        double now = merit(gauss, &scales, points, values, weights, count);
        if (now > best) {
            best = now;
            gauss->scales = scales;
        }
    }
    fill_tables(gauss, &gauss->scales);
    fill_grouped(gauss);
}
