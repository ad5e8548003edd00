/* core/config: canonical text and back, every refusal, identity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/config.h"
#include "core/prng.h"
#include "tests/support/check.h"

static char *const swizzles[] = {(char *)(uintptr_t) "none", (char *)(uintptr_t) "row"};
static struct gk_param params[3];
static struct gk_space_def def;

static int setup(void **state)
{
    (void)state;
    params[0] = (struct gk_param){.name = "BM", .values = {64, 128, 256}, .value_count = 3};
    params[1] = (struct gk_param){.name = "stages", .values = {4, 3, 2}, .value_count = 3};
    params[2] = (struct gk_param){.name = "SWIZZLE",
                                  .values = {0, 1},
                                  .value_count = 2,
                                  .names = (char **)(uintptr_t)swizzles};
    def.tree_count = 2;
    def.trees[0] =
        (struct gk_tree){.template_name = "gemm_mma", .params = params, .param_count = 3};
    def.trees[1] =
        (struct gk_tree){.template_name = "gemm_mma2", .params = params, .param_count = 1};
    def.trees[1].template_hash.bytes[0] = 9;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

static void text_and_config_are_inverse(void **state)
{
    (void)state;
    struct gk_prng prng;
    gk_prng_init(&prng, 5, 0);
    for (int round = 0; round < 200; round++) {
        uint32_t tree = (uint32_t)gk_prng_below(&prng, 2), met = 9;
        struct gk_config config = {.count = def.trees[tree].param_count}, back = {0};
        for (uint32_t i = 0; i < config.count; i++) {
            config.values[i] = params[i].values[gk_prng_below(&prng, params[i].value_count)];
        }
        char *text = gk_config_text(&def.trees[tree], &config);
        struct gk_err err;
        assert_ok(gk_config_from_text(&def, text, &back, &met, &err), err);
        assert_int_equal(met, tree);
        assert_int_equal(back.count, config.count);
        assert_memory_equal(back.values, config.values, sizeof config.values);
        assert_string_equal(back.template_name, def.trees[tree].template_name);
        assert_true(gk_hash_equal(&back.template_hash, &def.trees[tree].template_hash));
        char *again = gk_config_text(&def.trees[tree], &back);
        assert_string_equal(again, text);
        free(text);
        free(again);
    }
}

static void keys_are_sorted_and_enums_named(void **state)
{
    (void)state;
    struct gk_config config = {.count = 3, .values = {128, 3, 1}};
    char *text = gk_config_text(&def.trees[0], &config);
    assert_string_equal(text, "gemm_mma{\"BM\":128,\"SWIZZLE\":\"row\",\"stages\":3}");
    free(text);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum gk_status status;
        const char *part;
    } cases[] = {
        {"gemm_mma", GK_PARSE, "a template and its parameters are needed"},
        {"other{}", GK_NOT_FOUND,
         "there is no template 'other' for this problem here; there are gemm_mma, gemm_mma2"},
        {"{\"BM\":64}", GK_NOT_FOUND, "there is no template ''"},
        {"gemm_mma{\"BM\":64", GK_PARSE, "line 1"},
        {"gemm_mma{\"BM\":64} x", GK_PARSE, "end of file expected"},
        {"gemm_mma2{}", GK_INPUT, "parameter BM is missing"},
        {"gemm_mma2{\"BM\":63}", GK_INPUT, "parameter BM is 63; allowed: 64, 128, 256"},
        {"gemm_mma2{\"BM\":64.0}", GK_INPUT, "parameter BM is 64.0; allowed: 64, 128, 256"},
        {"gemm_mma2{\"BM\":\"64\"}", GK_INPUT, "parameter BM is \"64\"; allowed: 64, 128, 256"},
        {"gemm_mma2{\"BM\":64,\"BN\":1}", GK_NOT_FOUND,
         "gemm_mma2 has no parameter 'BN'; it has BM"},
        {"gemm_mma{\"BM\":64,\"SWIZZLE\":1,\"stages\":2}", GK_INPUT,
         "parameter SWIZZLE is 1; allowed: \"none\", \"row\""},
        {"gemm_mma{\"BM\":64,\"SWIZZLE\":\"col\",\"stages\":2}", GK_INPUT, "SWIZZLE is \"col\""},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_config config = {.count = 77};
        uint32_t tree = 77;
        struct gk_err err;
        assert_status(gk_config_from_text(&def, cases[i].text, &config, &tree, &err),
                      cases[i].status, err);
        assert_contains(err.text, cases[i].part);
        assert_int_equal(config.count, 77);
        assert_int_equal(tree, 77);
        assert_int_equal(gk_config_from_text(&def, cases[i].text, &config, &tree, NULL),
                         cases[i].status);
    }
    struct gk_space_def empty = {0};
    struct gk_config config;
    uint32_t tree;
    struct gk_err err;
    assert_status(gk_config_from_text(&empty, "a{}", &config, &tree, &err), GK_NOT_FOUND, err);
    assert_contains(err.text, "there is none at all");
}

static void identity_covers_template_and_values(void **state)
{
    (void)state;
    struct gk_hash one = {{1}}, two = {{2}};
    struct gk_hash a = gk_config_id(&one, "t{\"BM\":1}"), b = gk_config_id(&two, "t{\"BM\":1}");
    struct gk_hash c = gk_config_id(&one, "t{\"BM\":2}"), d = gk_config_id(&one, "t{\"BM\":1}");
    assert_true(gk_hash_equal(&a, &d));
    assert_false(gk_hash_equal(&a, &b));
    assert_false(gk_hash_equal(&a, &c));
}

static void fini_frees_bases(void **state)
{
    (void)state;
    struct gk_space_def owned = {.tree_count = 1};
    owned.trees[0].base = calloc(4, sizeof *owned.trees[0].base);
    gk_space_def_fini(&owned);
    assert_int_equal(owned.tree_count, 0);
    gk_space_def_fini(&owned);
    gk_space_def_fini(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_config_are_inverse),
        cmocka_unit_test(keys_are_sorted_and_enums_named),
        cmocka_unit_test(refusals),
        cmocka_unit_test(identity_covers_template_and_values),
        cmocka_unit_test(fini_frees_bases),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
