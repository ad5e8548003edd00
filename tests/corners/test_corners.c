/*
 * Corners of every built-in space, through NVRTC and ptxas, for the target named (sm_80, sm_90a).
 *
 * A legal config must compile: each static assert of a template has a twin among its constraints.
 * For every value of every parameter one config that has it is compiled (the first legal one, and a
 * seeded choice of further ones), and every default that op.json names, which may not spill. Code
 * that several configs share is compiled once; after 80 modules of a problem no further choice
 * begins. Spills of others are printed: the tuner rejects them by the template's after-compile
 * constraint. Those of gemm_wgmma fail, since its constraints count registers, and so do ptxas's
 * warnings that it ignored setmaxnreg (C7508) or made wgmma wait for each product (C7510, C7511),
 * in any template.
 *
 * GKTUNE_TEST_SEED chooses the sample, and which problems are walked over for which target;
 * GKTUNE_TEST_ALL=1 takes all of them for both, two configs a value instead of one, and more
 * problems; a second argument takes those of the latter that have it in their text.
 * Exit 77 without NVRTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/prng.h"
#include "kernels/render.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "search/space.h"

#define OPTIONS_MAX 100
#define CHOSEN_MAX  4096
#define MODULES_MAX 8192
/* Of a problem, behind the first round of values: a minute or two on one core. */
#define PROBLEM_MODULES 80u

/* One problem for each way an op's sources fork: layouts, alignments, types, epilogues. */
static const char *const PROBLEMS[] = {
    "gemm{\"K\":1024,\"M\":1024,\"N\":1024}",
    "gemm{\"K\":1024,\"M\":16,\"N\":1024,\"dtype\":\"f16\",\"trans\":\"NN\"}",
    "gemm{\"K\":513,\"M\":129,\"N\":255,\"dtype_out\":\"f32\",\"trans\":\"TN\"}",
    "gemm{\"K\":4096,\"M\":1,\"N\":576}",
    "gemm{\"K\":1000,\"M\":20,\"N\":333,\"act\":\"silu\",\"align\":8,\"dtype\":\"f16\",\"trans\":"
    "\"TT\"}",
    "gemm{\"K\":2048,\"M\":128,\"N\":512,\"act\":\"silu\",\"dtype_out\":\"f16\"}",
    "gemm{\"K\":1024,\"M\":1000,\"N\":1000,\"act\":\"gelu\",\"alpha\":0.5,\"bias\":true,"
    "\"dtype\":\"f16\"}",
    "gemm{\"K\":512,\"M\":512,\"N\":512,\"act\":\"gelu\",\"bias\":true,\"trans\":\"TT\"}",
};
/* The same of ops whose spaces take longer than CI has: with GKTUNE_TEST_ALL. */
static const char *const MORE[] = {
    "attention_decode{\"batch\":1,\"kv_heads\":8,\"kv_len\":4096,\"q_heads\":32}",
    "attention_decode{\"batch\":8,\"head_dim\":64,\"kv_dtype\":\"e4m3\",\"kv_heads\":8,"
    "\"kv_len\":4096,\"page_size\":16,\"q_heads\":64}",
    "attention_decode{\"batch\":4,\"dtype\":\"f16\",\"head_dim\":256,\"kv_heads\":1,"
    "\"kv_len\":2048,\"page_size\":64,\"prefix_len\":512,\"q_heads\":16,\"q_len\":4,\"rope\":"
    "\"neox\"}",
    "attention_decode{\"batch\":8,\"dtype\":\"f16\",\"head_dim\":64,\"kv_heads\":8,"
    "\"kv_layout\":\"HND\",\"kv_len\":4096,\"page_size\":16,\"q_heads\":64,\"q_len\":4}",
    "swiglu_gateup{\"K\":4096,\"M\":16,\"N\":14336}",
    "swiglu_gateup{\"K\":513,\"M\":300,\"N\":255,\"dtype\":\"f16\",\"packed\":true}",
    "linear_cross_entropy{\"K\":4096,\"cols\":128256,\"rows\":256}",
    "linear_cross_entropy{\"K\":513,\"cols\":1000,\"rows\":300,\"smoothing\":0.1}",
    "rmsnorm_residual{\"cols\":8192,\"rows\":8192}",
    "layernorm_dropout_residual{\"cols\":12288,\"mask\":true,\"rows\":2048}",
    "silu_mul{\"cols\":28672,\"rows\":8192}",
    "rope{\"head_dim\":128,\"kv_heads\":8,\"q_heads\":32,\"tokens\":32768}",
    "softmax{\"cols\":128256,\"dtype\":\"f32\",\"rows\":64}",
    "cross_entropy{\"cols\":128256,\"grad\":true,\"rows\":16}",
    "cross_entropy{\"cols\":151936,\"rows\":4096}",
    "mla_decode{\"batch\":128,\"kv_len\":4096,\"q_heads\":16}",
    "mla_decode{\"batch\":4,\"dtype\":\"f16\",\"kv_dtype\":\"e4m3\",\"kv_len\":4096,\"q_heads\":"
    "128,"
    "\"q_len\":2}",
};
/* From the command line: what is looked at alone, part of the texts in MORE. */
static const char *wanted_problem;
/* Of these the default alone, unless GKTUNE_TEST_ALL is set: what stands in the space beside it is
 * near what registers hold, and is sent back where it spills. */
