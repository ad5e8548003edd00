/*
 * The legal configs of one problem on one device: a forest, counted and indexed.
 *
 * gk_space_create() walks each tree of a gk_space_def in declared order of parameters and values,
 * checking a rule as soon as the last slot it reads is bound. Legal configs get indices 0 ..
 * count-1, tree after tree, in lexicographic order of declared values, so that "first in the
 * declared order" is the smallest index. Memory: under 200 bytes a legal config. No I/O, no clock,
 * no randomness.
 */
#ifndef GK_SEARCH_SPACE_H
#define GK_SEARCH_SPACE_H

#include "core/config.h"

#define GK_SPACE_CONFIGS_MAX 4000000u /* legal configs kept: about 72 MB at the worst */
/* Values bound and rules evaluated in one walk, about 20 ns each: the daemon walks spaces of
 * strangers. Pruned branches are free, so the raw count is not bounded. */
#define GK_SPACE_STEPS_MAX (UINT64_C(1) << 30)

struct gk_space;

struct gk_space_reject { /* how often a constraint was the one that said no */
    const char *template_name;
    const char *constraint;
    uint64_t cut; /* raw points cut off by it */
};

/* `def` is borrowed and must outlive the space. GK_LIMIT names the count that was passed; GK_RANGE
 * when a rule overflows or divides by zero in a config that every constraint declared before it
 * allows (names template, rule, config); GK_INPUT when no config is legal (names, per template, the
 * first constraint that refuses every config by itself, else the one that cut most). */
enum gk_status gk_space_create(const struct gk_space_def *def, struct gk_space **space_out,
                               struct gk_err *err);
/* A space of exactly these configs of the def's one tree, GK_PARAMS_MAX digits each, in rising
 * order and without repeats: what somebody recorded, whose rules nobody knows. The tree's own rules
 * are not looked at. GK_INPUT names the first config that is out of order or has a digit that its
 * parameter lacks. */
enum gk_status gk_space_create_listed(const struct gk_space_def *def, const uint8_t *digits,
                                      uint32_t count, struct gk_space **space_out,
                                      struct gk_err *err);
void gk_space_destroy(struct gk_space *space);

uint32_t gk_space_count(const struct gk_space *space);
uint64_t gk_space_raw_count(const struct gk_space *space); /* UINT64_MAX when it is more */
size_t gk_space_bytes(const struct gk_space *space);       /* memory that the space holds */
uint32_t gk_space_tree_count(const struct gk_space *space);
void gk_space_tree_range(const struct gk_space *space, uint32_t tree, uint32_t *first_out,
                         uint32_t *count_out);
uint32_t gk_space_tree_of(const struct gk_space *space, uint32_t index);
void gk_space_config(const struct gk_space *space, uint32_t index, struct gk_config *config_out);
/* Digits: index of each parameter's value. */
void gk_space_digits(const struct gk_space *space, uint32_t index,
                     uint8_t digits_out[GK_PARAMS_MAX]);
/* By digits: false if it is not legal. What strategies step with. */
bool gk_space_find_digits(const struct gk_space *space, uint32_t tree,
                          const uint8_t digits[GK_PARAMS_MAX], uint32_t *index_out);
/* The definition that the space was made from. */
const struct gk_space_def *gk_space_def_of(const struct gk_space *space);
/* GK_NOT_FOUND: not legal; err says which constraint (by gk_space_why). A config of the same
 * template with another hash is not found either: its parameters may mean something else. */
enum gk_status gk_space_find(const struct gk_space *space, const struct gk_config *config,
                             uint32_t *index_out, struct gk_err *err);
/* Counts legal configs without keeping them (gktune space --count). rejects_out may be NULL; at
 * most reject_max, most points cut first. Counts stop at UINT64_MAX. No legal config is no error
 * here. */
enum gk_status gk_space_tally(const struct gk_space_def *def, uint64_t *legal_out,
                              uint64_t *raw_out, struct gk_space_reject *rejects_out,
                              uint32_t reject_max, uint32_t *reject_count_out, struct gk_err *err);
/* Evaluates one config: GK_OK if legal, else GK_INPUT naming the first broken constraint, its text,
 * its reason and the values met. derived_out (may be NULL) gets "name = value" lines, up to the
 * first rule that cannot be evaluated. */
enum gk_status gk_space_why(const struct gk_space_def *def, const struct gk_config *config,
                            struct gk_buf *derived_out, struct gk_err *err);

#endif
