/* search/space: against brute force, indices, find, why, limits, faults behind guards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/prng.h"
#include "tests/support/check.h"
#include "tests/support/sample_space.h"

static const int64_t base[3] = {100, 4096, 4096};

static const struct sample_param small_params[] = {
    {"A", "4 2 1"}, {"B", "1 2 3 4 5"}, {"C", "0 7"}, {"D", "3 1 2"}, {NULL, NULL}};
static const struct sample_rule small_rules[] = {
    {"ab", "A * B", false, NULL},
    {"twice", "ab * 2", false, NULL},
    {"big_problem", "M >= 100", true, NULL},
    {"ab_small", "twice <= 16", true, "twice A times B must fit"},
    {"c_or_d", "C == 0 || D < B", true, NULL},
    {NULL, NULL, false, NULL}};

/* Every point in declared order by why() alone, against the walk. */
static void the_walk_is_brute_force(void **state)
{
    (void)state;
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    sample_space_add(&def, "small", base, small_params, small_rules);
    assert_ok(gk_space_create(&def, &space, &err), err);
    uint32_t index = 0;
    for (uint32_t point = 0; point < 3 * 5 * 2 * 3; point++) {
        struct gk_config config = {.template_name = "small", .count = 4}, met;
        config.template_hash = def.trees[0].template_hash;
        uint32_t digits[4] = {point / 30, point / 6 % 5, point / 3 % 2, point % 3};
        for (uint32_t i = 0; i < 4; i++) {
            config.values[i] = def.trees[0].params[i].values[digits[i]];
        }
        bool legal = config.values[0] * config.values[1] * 2 <= 16 &&
                     (config.values[2] == 0 || config.values[3] < config.values[1]);
        uint32_t found = 77;
        assert_int_equal(gk_space_why(&def, &config, NULL, NULL), legal ? GK_OK : GK_INPUT);
        assert_int_equal(gk_space_find(space, &config, &found, NULL), legal ? GK_OK : GK_NOT_FOUND);
        if (legal) {
            assert_int_equal(found, index);
            gk_space_config(space, index, &met);
            assert_memory_equal(&met, &config, sizeof met);
            index++;
        } else {
            assert_int_equal(found, 77);
        }
    }
    assert_int_equal(gk_space_count(space), index);
    assert_int_equal(gk_space_raw_count(space), 90);
    gk_space_destroy(space);
    sample_space_fini(&def);
}

static void a_forest_has_ranges(void **state)
{
    (void)state;
    static const struct sample_param one[] = {{"X", "9"}, {NULL, NULL}};
    static const struct sample_param none[] = {{NULL, NULL}};
    static const struct sample_rule never[] = {{"never", "M < 0", true, "no"},
                                               {NULL, NULL, false, NULL}};
    static const struct sample_rule free_rules[] = {{NULL, NULL, false, NULL}};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    sample_space_add(&def, "never", base, small_params, never);
    sample_space_add(&def, "small", base, small_params, small_rules);
    sample_space_add(&def, "one", base, one, free_rules);
    sample_space_add(&def, "empty", base, one, never);
    sample_space_add(&def, "none", base, none, free_rules);
    assert_ok(gk_space_create(&def, &space, &err), err);
    uint32_t next = 0, total = gk_space_count(space);
    assert_int_equal(gk_space_tree_count(space), 5);
    for (uint32_t tree = 0; tree < 5; tree++) {
        uint32_t first, count;
        gk_space_tree_range(space, tree, &first, &count);
        assert_int_equal(first, next);
        for (uint32_t i = first; i < first + count; i++) {
            struct gk_config config;
            uint32_t found;
            uint8_t digits[GK_PARAMS_MAX];
            assert_int_equal(gk_space_tree_of(space, i), tree);
            gk_space_config(space, i, &config);
            assert_ok(gk_space_find(space, &config, &found, &err), err);
            assert_int_equal(found, i);
            gk_space_digits(space, i, digits);
            assert_true(gk_space_find_digits(space, tree, digits, &found));
            assert_int_equal(found, i);
        }
        next += count;
    }
    assert_int_equal(next, total);
    gk_space_destroy(space);
    sample_space_fini(&def);
}