static const char *const DEFAULTS[] = {
    "attention{\"kv_heads\":8,\"q_heads\":32,\"seq_q\":4096}",
    "attention{\"head_dim\":64,\"mask\":\"full\",\"q_heads\":16,\"seq_q\":4096}",
    "attention{\"head_dim\":192,\"head_dim_v\":128,\"lse\":true,\"q_heads\":128,\"seq_q\":4096}",
    "attention{\"dtype\":\"f16\",\"head_dim\":256,\"q_heads\":16,\"seq_q\":4096,\"softcap\":50.0}",
    "attention{\"head_dim\":64,\"kv_heads\":8,\"mask\":\"window\",\"q_heads\":64,\"seq_q\":4096,"
    "\"sink\":"
    "true,\"window_left\":127}",
    "attention{\"kv_heads\":8,\"layout\":\"bhsd\",\"lse\":true,\"q_heads\":32,\"seq_q\":4096}",
};
/* From the command line: one process a target, so that both cores have work. */
static const char *wanted_target = "sm_80";

struct totals {
    uint32_t compiled, spilled;
};

static uint64_t env_number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static bool spills(const char *log)
{
    for (const char *at = log; (at = strstr(at, "bytes spill stores")) != NULL; at++) {
        const char *number = at;
        while (number > log && number[-1] != ',') {
            number--;
        }
        if (strtol(number, NULL, 10) > 0) {
            return true;
        }
    }
    return false;
}

/* ptxas gave up what makes the kernel fast. */
static bool warns(const char *log)
{
    return strstr(log, "C7508") || strstr(log, "C7510") || strstr(log, "C7511");
}

/* What was compiled before: configs that differ in numbers alone (splits, turns) share their code.
 */
static struct {
    struct gk_hash key;
    bool spills;
} modules[MODULES_MAX];
static uint32_t module_count;

/* Compiles one launch of a plan; false if it does not compile, or not as it is meant to, with the
 * log printed. */
