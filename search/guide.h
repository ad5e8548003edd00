/*
 * The models of a forest: one a tree, since nothing can be compared across templates but times and
 * the expected gain. Inside search/ only.
 *
 * Which tree the next config is of follows from that gain alone: a tree whose best is far behind,
 * and well known, is asked for no more; one with few results is wide open and is.
 */
#ifndef GK_SEARCH_GUIDE_H
#define GK_SEARCH_GUIDE_H

#include "search/model.h"

struct guide {
    struct gk_strategy *base; /* borrowed */
    uint32_t tree_count;
    struct model *models[GK_TREES_MAX]; /* NULL: the tree is empty */
    uint32_t asked[GK_TREES_MAX];
    uint32_t draw_at[GK_TREES_MAX];
    uint32_t starts; /* of each tree */
    struct model_aim aim;
};

enum gk_status guide_init(struct guide *guide, struct gk_strategy *base, struct gk_err *err);
void guide_fini(struct guide *guide);
size_t guide_bytes(const struct guide *guide);

/* Before the picks of an ask for n. */
enum gk_status guide_prepare(struct guide *guide, uint32_t n, struct gk_err *err);
/* After each pick, whoever made it. */
void guide_expect(struct guide *guide, uint32_t index);
void guide_tell(struct guide *guide, const struct gk_tell *tell);

/* A config to begin with, at random; false when all trees have theirs. Not taken. Rejected: configs
 * far from each other, which are those at the edges of the space, where little is good. */
bool guide_start(struct guide *guide, uint32_t *index_out);
/* The candidate of the greatest expected gain; false when no model has one in view. Not taken. */
bool guide_pick(struct guide *guide, uint32_t *index_out, double *score_out);
/* The best, by what is believed of them, over all trees; returns how many. */
uint32_t guide_best(const struct guide *guide, uint32_t max, uint32_t *indices_out);
/* The model of this index's tree. */
struct model *guide_model_of(const struct guide *guide, uint32_t index);

#endif
