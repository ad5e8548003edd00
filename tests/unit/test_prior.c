/* The templates' priors: what they say, where they say nothing, and that a search hears them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/space.h"
#include "tests/unit/daemon_rig.h"

struct scene {
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_device_props props;
    struct gk_space_def def;
    struct gk_space *space;
};

static void scene_open(struct scene *scene, const struct rig *rig, const char *op,
                       const char *problem, const char *device)
{
    struct gk_err err = {0};
    memset(scene, 0, sizeof *scene);
    scene->op = gk_catalog_find(rig->catalog, op);
    assert_non_null(scene->op);
    assert_int_equal(gk_problem_from_text(&scene->op->fields, problem, &scene->problem, &err),
                     GK_OK);
    rig_props(device, &scene->props);
    assert_int_equal(gk_catalog_space(scene->op, &scene->problem, &scene->props, &scene->def, &err),
                     GK_OK);
    assert_int_equal(gk_space_create(&scene->def, &scene->space, &err), GK_OK);
}

static void scene_close(struct scene *scene)
{
    gk_space_destroy(scene->space);
    gk_space_def_fini(&scene->def);
    gk_problem_fini(&scene->problem);
}

static double prior_at(const struct scene *scene, uint32_t index)
{
    struct gk_config config;
    struct gk_err err = {0};
    double seconds = 0;
    gk_space_config(scene->space, index, &config);
    const struct gk_tree *tree = &scene->def.trees[gk_space_tree_of(scene->space, index)];
    if (gk_catalog_prior(scene->op, tree, &config, &seconds, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return seconds;
}

static double prior_of(const struct scene *scene, const char *text)
{
    struct gk_config config;
    struct gk_err err = {0};
    uint32_t tree, index;
    if (gk_config_from_text(&scene->def, text, &config, &tree, &err) != GK_OK ||
        gk_space_find(scene->space, &config, &index, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return prior_at(scene, index);
}

/* No legal config of the built-in templates is one that an expression fails for, and no time is
 * absurd. */
static void every_config_has_one(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"gemm{\"K\":4096,\"M\":4096,\"N\":4096}", "mock:sm_90a"},
        {"gemm{\"K\":7168,\"M\":16,\"N\":2112}", "mock:sm_90a"},
        {"rmsnorm_residual{\"cols\":8192,\"rows\":8192}", "mock:sm_90a"},
        {"rmsnorm_residual{\"cols\":1,\"rows\":1}", "mock:sm_80"},
        {"layernorm_dropout_residual{\"cols\":100000,\"mask\":true,\"rows\":3}", "mock:sm_80"},
        {"softmax{\"cols\":4096,\"rows\":256}", "mock:sm_90a"},
        {"cross_entropy{\"cols\":128256,\"grad\":true,\"rows\":8192}", "mock:sm_90a"},
        {"silu_mul{\"cols\":28672,\"rows\":8192}", "mock:sm_90a"},
        {"gelu_mul{\"cols\":3,\"rows\":7}", "mock:sm_80"},
        {"rope{\"head_dim\":128,\"kv_heads\":8,\"q_heads\":32,\"tokens\":32768}", "mock:sm_90a"},
        {"swiglu_gateup{\"K\":4096,\"M\":16,\"N\":14336}", "mock:sm_90a"},
        {"swiglu_gateup{\"K\":100,\"M\":3,\"N\":33}", "mock:sm_80"},
        {"linear_cross_entropy{\"K\":4096,\"cols\":128256,\"rows\":2048}", "mock:sm_90a"},
        {"linear_cross_entropy{\"K\":5,\"cols\":1,\"rows\":1}", "mock:sm_80"},
        {"gemm{\"K\":1,\"M\":1,\"N\":1}", "emu:sm_80"},
        {"gemm{\"K\":192,\"M\":33,\"N\":65,\"trans\":\"TN\"}", "emu:sm_80"},
        {"gemm{\"K\":65536,\"M\":7,\"N\":512,\"batch\":3}", "emu:sm_80"},
    };
    struct rig rig;
    rig_open(&rig, ":memory:", "kernels");
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct scene scene;
        char op[GK_NAME_MAX];
        (void)snprintf(op, sizeof op, "%.*s", (int)strcspn(cases[i][0], "{"), cases[i][0]);
        scene_open(&scene, &rig, op, cases[i][0], cases[i][1]);
        uint32_t count = gk_space_count(scene.space), step = count / 4000 + 1;
        for (uint32_t at = 0; at < count; at += step) {
            double seconds = prior_at(&scene, at);
            assert_true(seconds > 1e-7 && seconds < 10);
        }
        scene_close(&scene);
    }
    rig_close(&rig);
}

#define MMA(BM, BN, STAGES, SPLITK)                                                                \
    "gemm_mma{\"BK\":32,\"BM\":" #BM ",\"BN\":" #BN                                                \
    ",\"EPILOGUE\":\"direct\",\"GROUP\":1,\"LOAD_BYTES\":16,\"SPLITK\":" #SPLITK                   \
    ",\"STAGES\":" #STAGES ",\"STORE_BYTES\":16,\"WM\":2,\"WN\":2}"

