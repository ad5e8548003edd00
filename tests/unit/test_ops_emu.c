/*
 * The ops beside gemm, each through a trial on the emulated devices: edge shapes, the default
 * config and a seeded choice of others, of each template in turn. Whatever is legal must compile,
 * verify on an input set and leave everything else alone. A problem runs on one of two targets: on
 * sm_90 launches of some templates overlap.
 *
 * GKTUNE_TEST_SEED chooses the sample; GKTUNE_TEST_ALL=1 takes every problem on both targets, and
 * two configs of each there beside the default (not with the sanitizers). An argument confines
 * the run to ops of that name. Which rung caught what is tested in test_trial; the broken twins of
 * these kernels stand in tests/data/bad_kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/prng.h"
#include "search/space.h"
#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/op_trial.h"
#include "worker/generate.h"

/* Problems, and ops, are taken one in so many: all of an op's take seconds, and the sanitizers,
 * which look at the interpreter and not at kernels, make it slow. */
#ifdef __SANITIZE_ADDRESS__
#define STEP    24
#define STEP_OP 4
#else
#define STEP    12
#define STEP_OP 2
#endif

static struct op_trial_rig rigs[2]; /* sm_80, sm_90a */
static uint32_t tried, sent_back;   /* configs */
static const char *only = "";       /* ops with this in their name */

struct edge {
    const char *op;
    const char *problems[16];
};

/* Rows and columns of one, odd ones, just over what a config holds, strides between rows, types,
 * flags. */
