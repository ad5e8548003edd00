/* See sample_space.h. */
#include "tests/support/sample_space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        fprintf(stderr, "sample space: %s\n", err->text);
        abort();
    }
}

static struct gk_param *make_params(struct gk_scope *scope, const struct sample_param *params,
                                    uint32_t *count_out)
{
    struct gk_param *made = calloc(GK_PARAMS_MAX, sizeof *made);
    struct gk_err err;
    uint32_t count = 0;
    for (; params[count].name; count++) {
        struct gk_param *param = &made[count];
        snprintf(param->name, sizeof param->name, "%s", params[count].name);
        char *end = NULL;
        for (const char *at = params[count].values; *at; at = end + strspn(end, " ")) {
            param->values[param->value_count++] = strtol(at, &end, 10);
        }
        check(gk_scope_add(scope, param->name, GK_VALUE_INT, NULL, 0, &param->slot, &err), &err);
    }
    *count_out = count;
    return made;
}

static struct gk_rule *make_rules(struct gk_scope *scope, const struct sample_rule *rules,
                                  uint32_t *count_out)
{
    struct gk_rule *made = calloc(64, sizeof *made);
    struct gk_err err;
    uint32_t count = 0;
    for (; rules[count].name; count++) {
        struct gk_rule *rule = &made[count];
        snprintf(rule->name, sizeof rule->name, "%s", rules[count].name);
        rule->doc = rules[count].doc ? gk_strdup(rules[count].doc) : NULL;
        rule->is_constraint = rules[count].is_constraint;
        check(gk_expr_compile(rules[count].expr, scope, &rule->expr, &err), &err);
        if (!rule->is_constraint) {
            check(gk_scope_add(scope, rule->name, gk_expr_type(rule->expr), NULL, 0, &rule->slot,
                               &err),
                  &err);
        }
    }
    *count_out = count;
    return made;
}

void sample_space_add(struct gk_space_def *def, const char *template_name, const int64_t base[3],
                      const struct sample_param *params, const struct sample_rule *rules)
{
    static const char *const fields[] = {"M", "N", "K"};
    struct gk_tree *tree = &def->trees[def->tree_count];
    struct gk_scope *scope = gk_scope_create();
    struct gk_err err;
    uint32_t slot;
    *tree = (struct gk_tree){.template_name = template_name, .scope = scope};
    tree->template_hash.bytes[0] = (uint8_t)(1 + def->tree_count++);
    for (int i = 0; i < 3; i++) {
        check(gk_scope_add(scope, fields[i], GK_VALUE_INT, NULL, 0, &slot, &err), &err);
    }
    tree->params = make_params(scope, params, &tree->param_count);
    tree->rules = make_rules(scope, rules, &tree->rule_count);
    tree->slot_count = gk_scope_count(scope);
    tree->base = calloc(tree->slot_count, sizeof tree->base[0]);
    for (int i = 0; i < 3; i++) {
        tree->base[i].i = base[i];
    }
}

void sample_space_fini(struct gk_space_def *def)
{
    for (uint32_t i = 0; i < def->tree_count; i++) {
        struct gk_tree *tree = &def->trees[i];
        for (uint32_t rule = 0; rule < tree->rule_count; rule++) {
            gk_expr_destroy(tree->rules[rule].expr);
            free(tree->rules[rule].doc);
        }
        free((void *)(uintptr_t)tree->rules);
        free((void *)(uintptr_t)tree->params);
        gk_scope_destroy((struct gk_scope *)(uintptr_t)tree->scope);
    }
    gk_space_def_fini(def);
}

void sample_space_gemm(struct gk_space_def *def, const int64_t base[3])
{
    static const struct sample_param params[] = {{"BM", "16 32 64 96 128 192 256 512"},
                                                 {"BN", "16 32 64 96 128 160 192 224 256"},
                                                 {"BK", "16 32 64 128"},
                                                 {"WM", "1 2 4"},
                                                 {"WN", "1 2 4"},
                                                 {"STAGES", "2 3 4 5"},
                                                 {"SPLITK", "1 2 4 8 16"},
                                                 {"GROUP", "1 2 4 8 16"},
                                                 {"UNROLL", "1 2 4 8"},
                                                 {NULL, NULL}};
    static const struct sample_rule rules[] = {
        {"threads", "32 * WM * WN", false, NULL},
        {"smem", "STAGES * (BM + BN) * BK * 2", false, NULL},
        {"k_tiles", "ceil_div(K, BK)", false, NULL},
        {"tiles_m", "ceil_div(M, BM)", false, NULL},
        {"tile_m_used", "BM == 16 || BM < 2 * M", true, "half of the rows would be padding"},
        {"tile_n_used", "BN == 16 || BN < 2 * N", true, NULL},
        {"warp_tile_m", "BM % (16 * WM) == 0", true, "a warp owns whole fragments along M"},
        {"warp_tile_n", "BN % (16 * WN) == 0", true, "a warp owns whole fragments along N"},
        {"registers", "BM * BN / threads <= 192", true, "sums stay in registers"},
        {"threads_min", "threads >= 64", true, NULL},
        {"smem_fits", "smem <= 232448", true, "shared memory of a block"},
        {"split_used", "SPLITK * 2 <= k_tiles || SPLITK == 1", true, NULL},
        {"group_used", "GROUP == 1 || GROUP < 2 * tiles_m", true, NULL},
        {NULL, NULL, false, NULL}};
    sample_space_add(def, "gemm_sample", base, params, rules);
}