/* What everybody knows of tiles, splits, rings and waves. */
static void it_knows_what_everybody_knows(void **state)
{
    (void)state;
    struct rig rig;
    struct scene large, deep;
    rig_open(&rig, ":memory:", "kernels");
    scene_open(&large, &rig, "gemm", "gemm{\"K\":2048,\"M\":2048,\"N\":2048}", "mock:sm_80");
    scene_open(&deep, &rig, "gemm", "gemm{\"K\":16384,\"M\":64,\"N\":128}", "mock:sm_80");
    assert_true(prior_of(&large, MMA(128, 128, 4, 1)) < prior_of(&large, MMA(32, 32, 4, 1)));
    assert_true(prior_of(&deep, MMA(32, 64, 4, 1)) < prior_of(&deep, MMA(32, 64, 2, 1)));
    assert_true(prior_of(&deep, MMA(32, 64, 4, 8)) < prior_of(&deep, MMA(32, 64, 4, 1)));
    scene_close(&large);
    scene_close(&deep);
    rig_close(&rig);
}

static void a_template_without_one_says_nothing(void **state)
{
    (void)state;
    struct rig rig;
    struct scene scene;
    struct gk_config config;
    struct gk_err err = {0};
    double seconds = 7;
    rig_open(&rig, ":memory:", "tests/data/kernels/toy");
    scene_open(&scene, &rig, "scale", "scale{\"N\":4096}", "emu:sm_80");
    gk_space_config(scene.space, 0, &config);
    assert_int_equal(gk_catalog_prior(scene.op, &scene.def.trees[0], &config, &seconds, &err),
                     GK_NOT_FOUND);
    assert_non_null(strstr(err.text, "scale_plain"));
    assert_true(seconds > 6.9 && seconds < 7.1); /* untouched */
    scene_close(&scene);
    rig_close(&rig);
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The configs that a job begins with lie among those that the prior likes best. */
static void a_search_begins_with_what_it_likes(void **state)
{
    (void)state;
    static const char *const problem[] = {"gemm{\"K\":512,\"M\":256,\"N\":256}", NULL};
    struct rig rig;
    struct scene scene;
    rig_open(&rig, ":memory:", "kernels");
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 8);
    struct gk_json *body = rig_submit_body(&rig, "a", "emu-sm_80", 200, problem);
    assert_true(gk_json_set_string(body, "strategy", "portfolio"));
    assert_string_equal(rig_request(&rig, "submit", body), "OK");
    assert_int_equal(worker->granted, 8);
    scene_open(&scene, &rig, "gemm", problem[0], "emu:sm_80");
    uint32_t count = gk_space_count(scene.space), low = 0;
    double *all = calloc(count, sizeof all[0]);
    assert_non_null(all);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = prior_at(&scene, i);
    }
    qsort(all, count, sizeof all[0], compare_doubles);
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        const char *config = gk_json_get_string(worker->leases[i], "config", "");
        low += prior_of(&scene, config) < all[count / 5];
    }
    assert_true(low >= 6); /* of 8, where chance gives fewer than 2 */
    free(all);
    scene_close(&scene);
    rig_close(&rig);
}

static struct gk_memory_need need_of(const struct scene *scene, const char *text)
{
    struct gk_config config;
    struct gk_memory_need need;
    struct gk_err err = {0};
    uint32_t tree;
    if (gk_config_from_text(&scene->def, text, &config, &tree, &err) != GK_OK ||
        gk_catalog_memory(scene->op, &scene->def.trees[tree], &config, &need, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return need;
}

/* Tensors with the padding between their rows, workspaces that this config has, and what op.json
 * says that others would keep. */
static void memory_is_counted(void **state)
{
    static const char *const SPLIT = "gemm_mma{\"BK\":16,\"BM\":16,\"BN\":16,\"EPILOGUE\":"
                                     "\"direct\",\"GROUP\":1,\"LOAD_BYTES\":16,\"SPLITK\":%d,"
                                     "\"STAGES\":2,\"STORE_BYTES\":16,\"WM\":1,\"WN\":1}";
    struct rig rig = {0};
    struct scene scene;
    char text[300];
    (void)state;
    rig_open(&rig, ":memory:", "kernels");
    scene_open(&scene, &rig, "linear_cross_entropy",
               "linear_cross_entropy{\"K\":64,\"cols\":1000,\"ldx\":72,\"rows\":10}",
               "mock:sm_90a");
    struct gk_memory_need need =
        need_of(&scene, "linear_cross_entropy_mma{\"BK\":16,\"BM\":16,\"BN\":16,\"LOAD_BYTES\":16,"
                        "\"READ_W\":\"cg\",\"READ_X\":\"cg\",\"SMOOTH\":0,\"SPLITS\":4,"
                        "\"STAGES\":2,\"WM\":1,\"WN\":1}");
    assert_true(need.tensor_bytes == 2 * (9 * 72 + 64) + 2 * 1000 * 64 + 10 * (8 + 4 + 4));
    assert_true(need.workspace_bytes == 4 * (10 * 4 * 2 + 10));
    assert_int_equal(scene.op->avoided_count, 1);
    assert_string_equal(scene.op->avoided[0].name, "logits");
    assert_true(need.avoided_bytes[0] == 2 * 10 * 1000);
    scene_close(&scene);
    scene_open(&scene, &rig, "gemm", "gemm{\"K\":64,\"M\":16,\"N\":24}", "mock:sm_90a");
    for (int splits = 1; splits <= 2; splits++) {
        (void)snprintf(text, sizeof text, SPLIT, splits);
        need = need_of(&scene, text);
        assert_true(need.tensor_bytes == 2 * (16 * 64 + 24 * 64 + 16 * 24));
        assert_true(need.workspace_bytes == (splits == 1 ? 0 : 4 * 2 * 16 * 24));
    }
    scene_close(&scene);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_config_has_one),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(it_knows_what_everybody_knows),
        cmocka_unit_test(a_template_without_one_says_nothing),
        cmocka_unit_test(a_search_begins_with_what_it_likes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