static const struct edge EDGES[] = {
    {"rmsnorm_residual",
     {"{\"cols\":1,\"rows\":1}", "{\"cols\":192,\"rows\":17}", "{\"cols\":257,\"rows\":3}",
      "{\"cols\":760,\"ld\":768,\"rows\":5,\"dtype\":\"f16\"}",
      "{\"cols\":1128,\"rows\":9,\"residual\":false}",
      "{\"cols\":1000,\"rows\":2,\"weight\":\"one_plus\",\"dtype_weight\":\"f32\"}",
      "{\"cols\":3001,\"rows\":3,\"cast\":\"before\"}",
      "{\"cols\":4097,\"rows\":2,\"dtype\":\"f32\",\"weight\":\"none\"}",
      "{\"cols\":520,\"rows\":4,\"align\":4,\"dtype_weight\":\"f16\",\"cast\":\"before\"}",
      "{\"cols\":65544,\"rows\":1}", "{\"cols\":70001,\"rows\":1,\"dtype\":\"f32\"}",
      "{\"cols\":262144,\"rows\":1}",
      "{\"cols\":17003,\"rows\":5,\"dtype\":\"f16\",\"residual\":false,\"weight\":\"one_plus\"}",
      "{\"cols\":20000,\"rows\":3,\"ld\":20004,\"dtype_weight\":\"f32\",\"cast\":\"before\"}",
      "{\"cols\":4096,\"rows\":8,\"dtype\":\"f16\",\"cast\":\"before\",\"eps\":1e-6,\"residual\":"
      "false}"}},
    {"silu_mul",
     {"{\"cols\":1,\"rows\":1}", "{\"cols\":257,\"rows\":5}",
      "{\"cols\":1000,\"rows\":3,\"dtype\":\"f16\"}",
      "{\"cols\":760,\"rows\":9,\"packed\":false,\"ld\":768}",
      "{\"cols\":2056,\"rows\":2,\"dtype\":\"f32\"}", "{\"cols\":72,\"rows\":40,\"align\":2}",
      "{\"cols\":20000,\"rows\":2,\"ld_out\":20008}"}},
    {"gelu_mul",
     {"{\"cols\":3,\"rows\":7}", "{\"cols\":513,\"rows\":4,\"approx\":\"tanh\"}",
      "{\"cols\":1024,\"rows\":3,\"dtype\":\"f32\"}",
      "{\"cols\":1024,\"rows\":3,\"dtype\":\"f32\",\"approx\":\"tanh\",\"packed\":false}"}},
    {"softmax",
     {"{\"cols\":1,\"rows\":3}", "{\"cols\":2,\"rows\":33}",
      "{\"cols\":127,\"rows\":5,\"dtype\":\"f32\"}", "{\"cols\":1000,\"rows\":3,\"scale\":0.125}",
      "{\"cols\":1024,\"rows\":2,\"dtype_out\":\"f32\"}",
      "{\"cols\":668,\"rows\":4,\"ld\":672,\"ld_out\":680,\"dtype\":\"f16\"}",
      "{\"cols\":3000,\"rows\":2,\"scale\":40.0}", "{\"cols\":65544,\"rows\":1}",
      "{\"cols\":40001,\"rows\":1,\"dtype\":\"f32\"}", "{\"cols\":262140,\"rows\":1}",
      "{\"cols\":131,\"rows\":3,\"scale\":0.0}", "{\"cols\":30001,\"rows\":3,\"scale\":0.0}",
      "{\"cols\":16500,\"rows\":6,\"ld\":16504,\"dtype\":\"f16\",\"dtype_out\":\"f32\"}",
      "{\"cols\":70000,\"rows\":2,\"scale\":30.0}"}},
    {"cross_entropy",
     {"{\"cols\":1,\"rows\":3}", "{\"cols\":668,\"rows\":20,\"grad\":true}",
      "{\"cols\":1000,\"rows\":12,\"dtype\":\"f32\",\"smoothing\":0.1,\"z_loss\":0.001}",
      "{\"cols\":257,\"rows\":33,\"grad\":true,\"ignore_index\":5,\"smoothing\":1.0}",
      "{\"cols\":123,\"rows\":9,\"dtype\":\"f16\",\"grad\":true,\"grad_scale\":64.0,\"ld\":128}",
      "{\"cols\":70000,\"rows\":3,\"grad\":true,\"z_loss\":0.0001}",
      "{\"cols\":262144,\"rows\":2,\"ld\":262152}",
      "{\"cols\":20001,\"rows\":2,\"grad\":true,\"smoothing\":0.1,\"z_loss\":0.001,\"ld\":20008}",
      "{\"cols\":1000,\"dtype\":\"f16\",\"grad\":true,\"grad_scale\":0.0000152587890625,\"rows\":"
      "8}",
      "{\"cols\":100,\"dtype\":\"f16\",\"grad\":true,\"grad_scale\":1e-12,\"rows\":8}"}},
    {"layernorm_dropout_residual",
     {"{\"cols\":1,\"rows\":2}", "{\"cols\":257,\"rows\":5,\"dtype\":\"f16\",\"mask\":true}",
      "{\"cols\":1000,\"rows\":3,\"dtype_weight\":\"f32\",\"mask\":true,\"seed\":123456789012}",
      "{\"cols\":760,\"rows\":9,\"dropout\":false,\"affine\":false,\"dtype\":\"f32\",\"residual\":"
      "false}",
      "{\"cols\":3001,\"rows\":2,\"drop\":0.5,\"ld\":3008,\"mask\":true}",
      "{\"cols\":100,\"rows\":3,\"drop\":1.0,\"mask\":true}",
      "{\"cols\":100,\"rows\":3,\"drop\":0.0,\"mask\":true}",
      "{\"cols\":70001,\"rows\":1,\"dtype\":\"f32\",\"mask\":true}", "{\"cols\":262144,\"rows\":1}",
      "{\"cols\":16401,\"rows\":4,\"ld\":16408,\"dtype\":\"f16\",\"mask\":true,\"drop\":0.4}",
      "{\"cols\":20000,\"rows\":2,\"residual\":false,\"affine\":false,\"dropout\":false}",
      "{\"cols\":20000,\"rows\":40}"}},
    {"swiglu_gateup",
     {"{\"M\":1,\"N\":1,\"K\":1}", "{\"M\":33,\"N\":70,\"K\":200}",
      "{\"M\":3,\"N\":40,\"K\":1030,\"packed\":true,\"align\":4}",
      "{\"M\":17,\"N\":48,\"K\":160,\"dtype\":\"f16\",\"ldx\":168,\"ldw\":176,\"ldo\":56}",
      "{\"M\":66,\"N\":33,\"K\":65,\"dtype_out\":\"f32\",\"packed\":true}",
      "{\"M\":20,\"N\":96,\"K\":512,\"ldo\":98}"}},
    {"linear_cross_entropy",
     {"{\"rows\":1,\"cols\":1,\"K\":1}", "{\"rows\":20,\"cols\":100,\"K\":64}",
      "{\"rows\":3,\"cols\":1111,\"K\":40,\"smoothing\":0.1,\"z_loss\":0.001}",
      "{\"rows\":66,\"cols\":257,\"K\":33,\"dtype\":\"f16\",\"align\":2,\"ignore_index\":5}",
      "{\"rows\":17,\"cols\":67,\"K\":130,\"ldx\":136,\"ldw\":144,\"smoothing\":1.0}"}},
    {"rope",
     {"{\"tokens\":1,\"q_heads\":1,\"kv_heads\":1,\"head_dim\":2}",
      "{\"tokens\":7,\"q_heads\":5,\"kv_heads\":1,\"head_dim\":128}",
      "{\"tokens\":33,\"q_heads\":4,\"kv_heads\":2,\"head_dim\":64,\"style\":\"gptj\",\"dtype\":"
      "\"f16\"}",
      "{\"tokens\":5,\"q_heads\":9,\"kv_heads\":3,\"head_dim\":96,\"rotary_dim\":32,\"in_place\":"
      "true}",
      "{\"tokens\":3,\"q_heads\":2,\"kv_heads\":2,\"head_dim\":80,\"rotary_dim\":20,\"dtype\":"
      "\"f32\"}",
      "{\"tokens\":2,\"q_heads\":3,\"kv_heads\":1,\"head_dim\":10,\"rotary_dim\":6,\"align\":2}",
      "{\"tokens\":4,\"q_heads\":8,\"kv_heads\":8,\"head_dim\":256,\"rotary_dim\":64,\"style\":"
      "\"gptj\",\"in_place\":true}"}},
    {"attention",
     {"{\"q_heads\":2,\"kv_heads\":1,\"seq_q\":70,\"seq_kv\":150,\"lse\":true}",
      "{\"batch\":4,\"q_heads\":2,\"head_dim\":64,\"q_len\":{\"each\":[17,0,1,40]},\"kv_len\":{"
      "\"each\":[5,9,1,0]},\"lse\":true}",
      "{\"q_heads\":2,\"kv_heads\":1,\"head_dim\":64,\"seq_q\":40,\"seq_kv\":21,\"layout\":"
      "\"bhsd\",\"dtype\":\"f16\"}",
      "{\"q_heads\":1,\"head_dim\":192,\"head_dim_v\":128,\"seq_q\":65}",
      "{\"q_heads\":1,\"head_dim\":96,\"seq_q\":19,\"seq_kv\":113,\"mask\":\"window\",\"window_"
      "left\":20,\"window_right\":3,\"sink_tokens\":5}",
      "{\"q_heads\":1,\"head_dim\":256,\"seq_q\":17,\"seq_kv\":33,\"softcap\":20.0,\"mask\":"
      "\"full\"}",
      "{\"q_heads\":6,\"kv_heads\":2,\"head_dim\":64,\"seq_q\":20,\"seq_kv\":40,\"alibi\":true,"
      "\"sink\":true,\"lse\":true,\"layout\":\"bhsd\"}",
      "{\"q_heads\":2,\"kv_heads\":1,\"head_dim\":64,\"seq_q\":20,\"seq_kv\":70,\"rope\":\"neox\","
      "\"q_ld\":192,\"k_ld\":136}"}},
    {"attention",
     {"{\"batch\":2,\"q_heads\":1,\"head_dim\":64,\"seq_q\":33,\"mask\":\"full\"}",
      "{\"q_heads\":2,\"head_dim\":96,\"seq_q\":35,\"seq_kv\":30,\"rope\":\"gptj\",\"rotary_dim\":"
      "32}",
      "{\"q_heads\":8,\"kv_heads\":2,\"head_dim\":64,\"seq_q\":5,\"seq_kv\":64,\"mask\":\"full\"}",
      "{\"q_heads\":2,\"head_dim\":64,\"seq_q\":1,\"seq_kv\":300,\"q_ld\":384,\"k_ld\":384,\"v_"
      "ld\":384,\"o_ld\":136}",
      "{\"q_heads\":1,\"head_dim\":80,\"seq_q\":64,\"scale\":30.0}",
      "{\"q_heads\":1,\"head_dim\":16,\"head_dim_v\":48,\"seq_q\":3,\"seq_kv\":0,\"lse\":true}",
      "{\"q_heads\":2,\"head_dim\":64,\"seq_q\":60,\"seq_kv\":90,\"mask\":\"window\",\"window_"
      "left\":11,\"lse\":true,\"layout\":\"bhsd\"}",
      "{\"batch\":2,\"q_heads\":2,\"head_dim\":128,\"q_len\":{\"each\":[1,130]},\"kv_len\":{"
      "\"each\":[257,3]},\"mask\":\"full\",\"sink\":true,\"dtype\":\"f16\"}"}},
    {"attention", /* turned elements near a tie; scores far above their cap, or below their sink */
     {"{\"q_heads\":2,\"head_dim\":64,\"seq_q\":100,\"lse\":true,\"rope\":\"neox\"}",
      "{\"q_heads\":1,\"head_dim\":64,\"seq_q\":100,\"lse\":true,\"rope\":\"gptj\",\"dtype\":"
      "\"f16\"}",
      "{\"q_heads\":1,\"head_dim\":64,\"seq_q\":100,\"lse\":true,\"softcap\":30.0}",
      "{\"q_heads\":2,\"head_dim\":64,\"seq_q\":70,\"softcap\":5.0,\"dtype\":\"f16\"}",
      "{\"q_heads\":64,\"kv_heads\":1,\"head_dim\":64,\"seq_q\":4,\"sink\":true}",
      "{\"q_heads\":1,\"head_dim\":64,\"seq_q\":40,\"lse\":true,\"softcap\":10000.0}",
      "{\"q_heads\":1,\"head_dim\":64,\"seq_q\":40,\"softcap\":1000000.0}"}},
    {"attention_decode",
     {"{\"batch\":1,\"q_heads\":1,\"kv_len\":1}",
      "{\"batch\":1,\"q_heads\":2,\"kv_heads\":1,\"kv_len\":41,\"softmax_scale\":0.0}",
      "{\"batch\":2,\"q_heads\":2,\"kv_len\":70,\"kv_lens\":{\"each\":[0,0]},\"page_size\":16}",
      "{\"batch\":2,\"q_heads\":8,\"kv_heads\":2,\"kv_len\":128,\"head_dim\":64}",
      "{\"batch\":1,\"q_heads\":3,\"kv_heads\":1,\"kv_len\":517,\"dtype\":\"f16\",\"lse\":true}",
      "{\"batch\":3,\"q_heads\":4,\"kv_heads\":2,\"kv_len\":200,\"kv_lens\":{\"each\":[0,200,1]},"
      "\"q_len\":3,\"lse\":true,\"head_dim\":64}",
      "{\"batch\":1,\"q_heads\":2,\"kv_heads\":1,\"kv_len\":130,\"head_dim\":256,\"causal\":false,"
      "\"q_len\":2,\"kv_layout\":\"HND\"}",
      "{\"batch\":4,\"q_heads\":4,\"kv_heads\":2,\"kv_len\":260,\"kv_lens\":{\"each\":[17,0,260,64]"
      "},\"page_size\":16,\"head_dim\":64,\"lse\":true}",
      "{\"batch\":2,\"q_heads\":5,\"kv_heads\":1,\"kv_len\":300,\"kv_lens\":{\"each\":[300,31]},"
      "\"page_size\":64,\"kv_layout\":\"HND\",\"dtype\":\"f16\",\"q_len\":4}",
      "{\"batch\":2,\"q_heads\":4,\"kv_heads\":2,\"kv_len\":150,\"kv_lens\":{\"each\":[150,33]},"
      "\"kv_dtype\":\"e4m3\",\"page_size\":32,\"lse\":true}",
      "{\"batch\":1,\"q_heads\":16,\"kv_heads\":1,\"kv_len\":70,\"kv_dtype\":\"e4m3\",\"dtype\":"
      "\"f16\",\"q_len\":2,\"head_dim\":96}",
      "{\"batch\":2,\"q_heads\":4,\"kv_heads\":2,\"kv_len\":90,\"kv_lens\":{\"each\":[2,90]},"
      "\"rope\":\"neox\",\"q_len\":4,\"head_dim\":64,\"lse\":true}",
      "{\"batch\":1,\"q_heads\":2,\"kv_heads\":1,\"kv_len\":100,\"rope\":\"gptj\",\"rotary_dim\":"
      "32,\"head_dim\":64,\"page_size\":16,\"kv_dtype\":\"e4m3\"}",
      "{\"batch\":3,\"q_heads\":4,\"kv_heads\":2,\"kv_len\":60,\"kv_lens\":{\"each\":[60,0,5]},"
      "\"prefix_len\":150,\"head_dim\":64,\"lse\":true}",
      "{\"batch\":5,\"q_heads\":4,\"kv_heads\":4,\"kv_len\":40,\"prefix_len\":33,\"page_size\":16,"
      "\"q_len\":2,\"rope\":\"neox\",\"head_dim\":64}",
      "{\"batch\":9,\"q_heads\":2,\"kv_heads\":1,\"kv_len\":33,\"head_dim\":32,\"kv_lens\":{"
      "\"draw\":\"uniform\",\"min\":0,\"max\":33,\"seed\":1},\"causal\":false,\"q_len\":8}"}},
    {"mla_decode",
     {"{\"batch\":2,\"q_heads\":1,\"kv_len\":1,\"kv_lens\":{\"each\":[0,0]},\"lse\":true}",
      "{\"batch\":2,\"q_heads\":16,\"kv_len\":100,\"lse\":true}",
      "{\"batch\":3,\"q_heads\":16,\"kv_len\":150,\"kv_lens\":{\"each\":[150,0,65]},\"q_len\":2,"
      "\"lse\":true}",
      "{\"batch\":1,\"q_heads\":5,\"kv_len\":64,\"q_len\":2,\"causal\":false,\"dtype\":\"f16\"}",
      "{\"batch\":2,\"q_heads\":32,\"kv_len\":130,\"kv_lens\":{\"each\":[1,130]},\"q_len\":2,\"kv_"
      "dtype\":\"e4m3\",\"lse\":true}",
      "{\"batch\":1,\"q_heads\":64,\"kv_len\":40,\"page_size\":0,\"latent_dim\":256,\"rope_dim\":"
      "32}",
      "{\"batch\":1,\"q_heads\":128,\"kv_len\":33,\"dtype\":\"f16\"}",
      "{\"batch\":2,\"q_heads\":3,\"kv_len\":200,\"kv_lens\":{\"draw\":\"uniform\",\"min\":0,"
      "\"max\":200,\"seed\":3},\"kv_dtype\":\"e4m3\",\"dtype\":\"f16\",\"latent_dim\":512}"}},
};

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

