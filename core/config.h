/*
 * Configs and the definition of a space.
 *
 * A config is a template and one value for each of its parameters. Canonical text:
 *     gemm_mma{"BK":32,"BM":128,"BN":128,...}
 * (keys sorted, every parameter present, enum parameters by name). Identity: template hash + this
 * text.
 *
 * struct gk_space_def is the forest for one problem on one device: per template its parameters in
 * declared order and its rules (derived names and before-compile constraints) over one slot array.
 * The catalog makes it, search/space walks it. It owns nothing of the catalog's: expressions and
 * names are borrowed and the catalog must outlive it; slot arrays are its own.
 */
#ifndef GK_CORE_CONFIG_H
#define GK_CORE_CONFIG_H

#include "core/expr.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/problem.h"

#define GK_PARAMS_MAX       24
#define GK_PARAM_VALUES_MAX 64
#define GK_TREES_MAX        16

struct gk_param {
    char name[GK_NAME_MAX];
    char macro[GK_NAME_MAX]; /* "GK_BM", or the user's own name */
    char *doc;
    int64_t values[GK_PARAM_VALUES_MAX]; /* declared order; enum parameters: 0, 1, 2, .. */
    char **names;                        /* enum parameters: text of each value; else NULL */
    uint32_t value_count;
    uint32_t slot; /* in the template's scope */
};

struct gk_config {
    char template_name[GK_NAME_MAX];
    struct gk_hash template_hash;
    uint32_t count;
    int64_t values[GK_PARAMS_MAX]; /* by parameter, declared order */
};

struct gk_tree {
    const char *template_name;
    struct gk_hash template_hash;
    const struct gk_param *params;
    uint32_t param_count;
    const struct gk_rule
        *rules; /* evaluated in order; only those over fields, dev.* and parameters */
    uint32_t rule_count;
    const struct gk_scope *scope;
    union gk_value *base; /* scope-sized: fields, op rules, dev.* filled in; owned */
    uint32_t slot_count;
};

struct gk_space_def {
    struct gk_tree trees[GK_TREES_MAX]; /* declared order of templates */
    uint32_t tree_count;
    /* Series values that base slots point to belong to the problem, which must outlive this. */
};

void gk_space_def_fini(struct gk_space_def *def);

/* Canonical text of a config of this tree (malloc'd; NULL when out of memory). */
char *gk_config_text(const struct gk_tree *tree, const struct gk_config *config);
/* From canonical text: names the template, parameter or value that is not in the tree. Values that
 * the tree does not list are refused. The constraints are not checked here (search/space does). */
enum gk_status gk_config_from_text(const struct gk_space_def *def, const char *text,
                                   struct gk_config *config_out, uint32_t *tree_out,
                                   struct gk_err *err);
/* Identity: hash of template hash and canonical text. */
struct gk_hash gk_config_id(const struct gk_hash *template_hash, const char *text);

#endif