static bool compile_launch(const struct gk_catalog *catalog, const struct gk_plan_launch *launch,
                           const char *target, bool *spills_out)
{
    struct gk_err err;
    char *text = NULL, *log = NULL;
    size_t size = 0;
    char storage[OPTIONS_MAX][160], folder[600];
    const char *options[OPTIONS_MAX + 5];
    uint32_t used = 0;
    const char *source = launch->def->source, *slash = strrchr(source, '/');
    if (gk_catalog_file(catalog, source, &text, &size, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    options[used++] = "-std=c++17";
    options[used++] = "--ptxas-options=-v";
    options[used++] = "-I" GK_SOURCE_DIR "/kernels/include";
    /* What stands beside the source, as `#include "x"` finds it. */
    (void)snprintf(folder, sizeof folder, "-I" GK_SOURCE_DIR "/kernels/%.*s",
                   slash ? (int)(slash - source) : 0, source); /* paths are bounded */
    options[used++] = folder;
    for (uint32_t j = 0; j < launch->define_count && used < OPTIONS_MAX; j++) {
        (void)snprintf(storage[j], sizeof storage[j], "-D%s",
                       launch->defines[j]); /* names are bounded */
        options[used++] = storage[j];
    }
    options[used] = NULL;
    char *ptx = nvrtc_for_tests_compile(text, source, target, options, &log);
    bool good = ptx != NULL && !(log && warns(log));
    if (!good) {
        print_message("%s for %s does not compile: %s\n", source, target, log ? log : "no log");
    }
    *spills_out = log && spills(log);
    free(ptx);
    free(log);
    free(text);
    return good;
}

/* Compiles the launches of the config that the problem has. */
static bool compile_config(const struct gk_catalog *catalog, const struct gk_op *op,
                           const struct gk_problem *problem, const struct gk_config *config,
                           const struct gk_device_props *props, const char *target,
                           bool *spilled_out)
{
    const struct gk_template *template_ = NULL;
    struct gk_plan plan = {0};
    struct gk_err err;
    bool good = true;
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, config->template_name) == 0) {
            template_ = &op->templates[i];
        }
    }
    assert_non_null(template_);
    if (gk_plan_render(op, template_, problem, config, props, &plan, &err) != GK_OK) {
        fail_msg("%s: %s", problem->canonical, err.text);
    }
    for (uint32_t i = 0; good && i < plan.launch_count; i++) {
        uint32_t at = 0;
        if (!plan.launches[i].present) {
            continue;
        }
        while (at < module_count &&
               !gk_hash_equal(&modules[at].key, &plan.launches[i].module_key)) {
            at++;
        }
        if (at == module_count) {
            assert_true(module_count < MODULES_MAX);
            modules[at].key = plan.launches[i].module_key;
            good = compile_launch(catalog, &plan.launches[i], target, &modules[at].spills);
            module_count++;
        }
        *spilled_out = *spilled_out || modules[at].spills;
    }
    gk_plan_fini(&plan);
    return good;
}

/* One config (or four) for each value of each parameter, without repeats; *first_out: how many
 * stand for one round of values. */
static uint32_t choose(const struct gk_space *space, uint64_t seed, uint32_t each, uint32_t *chosen,
                       uint32_t *first_out)
{
    struct gk_prng prng;
    uint32_t count = gk_space_count(space), used = 0;
    bool *taken = calloc(count, sizeof *taken);
    bool *met = calloc((size_t)GK_TREES_MAX * GK_PARAMS_MAX * GK_PARAM_VALUES_MAX, sizeof *met);
    assert_non_null(taken);
    assert_non_null(met);
    for (uint32_t round = 0; round < each; round++) {
        gk_prng_init(&prng, seed, round);
        memset(met, 0, (size_t)GK_TREES_MAX * GK_PARAMS_MAX * GK_PARAM_VALUES_MAX * sizeof *met);
        uint32_t start = round == 0 ? 0 : (uint32_t)gk_prng_below(&prng, count);
        for (uint32_t step = 0; step < count && used < CHOSEN_MAX; step++) {
            /* A stride that shares no factor with most counts walks the space in a mixed order. */
            uint32_t index = (uint32_t)((start + (uint64_t)step * 7919u) % count);
            uint8_t digits[GK_PARAMS_MAX];
            struct gk_config config;
            gk_space_digits(space, index, digits);
            gk_space_config(space, index, &config);
            bool fresh = false;
            size_t tree = gk_space_tree_of(space, index);
            for (uint32_t i = 0; i < config.count; i++) {
                bool *mark = &met[(tree * GK_PARAMS_MAX + i) * GK_PARAM_VALUES_MAX + digits[i]];
                fresh = fresh || !*mark;
                *mark = true;
            }
            if (fresh && !taken[index]) {
                taken[index] = true;
                chosen[used++] = index;
            }
        }
        *first_out = round == 0 ? used : *first_out;
    }
    free(met);
    free(taken);
    return used;
}