static uint64_t env_number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

/* One config through a trial. */
static void check(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                  const struct gk_op *op, const struct op_trial_asked *asked, const char *what,
                  uint32_t set)
{
    struct gk_record record;
    op_trial_run(rig, catalog, op, &asked->problem, &asked->config, set, &record);
    /* A rule after compiling may send a config back: registers are known only then. */
    if (record.failure != GK_FAILURE_NONE && record.failure != GK_FAILURE_RESOURCES) {
        char *text = gk_config_text(&asked->def.trees[asked->tree], &asked->config);
        fail_msg("%s %s: %s at %s: %s", what, text, gk_failure_name(record.failure),
                 gk_stage_name(record.stage), record.message);
    }
    tried += record.failure == GK_FAILURE_NONE;
    sent_back += record.failure != GK_FAILURE_NONE;
    gk_record_fini(&record);
}

/* A config of one template: the next one of it behind `start`; templates lie behind one another. */
static uint32_t of_tree(const struct gk_space *space, uint32_t tree, uint32_t start)
{
    uint32_t count = gk_space_count(space);
    for (uint32_t step = 0; step < count; step++) {
        uint32_t index = (uint32_t)(((uint64_t)start + step) % count);
        if (gk_space_tree_of(space, index) == tree) {
            return index;
        }
    }
    return start; /* no config of it is legal */
}

