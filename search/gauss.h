/*
 * A Gaussian process over the configs of one tree: how alike two configs are, and what told times
 * say about the others. Inside search/ only. Numerics alone: no I/O, no clock, no randomness of its
 * own; the same calls give the same bits.
 *
 * Likeness falls with the distance along each parameter (its values on a scale from 0 to 1, in
 * logarithms where all are positive) and by a step for any difference at all, since a kernel often
 * has one value that is unlike its neighbours. How fast, per parameter, is learnt from the times:
 * the scales of greatest likelihood under a prior that keeps them sane when little is known.
 * A Gaussian process and not a forest of trees: with 50 to 400 times of some thousand configs it
 * finds near-best configs in about half as many trials (docs/results/search.md). Its cost grows
 * with the cube of the points, so a model holds GAUSS_POINTS_MAX at the most.
 */
#ifndef GK_SEARCH_GAUSS_H
#define GK_SEARCH_GAUSS_H

#include "core/prng.h"
#include "search/space.h"

#define GAUSS_POINTS_MAX 256
#define GAUSS_GROUP_MAX  128
#define GAUSS_EXTRAS     2 /* features of a config beside its parameters, as strategy_extras() */

struct gauss_axes {
    uint32_t count;                 /* parameters with more than one value */
    uint32_t params[GK_PARAMS_MAX]; /* which ones, in the tree's order */
    uint32_t values[GK_PARAMS_MAX]; /* how many values */
    bool ordered[GK_PARAMS_MAX];    /* false: an enum, whose values are only same or different */
    float at[GK_PARAMS_MAX][GK_PARAM_VALUES_MAX]; /* place of each value, 0 .. 1 */
};

struct gauss_point {
    uint8_t digits[GK_PARAMS_MAX]; /* by axis */
    float extras[GAUSS_EXTRAS];    /* enter linearly; 0: says nothing */
};

/* Axes taken together, so that one look finds the unlikeness along several: a group's digit counts
 * through those of its axes, the first fastest. */
struct gauss_groups {
    uint32_t count;
    uint32_t end[GK_PARAMS_MAX];    /* axis behind the group's last */
    uint32_t values[GK_PARAMS_MAX]; /* of its digit, GAUSS_GROUP_MAX at the most */
    size_t offset[GK_PARAMS_MAX];   /* of its table, in pairs */
};

struct gauss_scales {
    double reach[GK_PARAMS_MAX]; /* by axis: unlikeness per length, squared and summed */
    double jump[GK_PARAMS_MAX];  /* by axis: unlikeness of two different values */
    double noise;                /* variance of one whole measurement; that of the process is 1 */
};

struct gauss {
    struct gauss_axes axes;
    struct gauss_scales scales;
    struct gauss_groups groups;
    float *grouped;                 /* per group values x values pairs {squared distance, jump} */
    float *tables;                  /* the same per axis */
    uint32_t offset[GK_PARAMS_MAX]; /* of each axis, in pairs */
    double *upper;                  /* U of K = U'U: `stride` a row */
    double *work;                   /* as large: the fit's matrix */
    float *lower;                   /* U' again, rows of `stride`: what candidates are solved by */
    uint32_t stride, count;         /* points room is for; points in U */
};

void gauss_axes_init(struct gauss_axes *axes, const struct gk_tree *tree);
void gauss_digits(const struct gauss_axes *axes, const uint8_t *digits, uint8_t *out);

/* The digits of a point by group. */
void gauss_group_digits(const struct gauss *gauss, const uint8_t *digits, uint8_t *out);

/* GK_NOMEM. The caller calls fini in any case. */
enum gk_status gauss_init(struct gauss *gauss, const struct gk_tree *tree, struct gk_err *err);
void gauss_fini(struct gauss *gauss);
/* Makes room for `points` points, GAUSS_POINTS_MAX at the most; what is in U stays. */
enum gk_status gauss_reserve(struct gauss *gauss, uint32_t points, struct gk_err *err);

double gauss_kernel(const struct gauss *gauss, const struct gauss_point *a,
                    const struct gauss_point *b);
/* Without the extras: 1 for the same config. */
double gauss_likeness(const struct gauss *gauss, const struct gauss_point *a,
                      const struct gauss_point *b);

/* And the extras' part of it. */
double gauss_extras(const struct gauss_point *a, const struct gauss_point *b);

/* Looks `tries` times for better scales of these points. weights[i]: noise of value i in units of
 * one whole measurement's. */
void gauss_fit(struct gauss *gauss, const struct gauss_point *points, const double *values,
               const double *weights, uint32_t count, uint32_t tries, struct gk_prng *prng);
/* U of these points; count <= stride. */
void gauss_factor(struct gauss *gauss, const struct gauss_point *points, const double *weights,
                  uint32_t count);
/* Adds one point behind those in U, `points` being the old ones. */
void gauss_append(struct gauss *gauss, const struct gauss_point *points,
                  const struct gauss_point *point, double weight);
/* One step of solving U'x = values: x[i], given x[0 .. i-1]. */
double gauss_solve_step(const struct gauss *gauss, const double *x, uint32_t i, double value);
/* Solves U x = b in place. */
void gauss_solve_back(const struct gauss *gauss, double *x);

#endif
