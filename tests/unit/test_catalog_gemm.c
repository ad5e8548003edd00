/* The built-in GEMM family through the whole catalog: load, space, default, defines, plan, bundle.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/render.h"
#include "tests/support/check.h"

static struct gk_catalog *catalog;
static const struct gk_op *op;
static struct gk_device_props dev;

static int setup(void **state)
{
    (void)state;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    if (gk_hash_setup(&err) != GK_OK || gk_device_props_builtin("emu:sm_80", &dev, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    enum gk_status status = gk_catalog_load_for(GK_SOURCE_DIR "/kernels", "gemm", &catalog, &diag);
    for (uint32_t i = 0; i < diag.kept; i++) {
        print_error("%s\n", diag.texts[i]);
    }
    gk_diag_fini(&diag);
    op = status == GK_OK ? gk_catalog_find(catalog, "gemm") : NULL;
    return op ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    gk_catalog_destroy(catalog);
    return 0;
}

static struct gk_problem problem_of(const char *text)
{
    struct gk_problem problem = {0};
    struct gk_err err = {0};
    assert_ok(gk_problem_from_text(&op->fields, text, &problem, &err), err);
    return problem;
}

static const char *define_of(const struct gk_plan_launch *launch, const char *name)
{
    size_t size = strlen(name);
    for (uint32_t i = 0; i < launch->define_count; i++) {
        if (strncmp(launch->defines[i], name, size) == 0 && launch->defines[i][size] == '=') {
            return launch->defines[i] + size + 1;
        }
    }
    return NULL;
}

static const struct gk_template *template_of(const struct gk_config *config)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, config->template_name) == 0) {
            return &op->templates[i];
        }
    }
    fail_msg("no template %s", config->template_name);
    return NULL;
}

static void default_renders(void **state)
{
    (void)state;
    struct gk_problem problem = problem_of("gemm{\"K\":4096,\"M\":4096,\"N\":4096}");
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    struct gk_err err = {0};
    uint32_t tree = 9;
    assert_ok(gk_catalog_serves(op, &problem, &err), err);
    assert_ok(gk_catalog_space(op, &problem, &dev, &def, &err), err);
    assert_int_equal(def.tree_count, 1);
    assert_ok(gk_catalog_default(op, &problem, &def, &config, &tree, &err), err);
    assert_int_equal(tree, 0);
    char *text = gk_config_text(&def.trees[0], &config);
    assert_string_equal(text, "gemm_mma{\"BK\":32,\"BM\":128,\"BN\":128,\"EPILOGUE\":\"staged\","
                              "\"GROUP\":8,\"LOAD_BYTES\":16,\"SPLITK\":1,\"STAGES\":4,"
                              "\"STORE_BYTES\":16,\"WM\":2,\"WN\":2}");
    free(text);
    assert_ok(gk_plan_render(op, &op->templates[0], &problem, &config, &dev, &plan, &err), err);
    assert_int_equal(plan.launch_count, 2);
    assert_true(plan.launches[0].present);
    assert_false(plan.launches[1].present);
    assert_false(plan.workspaces[0].present);
    assert_int_equal(plan.launches[0].grid[0], 1024);
    assert_int_equal(plan.launches[0].block[0], 128);
    assert_int_equal(plan.launches[0].arg_count, 16);
    assert_int_equal(plan.launches[0].args[6].size, 4);
    assert_int_equal(plan.launches[0].args[6].bits, 4096);
    assert_int_equal(plan.launches[0].args[12].bits, 0x3F800000); /* alpha = 1.0f */
    assert_true(plan.flops == 2.0 * 4096 * 4096 * 4096);
    assert_string_equal(define_of(&plan.launches[0], "GK_BM"), "128");
    assert_string_equal(define_of(&plan.launches[0], "GK_EPILOGUE"), "1");
    assert_string_equal(define_of(&plan.launches[0], "GK_EPILOGUE_STAGED"), "1");
    assert_string_equal(define_of(&plan.launches[0], "GK_DTYPE"), "gk::bf16");
    assert_string_equal(define_of(&plan.launches[0], "GK_DTYPE_BF16"), "1");
    assert_null(define_of(&plan.launches[0], "GK_DTYPE_F16"));
    assert_string_equal(define_of(&plan.launches[0], "GK_TRANS_TT"), "3");
    assert_string_equal(define_of(&plan.launches[0], "GK_ARCH"), "800");
    assert_null(define_of(&plan.launches[0], "GK_SPLITK"));
    assert_null(define_of(&plan.launches[0], "GK_M"));
    assert_true(plan.tensors[0].present);
    assert_int_equal(plan.tensors[0].span, 4096 * 4096);
    assert_int_equal(plan.tensors[0].align, 16);
    assert_false(plan.tensors[4].present); /* C_in: beta is 0 */
    gk_plan_fini(&plan);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
}

