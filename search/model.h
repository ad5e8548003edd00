/*
 * What a search believes of one tree: times, costs and failures of configs that nobody tried yet.
 * Inside search/ only.
 *
 * A model is told every result of its tree and keeps the points that matter in a Gaussian process
 * (gauss.h): all of them up to some hundred, then the best and a random part of the others. It
 * keeps candidates in view (candidates.h), brings new ones in with each ask, and ranks them by
 * expected improvement, chance to work at all, and cost. A config that is on its way counts as
 * measured at what is believed of it, so that a batch does not crowd around one place.
 *
 * A time of one sample counts less than a whole measurement: it enters with more noise, and what is
 * believed of it and not what was told makes it a centre or the best.
 */
#ifndef GK_SEARCH_MODEL_H
#define GK_SEARCH_MODEL_H

#include "search/candidates.h"
#include "search/strategy_base.h"

#define MODEL_POOL_MAX    1024 /* candidates in view, of all trees together */
#define MODEL_UNHEARD_MAX 64   /* a batch; a rebuild spares them all */
#define MODEL_FAILED_MAX  64   /* failures that are looked at; newer ones take the place of older */

struct model_result {
    uint32_t index;
    float log_ns, log_cost;
    float weight; /* noise in units of one whole measurement's; 1 and more */
};

struct model_aim {
    double best_log;   /* what is to be beaten */
    double cost_power; /* 0: cost does not count; 1: improvement per second */
};

struct model {
    const struct gk_strategy *base; /* whose used-up indices are no candidates */
    uint32_t tree, first, count;
    struct gk_prng prng;
    struct permute draw;
    uint32_t draw_at;
    struct gauss gauss;
    struct pool pool;
    uint8_t *in_pool;     /* one bit a config of the tree */
    uint8_t *told;        /* the same: it has a result */
    struct model_aim aim; /* of the scores in the pool */
    bool covers;          /* the pool held the whole tree from the start */
    bool is_stale;        /* told since the targets were made */
    bool is_unscored;     /* some candidate was not scored since it came or all were forgotten */
    bool failed_memory;   /* a tell found none: the next prepare says so */
    uint32_t fit_at;      /* results at which the scales are fitted again */
    uint32_t stamp;       /* of scores: raised when what was scored changed */

    /* the points of the process, gauss.count of them */
    uint32_t index[GAUSS_POINTS_MAX];
    bool is_ok[GAUSS_POINTS_MAX];      /* it has a time */
    bool is_pending[GAUSS_POINTS_MAX]; /* on its way; neither: it failed */
    struct gauss_point points[GAUSS_POINTS_MAX];
    double log_ns[GAUSS_POINTS_MAX], log_cost[GAUSS_POINTS_MAX], weight[GAUSS_POINTS_MAX];
    double believed[GAUSS_POINTS_MAX]; /* logarithm of an ok one's time, noise taken off */
    double x[GAUSS_POINTS_MAX], cost_x[GAUSS_POINTS_MAX];
    double centre, scale, amplitude, cost_centre; /* of the targets */

    struct model_result *results; /* every ok one */
    uint32_t result_count, result_capacity;
    struct gauss_point unheard[MODEL_UNHEARD_MAX]; /* told, and not yet known to the candidates */
    bool unheard_ok[MODEL_UNHEARD_MAX];
    uint32_t unheard_count;
    struct gauss_point failed[MODEL_FAILED_MAX];
    uint32_t failed_count; /* ever */
    uint32_t outcomes[GK_PARAMS_MAX][GK_PARAM_VALUES_MAX]
                     [2]; /* by axis and value: failed, passed */
    double best_log;      /* what the best config is believed to take; INFINITY: none */
};

enum gk_status model_create(const struct gk_strategy *base, uint32_t tree, uint32_t pool_max,
                            struct model **model_out, struct gk_err *err);
void model_destroy(struct model *model);
size_t model_bytes(const struct model *model);

/* This index of the tree was given out. */
void model_expect(struct model *model, uint32_t index);
/* And this came of it, or of one that was not given out. The second tell of an index replaces the
 * first. */
void model_tell(struct model *model, const struct gk_tell *tell);

/* Before an ask for n: takes in what was told; returns what its best is believed to take, as a
 * logarithm, INFINITY when there is none. */
double model_learn(struct model *model, uint32_t n);
/* Then: brings candidates into view. GK_NOMEM: also when a tell or model_learn found none. */
enum gk_status model_prepare(struct model *model, uint32_t n, const struct model_aim *aim,
                             struct gk_err *err);
/* These come into view, unless they are used up, of another tree or there already. At most
 * pool.capacity / 4 of them. */
void model_view(struct model *model, const uint32_t *indices, uint32_t count);

/* The best candidate in view; false when there is none. Higher scores are better and can be
 * compared between the trees' models. */
bool model_pick(struct model *model, const struct model_aim *aim, uint32_t *index_out,
                double *score_out);
/* The same among the configs that differ from `centre` in one parameter. */
bool model_pick_near(struct model *model, const struct model_aim *aim, uint32_t centre,
                     uint32_t *index_out, double *score_out);
/* The same among these. */
bool model_pick_of(struct model *model, const struct model_aim *aim, const uint32_t *indices,
                   uint32_t count, uint32_t *index_out, double *score_out);
/* The configs that are believed to be the best, at most `max`, best first, with the logarithms of
 * their times; returns how many. */
uint32_t model_best(const struct model *model, uint32_t max, uint32_t *indices_out,
                    double *values_out);

#endif