static void why_names_rule_values_and_reason(void **state)
{
    (void)state;
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    struct gk_buf derived = {0};
    uint32_t index;
    sample_space_add(&def, "small", base, small_params, small_rules);
    assert_ok(gk_space_create(&def, &space, &err), err);
    struct gk_config config = {.template_name = "small",
                               .template_hash = def.trees[0].template_hash,
                               .count = 4,
                               .values = {4, 5, 0, 3}};
    assert_status(gk_space_why(&def, &config, &derived, &err), GK_INPUT, err);
    assert_string_equal(err.text, "small{\"A\":4,\"B\":5,\"C\":0,\"D\":3}: constraint ab_small is "
                                  "broken: twice <= 16 (twice = 40): twice A times B must fit");
    assert_string_equal(gk_buf_text(&derived), "ab = 20\ntwice = 40\n");
    assert_status(gk_space_find(space, &config, &index, &err), GK_NOT_FOUND, err);
    assert_contains(err.text, "constraint ab_small is broken");
    config.values[1] = 6;
    assert_status(gk_space_why(&def, &config, NULL, &err), GK_INPUT, err);
    assert_contains(err.text, "parameter B is 6; allowed: 1, 2, 3, 4, 5");
    config.values[1] = 1;
    config.template_hash.bytes[3] = 1;
    assert_status(gk_space_find(space, &config, &index, &err), GK_NOT_FOUND, err);
    assert_contains(err.text, "the space has small 010000000000");
    memcpy(config.template_name, "other", 6);
    assert_status(gk_space_find(space, &config, &index, &err), GK_NOT_FOUND, err);
    assert_contains(err.text, "no template 'other' serves this problem on this device; those that "
                              "do: small");
    gk_buf_fini(&derived);
    gk_space_destroy(space);
    sample_space_fini(&def);
}

static void nothing_legal_says_what_cut_most(void **state)
{
    (void)state;
    static const int64_t tiny[3] = {1, 1, 1};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    assert_status(gk_space_create(&def, &space, &err), GK_INPUT, err);
    assert_contains(err.text, "there is no template at all");
    sample_space_add(&def, "small", tiny, small_params, small_rules);
    assert_status(gk_space_create(&def, &space, &err), GK_INPUT, err);
    assert_contains(err.text, "small: constraint big_problem (M >= 100) cut 90 of 90 (M = 1)");
    assert_null(space);
    sample_space_fini(&def);
}

/* A rule that divides by zero is an error, unless a constraint declared before it says no. */
static void guards_hold_whatever_the_order_of_parameters(void **state)
{
    (void)state;
    static const struct sample_param params[] = {{"A", "0 1 2"}, {"B", "0 1"}, {NULL, NULL}};
    static const struct sample_rule guarded[] = {{"guard", "A != 0 || B > 5", true, NULL},
                                                 {"part", "M / A", false, NULL},
                                                 {"enough", "part > 60 || B == 1", true, NULL},
                                                 {NULL, NULL, false, NULL}};
    static const struct sample_rule open[] = {{"guard", "A != 0 || B == 1", true, NULL},
                                              {"part", "M / A", false, NULL},
                                              {NULL, NULL, false, NULL}};
    struct gk_space_def def = {0}, bad = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    uint64_t legal, raw;
    sample_space_add(&def, "guarded", base, params, guarded);
    assert_ok(gk_space_create(&def, &space, &err), err);
    assert_int_equal(gk_space_count(space), 3); /* (1,0) (1,1) (2,1) */
    assert_ok(gk_space_tally(&def, &legal, &raw, NULL, 0, NULL, &err), err);
    assert_int_equal(legal, 3);
    gk_space_destroy(space);
    space = NULL;
    sample_space_add(&bad, "open", base, params, open);
    assert_status(gk_space_create(&bad, &space, &err), GK_RANGE, err);
    assert_contains(err.text, "open{\"A\":0,\"B\":1}: part: ");
    assert_null(space);
    assert_status(gk_space_tally(&bad, &legal, &raw, NULL, 0, NULL, &err), GK_RANGE, err);
    sample_space_fini(&def);
    sample_space_fini(&bad);
}

static void tally_agrees_and_sorts_rejects(void **state)
{
    (void)state;
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    struct gk_space_reject rejects[16];
    uint64_t legal, raw, sum = 0;
    uint32_t count, few;
    sample_space_gemm(&def, base);
    assert_ok(gk_space_tally(&def, &legal, &raw, rejects, 16, &count, &err), err);
    assert_ok(gk_space_create(&def, &space, &err), err);
    assert_int_equal(raw, 1036800);
    assert_int_equal(gk_space_raw_count(space), raw);
    assert_int_equal(gk_space_count(space), legal);
    for (uint32_t i = 0; i < count; i++) {
        sum += rejects[i].cut;
        assert_true(i == 0 || rejects[i - 1].cut >= rejects[i].cut);
    }
    assert_int_equal(sum + legal, raw); /* each point is legal or cut by exactly one */
    struct gk_space_reject top[2];
    assert_ok(gk_space_tally(&def, &legal, &raw, top, 2, &few, &err), err);
    assert_int_equal(few, 2);
    assert_string_equal(top[0].constraint, rejects[0].constraint);
    assert_string_equal(top[1].constraint, rejects[1].constraint);
    assert_true(gk_space_bytes(space) < 4096 + 200 * legal);
    assert_true(gk_space_bytes(space) < 4096 + 4 * legal); /* 21 bits a config here */
    gk_space_destroy(space);
    sample_space_fini(&def);
}