static void split_has_a_workspace_and_a_second_launch(void **state)
{
    (void)state;
    struct gk_problem problem = problem_of("gemm{\"K\":4096,\"M\":16,\"N\":1024}");
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    struct gk_err err = {0};
    uint32_t tree = 9;
    assert_ok(gk_catalog_space(op, &problem, &dev, &def, &err), err);
    assert_ok(gk_config_from_text(&def,
                                  "gemm_mma{\"BK\":64,\"BM\":16,\"BN\":256,\"EPILOGUE\":\"direct\","
                                  "\"GROUP\":1,\"LOAD_BYTES\":16,\"SPLITK\":4,\"STAGES\":3,"
                                  "\"STORE_BYTES\":16,\"WM\":1,\"WN\":4}",
                                  &config, &tree, &err),
              err);
    assert_ok(gk_plan_render(op, &op->templates[0], &problem, &config, &dev, &plan, &err), err);
    assert_true(plan.launches[1].present);
    assert_true(plan.workspaces[0].present);
    assert_int_equal(plan.workspaces[0].bytes, 4 * 4 * 16 * 1024);
    assert_int_equal(plan.launches[0].grid[1], 4);
    assert_int_equal(plan.launches[1].grid[0], 16);
    assert_string_equal(define_of(&plan.launches[1], "GK_SPLITK"), "4");
    assert_null(define_of(&plan.launches[1], "GK_BM"));
    struct gk_kernel_facts facts[2] = {{.regs = 120, .blocks_per_sm = 2},
                                       {.regs = 30, .blocks_per_sm = 8}};
    assert_ok(gk_plan_refine(&plan, facts, &err), err);
    facts[1].spill_bytes = 8;
    assert_status(gk_plan_refine(&plan, facts, &err), GK_INPUT, err);
    assert_contains(err.text, "launch gk_gemm_splitk_reduce: constraint no_spills");
    assert_contains(err.text, "k.spill_bytes = 8");
    gk_plan_fini(&plan);

    config.values[9] = 16; /* SPLITK, over four blocks an SM */
    config.values[4] = 16; /* BN */
    assert_status(gk_plan_render(op, &op->templates[0], &problem, &config, &dev, &plan, &err),
                  GK_INPUT, err);
    assert_contains(err.text, "constraint ");
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
}

static void reference_renders(void **state)
{
    (void)state;
    struct gk_problem problem = problem_of("gemm{\"K\":40,\"M\":33,\"N\":65,\"beta\":1.0}");
    struct gk_plan plan = {0};
    struct gk_err err = {0};
    double scale = 0, norm = 0;
    assert_ok(gk_plan_reference(op, &problem, &dev, &plan, &err), err);
    assert_int_equal(plan.launch_count, 1);
    assert_null(plan.template_);
    assert_int_equal(plan.launches[0].grid[0], 3 * 5); /* tiles of 16 x 16 */
    assert_int_equal(plan.launches[0].args[6].kind, GK_ARG_RESULT);
    assert_true(plan.tensors[4].present);
    assert_ok(gk_plan_tolerance(&plan, 6, &scale, &norm, &err), err);
    assert_true(scale > 0 && scale < 1e-3);
    assert_true(norm > 0);
    gk_plan_fini(&plan);
    gk_problem_fini(&problem);
}

static void unserved_problem_names_the_reason(void **state)
{
    (void)state;
    struct gk_problem problem = problem_of("gemm{\"K\":64,\"M\":64,\"N\":64,\"dtype\":\"e4m3\"}");
    struct gk_err err = {0};
    assert_status(gk_catalog_serves(op, &problem, &err), GK_INPUT, err);
    assert_contains(err.text, "gemm_mma: constraint dtype_16_bit");
    assert_contains(err.text, "dtype = e4m3");
    gk_problem_fini(&problem);
}

/* An H200 as its worker describes it, and the devices that every machine has. */
static void props_of(size_t which, struct gk_device_props *out)
{
    static const char *const names[] = {"emu:sm_80", "emu:sm_90a", "emu:sm_90a"};
    struct gk_err err = {0};
    assert_ok(gk_device_props_builtin(names[which], out, &err), err);
    if (which == 2) {
        out->sms = 132;
        out->l2_bytes = INT64_C(50) << 20;
        out->mem_bytes = INT64_C(140) << 30;
    }
}

static void has_a_default(const char *text, const struct gk_device_props *props)
{
    struct gk_problem problem = problem_of(text);
    struct gk_space_def def = {0}, whole = {0};
    struct gk_config config = {0};
    struct gk_plan plan = {0};
    struct gk_err err = {0};
    uint32_t tree = 0, passed = 0;
    assert_ok(gk_catalog_space(op, &problem, props, &def, &err), err);
    assert_ok(gk_catalog_space(op, &problem, props, &whole, &err), err);
    assert_ok(gk_catalog_prefer(op, &problem, &def, NULL, &passed, &err), err);
    assert_int_equal(def.tree_count + passed, whole.tree_count);
    enum gk_status status = gk_catalog_default(op, &problem, &def, &config, &tree, &err);
    if (status != GK_OK) {
        fail_msg("%s on %s, %d SMs: %s", text, props->arch, (int)props->sms, err.text);
    }
    assert_ok(gk_plan_render(op, template_of(&config), &problem, &config, props, &plan, &err), err);
    gk_plan_fini(&plan);
    gk_space_def_fini(&def);
    gk_space_def_fini(&whole);
    gk_problem_fini(&problem);
}

