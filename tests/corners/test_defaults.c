/*
 * What op.json calls the default of its example, and of every problem of examples/shapes, compiled
 * for the target named (sm_80, sm_90a) as for a GPU of full size: it is legal, spills nothing, and
 * keeps its template's rules after compiling.
 *
 * GKTUNE_TEST_ALL=1 takes the problems of examples/shapes, else the examples of the ops alone. What
 * is compiled once is not compiled again. Exit 77 without NVRTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>

#include "core/json.h"
#include "core/shapes.h"
#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/op_trial.h"

#define KERNELS     GK_SOURCE_DIR "/kernels"
#define SHAPES      GK_SOURCE_DIR "/examples/shapes"
#define FILE_MAX    (1u << 20)
#define MODULES_MAX 600u

/* An A100 and an H200: the emulated device has the targets' limits, but few SMs. */
static const struct {
    const char *target, *device;
    int64_t sms, mem_bytes, l2_bytes;
} GPUS[] = {
    {"sm_80", "emu:sm_80", 108, INT64_C(79) << 30, INT64_C(40) << 20},
    {"sm_90a", "emu:sm_90a", 132, INT64_C(140) << 30, INT64_C(60) << 20},
};

static struct op_trial_rig rig;
static struct gk_device_props props;
static struct gk_catalog *catalog;
static struct gk_err err;
static size_t gpu;

static struct {
    struct gk_hash key;
    struct gk_compile_output output;
} modules[MODULES_MAX];
static uint32_t module_count, problem_count, wrong;

/* Compiled now, or before. */
static const struct gk_compile_output *module_of(const struct gk_plan *plan, uint32_t launch)
{
    const struct gk_hash *key = &plan->launches[launch].module_key;
    for (uint32_t i = 0; i < module_count; i++) {
        if (gk_hash_equal(&modules[i].key, key)) {
            return &modules[i].output;
        }
    }
    assert_true(module_count < MODULES_MAX);
    modules[module_count].key = *key;
    op_trial_compile(&rig, catalog, plan, launch, &modules[module_count].output);
    return &modules[module_count++].output;
}

static void check_default(const struct gk_problem *problem)
{
    const struct gk_op *op = gk_catalog_find(catalog, problem->op->op);
    const struct gk_template *template_ = NULL;
    const struct gk_compile_output *codes[GK_LAUNCHES_MAX] = {NULL};
    struct gk_kernel_facts facts[GK_LAUNCHES_MAX];
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    struct gk_record record;
    uint32_t tree = 0;
    assert_non_null(op);
    if (gk_catalog_space(op, problem, &props, &def, &err) != GK_OK ||
        gk_catalog_default(op, problem, &def, &config, &tree, &err) != GK_OK) {
        fail_msg("%s on %s: %s", problem->canonical, GPUS[gpu].target, err.text);
    }
    for (uint32_t i = 0; i < op->template_count; i++) {
        template_ = strcmp(op->templates[i].name, config.template_name) == 0 ? &op->templates[i]
                                                                             : template_;
    }
    assert_non_null(template_);
    op_trial_need(gk_plan_render(op, template_, problem, &config, &props, &plan, &err), &err);
    for (uint32_t i = 0; i < plan.launch_count; i++) {
        codes[i] = plan.launches[i].present ? module_of(&plan, i) : NULL;
    }
    gk_record_init(&record);
    gk_trial_facts(&plan, codes, &props, facts, &record);
    for (uint32_t i = 0; i < plan.launch_count; i++) {
        if (codes[i] && facts[i].spill_bytes != 0) {
            char *text = gk_config_text(&def.trees[tree], &config);
            print_error("%s on %s: the default %s spills %d bytes in %s\n", problem->canonical,
                        GPUS[gpu].target, text, (int)facts[i].spill_bytes,
                        plan.launches[i].def->kernel);
            free(text);
            wrong++;
        }
    }
    if (gk_plan_refine(&plan, facts, &err) != GK_OK) {
        print_error("%s on %s: %s\n", problem->canonical, GPUS[gpu].target, err.text);
        wrong++;
    }
    gk_record_fini(&record);
    gk_plan_fini(&plan);
    gk_space_def_fini(&def);
    problem_count++;
}