/* 24 parameters of 64 values overflow every counter; a space of strangers must end all the same. */
static void huge_spaces_are_counted_or_refused(void **state)
{
    (void)state;
    static char values[GK_PARAM_VALUES_MAX * 4];
    static char names[GK_PARAMS_MAX][4];
    struct sample_param params[GK_PARAMS_MAX + 1] = {0};
    static const struct sample_rule first_only[] = {{"first", "P0 >= 0", true, NULL},
                                                    {NULL, NULL, false, NULL}};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    uint64_t legal, raw;
    for (int i = 0; i < GK_PARAM_VALUES_MAX; i++) {
        snprintf(values + strlen(values), 5, "%s%d", i ? " " : "", i);
    }
    for (int i = 0; i < GK_PARAMS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "P%d", i);
        params[i] = (struct sample_param){names[i], values};
    }
    sample_space_add(&def, "huge", base, params, first_only);
    assert_ok(gk_space_tally(&def, &legal, &raw, NULL, 0, NULL, &err), err);
    assert_true(legal == UINT64_MAX && raw == UINT64_MAX);
    assert_status(gk_space_create(&def, &space, &err), GK_LIMIT, err);
    assert_contains(err.text, "more than 4000000 legal configs");
    sample_space_fini(&def);
}

/* Legal is what was listed and nothing else; the def's rules have no part in it. */
static void a_list_is_a_space(void **state)
{
    (void)state;
    static const uint8_t listed[4][GK_PARAMS_MAX] = {
        {0, 4, 1, 2}, {1, 0, 0, 0}, {1, 0, 1, 1}, {2, 4, 1, 0}};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    uint32_t index = 0;
    sample_space_add(&def, "small", base, small_params, small_rules);
    assert_ok(gk_space_create_listed(&def, &listed[0][0], 4, &space, &err), err);
    assert_int_equal(gk_space_count(space), 4);
    assert_int_equal(gk_space_raw_count(space), 90);
    for (uint32_t i = 0; i < 4; i++) {
        uint8_t digits[GK_PARAMS_MAX];
        struct gk_config config;
        gk_space_digits(space, i, digits);
        assert_memory_equal(digits, listed[i], sizeof digits);
        assert_true(gk_space_find_digits(space, 0, listed[i], &index));
        assert_int_equal(index, i);
        gk_space_config(space, i, &config);
        assert_ok(gk_space_find(space, &config, &index, &err), err);
        config.values[2] = 7 - config.values[2]; /* legal by the rules or not: it is not listed */
        if (i != 1 && i != 2) {
            assert_int_equal(gk_space_find(space, &config, &index, &err), GK_NOT_FOUND);
            assert_non_null(strstr(err.text, "not among the 4"));
        }
    }
    gk_space_destroy(space);
    static const uint8_t twice[2][GK_PARAMS_MAX] = {{1, 0, 0, 1}, {1, 0, 0, 1}};
    assert_int_equal(gk_space_create_listed(&def, &twice[0][0], 2, &space, &err), GK_INPUT);
    static const uint8_t beyond[1][GK_PARAMS_MAX] = {{1, 5, 0, 1}};
    assert_int_equal(gk_space_create_listed(&def, &beyond[0][0], 1, &space, &err), GK_INPUT);
    assert_non_null(strstr(err.text, "parameter B"));
    assert_int_equal(gk_space_create_listed(&def, &listed[0][0], 0, &space, &err), GK_INPUT);
    sample_space_fini(&def);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_a_space),
        cmocka_unit_test(the_walk_is_brute_force),
        cmocka_unit_test(a_forest_has_ranges),
        cmocka_unit_test(why_names_rule_values_and_reason),
        cmocka_unit_test(nothing_legal_says_what_cut_most),
        cmocka_unit_test(guards_hold_whatever_the_order_of_parameters),
        cmocka_unit_test(tally_agrees_and_sorts_rejects),
        cmocka_unit_test(huge_spaces_are_counted_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
