/*
 * Templates that cut few long rows into parts: chosen by default for such rows, not there where
 * rows alone keep every SM busy or are short, and right on both targets; on sm_90 their launches
 * overlap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/op_trial.h"

/* The sanitizers look at the interpreter, which meets little new on sm_80. */
#ifdef __SANITIZE_ADDRESS__
#define FIRST 1
#else
#define FIRST 0
#endif

static struct op_trial_rig rigs[2]; /* sm_80, sm_90a */
static struct gk_err err;

/* Of each a last part that is shorter, and ends in the middle of a piece. */
static const struct {
    const char *op, *split, *fields; /* template; of the problem, behind cols and rows */
} OPS[] = {
    {"rmsnorm_residual", "rmsnorm_split", "\"ld\":17000"},
    {"layernorm_dropout_residual", "layernorm_split", "\"ld\":17000,\"mask\":true"},
    {"softmax", "softmax_split", "\"ld\":17000,\"ld_out\":17000"},
    {"cross_entropy", "cross_entropy_split", "\"ld\":17000,\"grad\":true"},
};

struct sight {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_space *space; /* NULL: the test asks for the default alone */
};

static void open_sight(struct sight *s, size_t op, const struct gk_device_props *props, int rows,
                       int cols, const char *fields)
{
    char text[200];
    memset(s, 0, sizeof *s);
    s->catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", OPS[op].op);
    s->op = gk_catalog_find(s->catalog, OPS[op].op);
    (void)snprintf(text, sizeof text, "%s{\"rows\":%d,\"cols\":%d%s%s}", OPS[op].op, rows, cols,
                   fields[0] ? "," : "", fields);
    op_trial_need(gk_problem_from_text(&s->op->fields, text, &s->problem, &err), &err);
    op_trial_need(gk_catalog_space(s->op, &s->problem, props, &s->def, &err), &err);
}

static void close_sight(struct sight *s)
{
    gk_space_destroy(s->space);
    gk_space_def_fini(&s->def);
    gk_problem_fini(&s->problem);
    gk_catalog_destroy(s->catalog);
}

static bool is_split(const char *template_)
{
    return strstr(template_, "_split") != NULL;
}

/* Legal configs that cut rows. */
static uint32_t count_split(struct sight *s)
{
    uint32_t count = 0;
    op_trial_need(gk_space_create(&s->def, &s->space, &err), &err);
    for (uint32_t i = 0; i < gk_space_count(s->space); i++) {
        count += is_split(s->def.trees[gk_space_tree_of(s->space, i)].template_name);
    }
    return count;
}

static void chosen_where_rows_are_few(void **state)
{
    static const struct {
        int rows, cols;
        bool chosen, there;
    } CASES[] = {
        {1, 262144, true, true},     {32, 131072, true, true},    {100, 262144, false, true},
        {132, 262144, false, false}, {4096, 65536, false, false}, {1, 8192, false, false},
    };
    struct gk_device_props props = rigs[1].device->props;
    (void)state;
    props.sms = 132;
    props.mem_bytes = INT64_C(140) << 30;
    for (size_t op = 0; op < 3; op++) { /* cross_entropy cuts more rows than there are SMs */
        for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
            struct sight s;
            struct gk_config config = {0};
            uint32_t tree = 0;
            open_sight(&s, op, &props, CASES[i].rows, CASES[i].cols, "");
            op_trial_need(gk_catalog_default(s.op, &s.problem, &s.def, &config, &tree, &err), &err);
            assert_int_equal(is_split(config.template_name), CASES[i].chosen);
            assert_int_equal(count_split(&s) > 0, CASES[i].there);
            close_sight(&s);
        }
    }
}

/* The first config that cuts rows into eight parts. */
static void find_eight(struct sight *s, struct gk_config *config)
{
    bool found = false;
    assert_true(count_split(s) > 0);
    for (uint32_t i = 0; i < gk_space_count(s->space) && !found; i++) {
        const struct gk_tree *tree = &s->def.trees[gk_space_tree_of(s->space, i)];
        gk_space_config(s->space, i, config);
        if (is_split(tree->template_name)) {
            char *text = gk_config_text(tree, config);
            assert_non_null(text);
            found = strstr(text, "\"SPLITS\":8,") != NULL;
            free(text);
        }
    }
    assert_true(found);
}

static void parts_are_right(void **state)
{
    (void)state;
    for (size_t op = 0; op < GK_ARRAY_COUNT(OPS); op++) {
        for (size_t i = FIRST; i < GK_ARRAY_COUNT(rigs); i++) {
            struct sight s;
            struct gk_config config = {0};
            struct gk_record record;
            open_sight(&s, op, &rigs[i].device->props, 2, 16997, OPS[op].fields);
            find_eight(&s, &config);
            assert_string_equal(config.template_name, OPS[op].split);
            op_trial_run(&rigs[i], s.catalog, s.op, &s.problem, &config, 0, &record);
            if (record.failure != GK_FAILURE_NONE) {
                fail_msg("%s on %s: %s: %s", OPS[op].split, rigs[i].device->props.target,
                         gk_failure_name(record.failure), record.message);
            }
            gk_record_fini(&record);
            close_sight(&s);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    return op_trial_open(&rigs[0], "emu:sm_80") || op_trial_open(&rigs[1], "emu:sm_90a") ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_trial_close(&rigs[0]);
    op_trial_close(&rigs[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_where_rows_are_few),
        cmocka_unit_test(parts_are_right),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