static void need_diag(enum gk_status status, struct gk_diag *diag, const char *what)
{
    if (status != GK_OK) {
        (void)gk_diag_status(diag, &err); /* fills err; the failure is known */
        fail_msg("%s: %s", what, err.text);
    }
}

static void examples(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < gk_catalog_op_count(catalog); i++) {
        const struct gk_op *op = gk_catalog_op(catalog, i);
        struct gk_problem problem = {0};
        struct gk_diag diag;
        if (!op->example) {
            fail_msg("%s has no example", op->fields.op);
        }
        gk_diag_init(&diag);
        need_diag(gk_problem_from_json(&op->fields, op->example, op->fields.op, &problem, &diag),
                  &diag, op->fields.op);
        check_default(&problem);
        gk_problem_fini(&problem);
        gk_diag_fini(&diag);
    }
    assert_int_equal(wrong, 0);
}

static void check_file(const char *folder, const char *name)
{
    struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
    struct gk_shapes shapes = {0};
    struct gk_json *json = NULL;
    struct gk_diag diag;
    char path[600], *text = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "%s/%.250s", folder, name);
    assert_ok(gk_file_load(path, FILE_MAX, &text, &size, &err), err);
    assert_ok(gk_json_parse(text, size, name, &json, &err), err);
    gk_diag_init(&diag);
    need_diag(gk_shapes_load(path, gk_json_get_string(json, "op", ""), &lookup, &shapes, &diag),
              &diag, name);
    for (uint32_t i = 0; i < shapes.count; i++) {
        check_default(&shapes.problems[i]);
    }
    gk_shapes_fini(&shapes);
    gk_diag_fini(&diag);
    gk_json_free(json);
    free(text);
}

static void shapes_of_models(void **state)
{
    (void)state;
    DIR *dir = test_takes_all() ? opendir(SHAPES) : NULL;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name);
        if (size > 5 && strcmp(entry->d_name + size - 5, ".json") == 0) {
            check_file(SHAPES, entry->d_name);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    assert_int_equal(wrong, 0);
}

/* Rows that 1,024 threads were given, whose registers do not hold them. */
static void long_rows(void **state)
{
    (void)state;
    check_file(GK_SOURCE_DIR "/tests/data/defaults", "layernorm_long.json");
    assert_int_equal(wrong, 0);
}

static int set_up(void **state)
{
    struct gk_diag diag;
    (void)state;
    if (op_trial_open(&rig, GPUS[gpu].device) != 0) {
        return -1;
    }
    props = rig.device->props;
    props.sms = GPUS[gpu].sms;
    props.mem_bytes = GPUS[gpu].mem_bytes;
    props.l2_bytes = GPUS[gpu].l2_bytes;
    gk_diag_init(&diag);
    if (gk_catalog_load(KERNELS, &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
        print_error("%s\n", err.text);
        return -1;
    }
    gk_diag_fini(&diag);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < module_count; i++) {
        gk_compile_output_fini(&modules[i].output);
    }
    gk_catalog_destroy(catalog);
    op_trial_close(&rig);
    print_message("%s: the defaults of %u problems, %u modules\n", GPUS[gpu].target, problem_count,
                  module_count);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(shapes_of_models),
        cmocka_unit_test(long_rows),
    };
    while (argc > 1 && strcmp(GPUS[gpu].target, argv[1]) != 0) {
        if (++gpu == GK_ARRAY_COUNT(GPUS)) {
            (void)fprintf(stderr, "%s: sm_80 and sm_90a are allowed\n", argv[1]);
            return 2;
        }
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