/* A default must be legal for every shape a user is likely to bring, among what is searched. */
static void there_is_always_a_default(void **state)
{
    (void)state;
    static const int sizes[] = {1, 7, 16, 33, 64, 100, 129, 192, 576, 768, 4096, 14336, 16504};
    static const char *const layouts[] = {"NT", "NT", "NT", "NN", "TN", "TT"};
    for (size_t device = 0; device < 3; device++) {
        struct gk_device_props props;
        props_of(device, &props);
        for (size_t m = 0; m < GK_ARRAY_COUNT(sizes); m++) {
            for (size_t n = 0; n < GK_ARRAY_COUNT(sizes); n++) {
                for (size_t k = 0; k < GK_ARRAY_COUNT(sizes); k++) {
                    char text[160];
                    (void)snprintf(text, sizeof text,
                                   "gemm{\"K\":%d,\"M\":%d,\"N\":%d,\"trans\":\"%s\"}", sizes[k],
                                   sizes[m], sizes[n],
                                   device == 2 ? "NT" : layouts[(m + n + k) % 6]);
                    has_a_default(text, &props);
                }
            }
        }
        if (device == 2) { /* a vocabulary's columns do not fit the emulated devices */
            has_a_default("gemm{\"K\":4096,\"M\":64,\"N\":128256}", &props);
            has_a_default("gemm{\"K\":4096,\"M\":8,\"N\":128256}", &props);
        }
    }
}

/* What op.json passes over, by problem: few rows, some, many; nothing where the better template
 * does not serve. */
static void better_templates_are_searched_alone(void **state)
{
    (void)state;
    static const struct {
        const char *problem, *trees;
        size_t device;
    } cases[] = {
        {"gemm{\"K\":4096,\"M\":4,\"N\":4096}", "gemv_tma", 2},
        {"gemm{\"K\":4096,\"M\":16,\"N\":4096}", "gemm_wgmma gemv_tma", 2},
        {"gemm{\"K\":4096,\"M\":4096,\"N\":4096}", "gemm_wgmma", 2},
        {"gemm{\"K\":64,\"M\":4096,\"N\":4096}", "gemm_mma gemm_wgmma", 2},
        {"gemm{\"K\":4096,\"M\":4096,\"N\":4096,\"trans\":\"TN\"}", "gemm_mma", 2},
        {"gemm{\"K\":4096,\"M\":4,\"N\":4096}", "gemm_mma gemv_mma", 0},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_problem problem = problem_of(cases[i].problem);
        struct gk_device_props props;
        struct gk_passed_over passed[GK_TREES_MAX];
        struct gk_space_def def = {0};
        struct gk_buf names = {0};
        struct gk_err err = {0};
        uint32_t count = 0;
        props_of(cases[i].device, &props);
        assert_ok(gk_catalog_space(op, &problem, &props, &def, &err), err);
        assert_ok(gk_catalog_prefer(op, &problem, &def, passed, &count, &err), err);
        for (uint32_t t = 0; t < def.tree_count; t++) {
            gk_buf_printf(&names, "%s%s", t ? " " : "", def.trees[t].template_name);
        }
        assert_string_equal(gk_buf_text(&names), cases[i].trees);
        for (uint32_t t = 0; t < count; t++) {
            assert_non_null(passed[t].why);
            assert_null(strstr(cases[i].trees, passed[t].name));
            assert_non_null(strstr(passed[t].winner, "gem"));
        }
        gk_buf_fini(&names);
        gk_space_def_fini(&def);
        gk_problem_fini(&problem);
    }
}

static void bundle_holds_what_is_reached(void **state)
{
    (void)state;
    struct gk_bundle bundle = {0};
    struct gk_err err = {0};
    bool found[3] = {false};
    assert_ok(gk_catalog_bundle(catalog, &bundle, &err), err);
    for (uint32_t i = 0; i < bundle.count; i++) {
        found[0] |= strcmp(bundle.files[i].path, "gemm/op.json") == 0;
        found[1] |= strcmp(bundle.files[i].path, "gemm/reference.cu") == 0;
        found[2] |= strcmp(bundle.files[i].path, "include/gk/mma.cuh") == 0;
    }
    assert_true(found[0] && found[1] && found[2]);
    gk_bundle_fini(&bundle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_renders),
        cmocka_unit_test(split_has_a_workspace_and_a_second_launch),
        cmocka_unit_test(reference_renders),
        cmocka_unit_test(unserved_problem_names_the_reason),
        cmocka_unit_test(there_is_always_a_default),
        cmocka_unit_test(better_templates_are_searched_alone),
        cmocka_unit_test(bundle_holds_what_is_reached),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