static void check_problem(const struct gk_catalog *catalog, const char *text, const char *target,
                          bool only_default, struct totals *totals)
{
    struct gk_err err;
    char name[GK_NAME_MAX], device[64];
    struct gk_problem problem;
    struct gk_device_props props;
    struct gk_space_def def;
    struct gk_space *space = NULL;
    static uint32_t chosen[CHOSEN_MAX];

    (void)snprintf(device, sizeof device, "emu:%s", target); /* fits */
    if (gk_problem_op_of(text, name, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    const struct gk_op *op = gk_catalog_find(catalog, name);
    assert_non_null(op);
    if (gk_problem_from_text(&op->fields, text, &problem, &err) != GK_OK ||
        gk_device_props_builtin(device, &props, &err) != GK_OK ||
        gk_catalog_space(op, &problem, &props, &def, &err) != GK_OK ||
        gk_space_create(&def, &space, &err) != GK_OK) {
        fail_msg("%s on %s: %s", text, target, err.text);
    }
    bool all = test_takes_all();
    uint32_t first = 0, count = 0;
    if (all || !only_default) {
        count = choose(space, env_number("GKTUNE_TEST_SEED", 1), all && !only_default ? 2 : 1,
                       chosen, &first);
    }
    uint32_t spilled_here = 0, modules_before = module_count;
    for (uint32_t i = 0; i < count; i++) {
        if (i >= first && module_count - modules_before >= PROBLEM_MODULES) {
            count = i; /* what a seed chooses later stays for another one */
        }
        if (i == count) {
            break;
        }
        struct gk_config config;
        bool spilled = false;
        gk_space_config(space, chosen[i], &config);
        if (!compile_config(catalog, op, &problem, &config, &props, target, &spilled)) {
            uint32_t tree = gk_space_tree_of(space, chosen[i]);
            char *shown = gk_config_text(&def.trees[tree], &config);
            fail_msg("legal config %s of %s does not compile for %s", shown, text, target);
        }
        if (spilled && strcmp(config.template_name, "gemm_wgmma") == 0) {
            char *shown = gk_config_text(&def.trees[gk_space_tree_of(space, chosen[i])], &config);
            fail_msg("legal config %s of %s spills registers", shown, text);
        }
        spilled_here += spilled;
    }
    struct gk_config fallback;
    uint32_t tree = 0;
    bool spilled = false;
    if (gk_catalog_default(op, &problem, &def, &fallback, &tree, &err) != GK_OK) {
        fail_msg("%s on %s has no default: %s", text, target, err.text);
    }
    assert_true(compile_config(catalog, op, &problem, &fallback, &props, target, &spilled));
    if (spilled) {
        fail_msg("the default of %s on %s spills registers", text, target);
    }
    print_message("%s %s: %u legal, %u compiled (%u modules), %u spill\n", target, text,
                  gk_space_count(space), count + 1, module_count - modules_before, spilled_here);
    totals->compiled += count + 1;
    totals->spilled += spilled_here;
    gk_space_destroy(space);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
}

/* Each problem is walked over for one of the targets, as the seed says; for the other its default
 * alone. */
static bool is_in_turn(size_t problem)
{
    uint64_t other = strcmp(wanted_target, "sm_80") == 0;
    return test_takes_all() || (problem + env_number("GKTUNE_TEST_SEED", 1) + other) % 2 == 0;
}

static void corners_compile(void **state)
{
    (void)state;
    struct gk_diag diag;
    struct gk_err err;
    struct gk_catalog *catalog = NULL;
    struct totals totals = {0};
    gk_diag_init(&diag);
    if (gk_catalog_load(GK_SOURCE_DIR "/kernels", &catalog, &diag) != GK_OK) {
        (void)gk_diag_status(&diag, &err); /* fills err; the failure is known */
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; !wanted_problem && i < GK_ARRAY_COUNT(PROBLEMS); i++) {
        check_problem(catalog, PROBLEMS[i], wanted_target, !is_in_turn(i), &totals);
    }
    for (size_t i = 0; !wanted_problem && i < GK_ARRAY_COUNT(DEFAULTS); i++) {
        check_problem(catalog, DEFAULTS[i], wanted_target, true, &totals);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(MORE); i++) {
        if (wanted_problem ? strstr(MORE[i], wanted_problem) != NULL : test_takes_all()) {
            check_problem(catalog, MORE[i], wanted_target, false, &totals);
        }
    }
    print_message("%u configs compiled of %u modules, %u spill\n", totals.compiled, module_count,
                  totals.spilled);
    assert_true(totals.compiled > 0);
    gk_catalog_destroy(catalog);
    gk_diag_fini(&diag);
}

int main(int argc, char **argv)
{
    wanted_target = argc > 1 ? argv[1] : wanted_target;
    wanted_problem = argc > 2 ? argv[2] : NULL;
    if (!nvrtc_for_tests_available()) {
        printf("NVRTC was not found: nothing can be compiled here\n");
        return 77;
    }
    struct gk_err err;
    if (gk_hash_setup(&err) != GK_OK) {
        printf("%s\n", err.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(corners_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
