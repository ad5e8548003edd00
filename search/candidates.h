/*
 * The candidates that a model has in view: what it believes of each and how sure it is. Inside
 * search/ only.
 *
 * A space can hold a million configs, a model looks at some hundred. For each the pool keeps the
 * solved column v of U'v = k(points, candidate), so that one more point costs one row for all
 * candidates and not a new solution: an ask stays below 10 ms whatever the space. Rows lie side by
 * side over the candidates, for the sake of vector units. Fixed memory: about 1.1 KB a candidate.
 */
#ifndef GK_SEARCH_CANDIDATES_H
#define GK_SEARCH_CANDIDATES_H

#include "search/gauss.h"

#define POOL_NONE UINT32_MAX

struct pool {
    uint32_t capacity, count; /* slots; slots ever used: those behind are untouched */
    uint32_t stride;          /* capacity in whole blocks: how far rows lie apart */
    uint32_t rows;            /* points in v, = gauss->count once pool_append was called */
    uint32_t row_capacity;
    uint32_t *index; /* by slot; POOL_NONE: the slot is free */
    struct gauss_point *points;
    uint8_t *digits; /* of the points again, by group of axes, group after group */
    float *v;        /* rows x stride */
    float *left;     /* variance that no point explains, of the process's 1 */
    float *mean;     /* standardised logarithm of the time */
    float *cost;     /* logarithm of the cost, off its mean */
    float *failed;   /* likeness to configs that failed, summed */
    float *passed;   /* and to those that did not */
    float *block;    /* room to solve some candidates side by side */
    double *score;   /* the last one; an upper bound while no tell comes in;
                        -INFINITY: the slot is free */
    uint32_t *stamp; /* of the score */
    uint32_t *top;   /* by block: the slot of its greatest score; POOL_NONE: not known */
};

enum gk_status pool_init(struct pool *pool, uint32_t capacity, struct gk_err *err);
void pool_fini(struct pool *pool);
/* Room for so many points. */
enum gk_status pool_reserve(struct pool *pool, uint32_t rows, struct gk_err *err);
size_t pool_bytes(const struct pool *pool);

/* This config takes the slot, which was free: solve it next. */
void pool_put(struct pool *pool, const struct gauss *gauss, uint32_t slot, uint32_t index,
              const struct gauss_point *point);
void pool_clear(struct pool *pool, uint32_t slot); /* and leaves it */

void pool_score(struct pool *pool, uint32_t slot, double score); /* the only way scores are set */
uint32_t pool_top(const struct pool *pool); /* slot of the greatest; of several, the first */

/* What candidates are solved from. */
struct pool_source {
    const struct gauss_point *points; /* those in U */
    const bool *ok;                   /* which of them have a time */
    const double *x, *cost;           /* U'^-1 of the targets and of the costs */
    const struct gauss_point *failed;
    uint32_t failed_count;
};
/* These slots, or all of them, anew. */
void pool_solve(struct pool *pool, const struct gauss *gauss, const struct pool_source *source,
                const uint32_t *slots, uint32_t count);
void pool_solve_all(struct pool *pool, const struct gauss *gauss, const struct pool_source *source);
/* The last point of `gauss` enters all candidates. points: all of them. */
void pool_append(struct pool *pool, const struct gauss *gauss, const struct gauss_point *points);
/* Means of all candidates from x = U'^-1 targets and the same of costs. */
void pool_means(struct pool *pool, const double *x, const double *cost);
/* Adds the likeness of one told config to all candidates. */
void pool_told(struct pool *pool, const struct gauss *gauss, const struct gauss_point *point,
               bool ok);

#endif