static void check_problem(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                          const struct gk_op *op, const char *text, uint64_t seed, uint32_t sampled)
{
    struct op_trial_asked asked;
    struct gk_space *space = NULL;
    struct gk_prng prng;
    struct gk_err err = {0};
    op_trial_ask(op, text, &rig->device->props, "", &asked);
    check(rig, catalog, op, &asked, text, GK_INPUT_SETS_ALL);
    op_trial_need(gk_space_create(&asked.def, &space, &err), &err);
    gk_prng_init(&prng, seed, 0);
    for (uint32_t i = 0; i < sampled; i++) {
        uint32_t start = (uint32_t)gk_prng_below(&prng, gk_space_count(space));
        uint32_t index = of_tree(space, (uint32_t)((seed + i) % asked.def.tree_count), start);
        gk_space_config(space, index, &asked.config);
        asked.tree = (uint32_t)gk_space_tree_of(space, index);
        check(rig, catalog, op, &asked, text, i % GK_INPUT_SETS);
    }
    gk_space_destroy(space);
    op_trial_asked_fini(&asked);
}

static void check_op(const struct edge *edge)
{
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", edge->op);
    char text[256];
    bool all = test_takes_all();
    uint64_t seed = env_number("GKTUNE_TEST_SEED", 1), step = all ? 1 : STEP;
    size_t count = 0;
    while (count < GK_ARRAY_COUNT(edge->problems) && edge->problems[count]) {
        count++;
    }
    step = step < count ? step : count; /* one problem of each op at least */
    tried = sent_back = 0;
    for (size_t i = seed % step; i < count; i += step) {
        (void)snprintf(text, sizeof text, "%s%s", edge->op, edge->problems[i]); /* short ones */
        for (size_t target = 0; target < GK_ARRAY_COUNT(rigs); target++) {
            if (all || (seed + i) % GK_ARRAY_COUNT(rigs) == target) {
                check_problem(&rigs[target], catalog, gk_catalog_find(catalog, edge->op), text,
                              seed / 2 + i / 2, all ? 2 : 1);
            }
        }
    }
    gk_catalog_destroy(catalog);
    print_message("%s: %u configs verified, %u sent back after compiling\n", edge->op, tried,
                  sent_back);
    assert_true(tried > 0);
}

static void every_op(void **state)
{
    (void)state;
    uint64_t seed = env_number("GKTUNE_TEST_SEED", 1);
    uint64_t step = test_takes_all() || only[0] ? 1 : STEP_OP;
    for (size_t i = 0; i < GK_ARRAY_COUNT(EDGES); i++) {
        if ((i + seed) % step == 0 && strstr(EDGES[i].op, only)) {
            check_op(&EDGES[i]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op)};
    only = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
