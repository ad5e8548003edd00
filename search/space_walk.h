/*
 * The walk over one tree of a space: which rule is checked when, and who sees the legal points.
 *
 * Inside search/ only. A rule is checked at the level of the last parameter it reads, derived names
 * seen through. A rule that cannot be evaluated there (an overflow, a zero divisor) may stand
 * behind an earlier constraint that reads later parameters and would have said no: below such a
 * point nothing is pruned and each leaf is judged in declared order, which is the order that gives
 * rules their meaning. Rejected: to call the early failure an error at once, since then a guard
 * would work or not depending on the order of parameters.
 */
#ifndef GK_SEARCH_SPACE_WALK_H
#define GK_SEARCH_SPACE_WALK_H

#include "search/space.h"

#define RULE_NONE UINT32_MAX

struct walk_leaf {
    /* Called with one digit a parameter; GK_OK to go on, another status ends the walk. */
    enum gk_status (*visit)(void *context, const uint8_t *digits, struct gk_err *err);
    void *context;
};

struct walk_result {
    uint64_t legal; /* saturating */
    uint64_t raw;   /* product of the value counts, saturating */
    uint64_t *cut;  /* by rule, saturating; tree->rule_count entries, owned by the caller */
};

/* a * b and a + b, or UINT64_MAX. */
uint64_t saturate_mul(uint64_t a, uint64_t b);
uint64_t saturate_add(uint64_t a, uint64_t b);

/* Walks the tree. leaf NULL: points below the last rule are counted as a product and not walked.
 * steps counts work over all trees of a space against GK_SPACE_STEPS_MAX. */
enum gk_status walk_tree(const struct gk_tree *tree, const struct walk_leaf *leaf,
                         struct walk_result *result, uint64_t *steps, struct gk_err *err);

/* Judges one point in declared order. values has one entry a parameter; slots is scratch of
 * tree->slot_count entries and holds all names that were reached afterwards. *broken_out is the
 * constraint that said no, RULE_NONE if the point is legal. GK_RANGE names template, rule and
 * config. */
enum gk_status judge_point(const struct gk_tree *tree, const int64_t *values, union gk_value *slots,
                           uint32_t *broken_out, struct gk_err *err);

#endif
