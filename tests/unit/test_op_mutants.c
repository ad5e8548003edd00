/*
 * The score of trials on the emulated device: mutants of the PTX of ops under kernels/, each of
 * which a trial must end, on the ladder or by a fault. In every launch each wait, fence, barrier,
 * commit and arrive is removed in turn and each count changed by one unit; where a case says so,
 * comparisons are one off and stores left out too.
 *
 * What survives must stand in tests/data/mutants/equivalent_ops.txt with the reason why it changes
 * nothing; a survivor without an entry fails the test, and so does, if all mutants run, an entry
 * that no survivor meets. Of several copies of one line an entry stands for those that survive; if
 * its reason begins with "elsewhere", one of them must be rejected.
 *
 * All run with GKTUNE_TEST_ALL set, else a sample by GKTUNE_TEST_SEED. Arguments are kernels to
 * which the run is confined. GK_MUTANTS_SHOW=1 prints how each ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/prng.h"
#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/mutant_table.h"
#include "tests/unit/op_trial.h"

#define TABLE GK_SOURCE_DIR "/tests/data/mutants/equivalent_ops.txt"

/* Mutants of a launch that a sample takes. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE    1u
#define SAMPLE_OF 9u /* cases: one in so many */
#else
#define SAMPLE    2u
#define SAMPLE_OF 3u
#endif

/* A mutant may go astray; the cases take less than a hundredth of this. */
#define WORK_LIMIT INT64_C(40000000)

/* A mutant is rejected when one of the problems ends it. All are solved by the same code. */
#define PROBLEMS_MAX 4
static const struct op_case {
    const char *what, *op, *device, *config; /* config: as in ops.txt */
    bool edges;
    const char *problems[PROBLEMS_MAX];
    const char *only; /* the kernel that is changed; NULL: all */
} CASES[] = {
    {"two stages, packed",
     "attention",
     "emu:sm_80",
     "BM=32,BN=16,WARPS=2,STAGES=2,QUERIES=registers,PACK=1",
     false,
     {"{\"head_dim\":32,\"kv_heads\":1,\"lse\":true,\"q_heads\":2,\"seq_kv\":75,\"seq_q\":20}"},
     NULL},
    {"one stage, turned keys, a window",
     "attention",
     "emu:sm_80",
     "BM=32,BN=16,WARPS=2,STAGES=1,QUERIES=shared",
     false,
     {"{\"head_dim\":32,\"mask\":\"window\",\"q_heads\":1,\"rope\":\"neox\",\"seq_kv\":75,\"seq_"
      "q\":40,\"sink_tokens\":3,\"window_left\":20}"},
     NULL},
    {"pages, parts, a second launch",
     "attention_decode",
     "emu:sm_90a",
     "WARPS=2,KEYS=16,STAGES=3,SPLITS=3,COMBINE=launch",
     false,
     {"{\"batch\":2,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":200,\"kv_lens\":{\"each\":[200,37]},"
      "\"lse\":true,\"page_size\":16,\"q_heads\":2}"},
     NULL},
    {"the last block adds",
     "attention_decode",
     "emu:sm_80",
     "WARPS=2,KEYS=16,STAGES=2,SPLITS=3,COMBINE=last",
     false,
     {"{\"batch\":1,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":200,\"lse\":true,\"q_heads\":2,\"q_"
      "len\":2}"},
     NULL},
    {"a cluster adds, early copies",
     "attention_decode",
     "emu:sm_90a",
     "WARPS=2,KEYS=16,STAGES=3,SPLITS=3,COMBINE=cluster,EARLY=yes",
     false,
     {"{\"batch\":2,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":200,\"kv_lens\":{\"each\":[200,170]},"
      "\"lse\":true,\"q_heads\":2,\"q_len\":2}"},
     NULL},
    {"a cluster sends",
     "attention_decode",
     "emu:sm_90a",
     "WARPS=2,KEYS=16,STAGES=2,SPLITS=3,COMBINE=cluster_send,EARLY=no",
     false,
     {"{\"batch\":2,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":200,\"kv_lens\":{\"each\":[200,37]},"
      "\"lse\":true,\"q_heads\":2,\"q_len\":2}"},
     NULL},
    {"turned keys, a prefix",
     "attention_decode",
     "emu:sm_80",
     "WARPS=2,KEYS=16,STAGES=2,SPLITS=1",
     false,
     {"{\"batch\":2,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":40,\"prefix_len\":40,\"q_heads\":2,"
      "\"rope\":\"gptj\"}"},
     NULL},
    {"parts, a second launch",
     "mla_decode",
     "emu:sm_90a",
     "KEYS=16,WARPS=4,STAGES=3,SPLITS=3",
     false,
     {"{\"batch\":2,\"kv_len\":150,\"kv_lens\":{\"each\":[150,20]},\"latent_dim\":128,\"lse\":true,"
      "\"q_heads\":4,\"rope_dim\":16}"},
     NULL},
    {"narrow latents",
     "mla_decode",
     "emu:sm_80",
     "KEYS=16,WARPS=4,STAGES=2,SPLITS=1",
     false,
     {"{\"batch\":1,\"kv_dtype\":\"e4m3\",\"kv_len\":50,\"q_heads\":2}"},
     NULL},
    {"rows in turn",
     "rmsnorm_residual",
     "emu:sm_80",
     "THREADS=128,GROUP=64,PIECES=1,ROW=held,BLOCKS=1",
     true,
     {"{\"cols\":127,\"dtype\":\"f32\",\"ld\":134,\"rows\":41}",
      "{\"cols\":128,\"dtype\":\"f32\",\"ld\":134,\"rows\":36}",
      "{\"cols\":126,\"dtype\":\"f32\",\"ld\":134,\"rows\":25}"},
     NULL},
    {"rows in parts",
     "rmsnorm_residual",
     "emu:sm_90a",
     "SPLITS=16,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":4098,\"dtype\":\"f32\",\"ld\":4102,\"rows\":2}",
      "{\"cols\":7201,\"dtype\":\"f32\",\"ld\":7206,\"rows\":2}",
      "{\"cols\":14401,\"dtype\":\"f32\",\"ld\":14406,\"rows\":2}"},
     NULL},
    {"rows in many parts",
     "rmsnorm_residual",
     "emu:sm_90a",
     "SPLITS=32,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":8195,\"dtype\":\"f32\",\"ld\":8198,\"rows\":2}"},
     "gk_rmsnorm_split_write"},
    {"rows in turn",
     "layernorm_dropout_residual",
     "emu:sm_80",
     "THREADS=128,GROUP=128,BLOCKS=1",
     false,
     {"{\"cols\":1001,\"ld\":1004,\"mask\":true,\"rows\":20}",
      "{\"cols\":1024,\"ld\":1028,\"mask\":true,\"rows\":20}"},
     NULL},
    {"rows in parts",
     "layernorm_dropout_residual",
     "emu:sm_90a",
     "SPLITS=2,THREADS=128,PIECES=4",
     false,
     {"{\"cols\":2051,\"dtype\":\"f32\",\"ld\":2051,\"rows\":2}"},
     NULL},
    {"rows held",
     "softmax",
     "emu:sm_80",
     "THREADS=128,GROUP=64,PIECES=1,ROW=held,BLOCKS=1",
     true,
     {"{\"cols\":127,\"dtype\":\"f32\",\"ld\":134,\"ld_out\":138,\"rows\":41,\"scale\":200.0}",
      "{\"cols\":128,\"dtype\":\"f32\",\"ld\":134,\"ld_out\":138,\"rows\":36}",
      "{\"cols\":126,\"dtype\":\"f32\",\"ld\":134,\"ld_out\":138,\"rows\":25}"},
     NULL},
    {"rows read again",
     "softmax",
     "emu:sm_80",
     "THREADS=128,GROUP=128,ROW=again,PIECES=1,BLOCKS=0",
     true,
     {"{\"cols\":2817,\"dtype\":\"f32\",\"ld\":2822,\"ld_out\":2822,\"rows\":2}",
      "{\"cols\":2560,\"dtype\":\"f32\",\"ld\":2566,\"ld_out\":2566,\"rows\":2,\"scale\":200.0}",
      "{\"cols\":2304,\"dtype\":\"f32\",\"ld\":2310,\"ld_out\":2310,\"rows\":2}"},
     NULL},
    {"rows in parts",
     "softmax",
     "emu:sm_90a",
     "SPLITS=16,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":4098,\"dtype\":\"f32\",\"ld\":4102,\"ld_out\":4102,\"rows\":2,\"scale\":200.0}",
      "{\"cols\":7201,\"dtype\":\"f32\",\"ld\":7206,\"ld_out\":7206,\"rows\":2}",
      "{\"cols\":14401,\"dtype\":\"f32\",\"ld\":14406,\"ld_out\":14406,\"rows\":2}"},
     NULL},
    {"rows in many parts",
     "softmax",
     "emu:sm_90a",
     "SPLITS=32,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":8195,\"dtype\":\"f32\",\"ld\":8198,\"ld_out\":8198,\"rows\":2}"},
     "gk_softmax_split_write"},
    {"rows held, the gradient",
     "cross_entropy",
     "emu:sm_80",
     "THREADS=128,GROUP=64,PIECES=1,ROW=held,BLOCKS=1",
     true,
     {"{\"cols\":127,\"dtype\":\"f32\",\"grad\":true,\"ld\":134,\"rows\":41,\"smoothing\":0.1}",
      "{\"cols\":128,\"dtype\":\"f32\",\"grad\":true,\"ld\":134,\"rows\":36,\"smoothing\":0.1}",
      "{\"cols\":126,\"dtype\":\"f32\",\"grad\":true,\"ld\":134,\"rows\":25,\"smoothing\":0.1}"},
     NULL},
    {"rows in parts, the gradient",
     "cross_entropy",
     "emu:sm_80",
     "SPLITS=16,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":4098,\"dtype\":\"f32\",\"grad\":true,\"ld\":4102,\"rows\":5,\"smoothing\":0.1}",
      "{\"cols\":7201,\"dtype\":\"f32\",\"grad\":true,\"ld\":7206,\"rows\":4,\"smoothing\":0.1}",
      "{\"cols\":14401,\"dtype\":\"f32\",\"grad\":true,\"ld\":14406,\"rows\":4,\"smoothing\":0.1}"},
     NULL},
    {"rows in many parts, the gradient",
     "cross_entropy",
     "emu:sm_80",
     "SPLITS=32,THREADS=128,PIECES=1",
     true,
     {"{\"cols\":8195,\"dtype\":\"f32\",\"grad\":true,\"ld\":8198,\"rows\":2,\"smoothing\":0.1}"},
     "gk_cross_entropy_split_loss"},
};

static const char *const DEVICES[] = {"emu:sm_80", "emu:sm_90a"};
static struct op_trial_rig rigs[GK_ARRAY_COUNT(DEVICES)];

struct score {
    uint32_t rejected, equivalent, wrong, left_out;
    uint32_t by_race, by_rung, by_other;
};

static struct score total;
static char *const *only; /* names of kernels; NULL at the end */

static bool is_chosen(const struct op_case *one, const char *kernel)
{
    bool chosen = !*only;
    for (char *const *name = only; *name; name++) {
        chosen = chosen || strcmp(*name, kernel) == 0;
    }
    return chosen && (!one->only || strcmp(one->only, kernel) == 0);
}

static void count_kind(struct score *score, const struct gk_record *record)
{
    const struct gk_rung *last = record->rung_count ? &record->rungs[record->rung_count - 1] : NULL;
    bool compared = last && !last->passed;
    score->rejected++;
    score->by_race += record->failure == GK_FAILURE_RACE;
    score->by_rung += record->failure != GK_FAILURE_RACE && compared;
    score->by_other += record->failure != GK_FAILURE_RACE && !compared;
}

/* A case, compiled. */
struct sight {
    struct gk_problem problems[PROBLEMS_MAX];
    uint32_t problem_count;
    struct op_trial_built built;
};

/* Until one fails: the record is that of the last one that ran. */
static void run_problems(const struct op_trial_rig *rig, struct sight *sight,
                         struct gk_record *record)
{
    for (uint32_t i = 0; i < sight->problem_count; i++) {
        sight->built.problem = &sight->problems[i];
        op_trial_run_built(rig, &sight->built, GK_INPUT_SETS_ALL, record);
        if (record->failure != GK_FAILURE_NONE || i + 1 == sight->problem_count) {
            return;
        }
        gk_record_fini(record);
    }
}

/* Runs the trials with one launch's text changed. */
static void try_mutant(const struct op_trial_rig *rig, const struct op_case *one,
                       struct sight *sight, uint32_t launch, bool edges, uint32_t index,
                       struct score *score)
{
    struct op_trial_built *built = &sight->built;
    struct gk_compile_output *code = &built->codes[launch];
    const struct gk_compile_output original = *code;
    const char *kernel = built->plan.launches[launch].def->kernel;
    struct ptx_mutant mutant;
    struct gk_record record;
    char place[400];
    assert_true(ptx_mutant_make(original.ptx, edges, index, &mutant));
    code->ptx = mutant.text;
    code->ptx_size = strlen(mutant.text);
    run_problems(rig, sight, &record);
    *code = original;
    if (record.failure == GK_FAILURE_LOAD_ERROR || record.failure == GK_FAILURE_UNSUPPORTED) {
        fail_msg("%s, PTX line %u, %s: the changed text is not PTX: %s", kernel, mutant.line,
                 mutant.what, record.message);
    }
    bool dead = record.failure != GK_FAILURE_NONE;
    mutant_place(one->op, &mutant, place, sizeof place);
    struct mutant_entry *entry = mutant_table_find(kernel, &mutant, place);
    if (dead) {
        count_kind(score, &record);
        if (entry) {
            entry->dead++;
        }
    } else if (entry) {
        score->equivalent++;
        entry->met++;
    } else {
        score->wrong++;
        (void)printf("survives without an entry: %s | %s | %s | %s (%s, PTX line %u)\n  %s\n",
                     kernel, mutant.what, mutant.opcode, place, one->what, mutant.line,
                     mutant.code);
    }
    if (getenv("GK_MUTANTS_SHOW")) {
        (void)printf("%s | %s | %s | %s | %s\n", kernel, mutant.what, mutant.opcode, place,
                     dead ? record.message : "survives");
    }
    gk_record_fini(&record);
    free(mutant.text);
}

/* All mutants of a launch, or a sample of them by the seed. */
static void try_launch(const struct op_trial_rig *rig, const struct op_case *one,
                       struct sight *sight, uint32_t launch, bool edges, struct score *score)
{
    const struct op_trial_built *built = &sight->built;
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t count = ptx_mutant_count(built->codes[launch].ptx, edges);
    uint32_t left = test_takes_all() || SAMPLE > count ? count : SAMPLE;
    struct gk_prng prng;
    score->left_out += count - left;
    gk_prng_init(&prng, text ? strtoull(text, NULL, 10) : 1, count);
    for (uint32_t i = 0; i < count && left; i++) { /* each one with equal chance */
        if (gk_prng_below(&prng, count - i) < left) {
            left--;
            try_mutant(rig, one, sight, launch, edges, i, score);
        }
    }
}

static const struct op_trial_rig *rig_of(const struct op_case *one)
{
    size_t i = 0;
    while (strcmp(DEVICES[i], one->device) != 0) {
        i++;
        assert_true(i < GK_ARRAY_COUNT(DEVICES));
    }
    return &rigs[i];
}

static void mutants_of(void **state)
{
    const struct op_case *one = *state;
    const struct op_trial_rig *rig = rig_of(one);
    struct gk_catalog *catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", one->op);
    const struct gk_op *op = gk_catalog_find(catalog, one->op);
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    static struct sight sight;
    struct gk_record record;
    struct gk_err err = {0};
    struct score score = {0};
    memset(&sight, 0, sizeof sight);
    for (uint32_t i = 0; i < PROBLEMS_MAX && one->problems[i]; i++, sight.problem_count++) {
        char text[300];
        (void)snprintf(text, sizeof text, "%s%s", one->op, one->problems[i]);
        op_trial_need(gk_problem_from_text(&op->fields, text, &sight.problems[i], &err), &err);
    }
    op_trial_need(gk_catalog_space(op, &sight.problems[0], &rig->device->props, &def, &err), &err);
    (void)op_trial_config(op, &sight.problems[0], &def, one->config, &config);
    op_trial_build(rig, catalog, op, &sight.problems[0], &config, &sight.built);
    run_problems(rig, &sight, &record);
    if (record.failure != GK_FAILURE_NONE) {
        fail_msg("%s, %s, as it is: %s", one->op, one->what, record.message);
    }
    gk_record_fini(&record);
    for (uint32_t i = 0; i < sight.built.plan.launch_count; i++) {
        const struct gk_plan_launch *launch = &sight.built.plan.launches[i];
        if (launch->present && is_chosen(one, launch->def->kernel)) {
            try_launch(rig, one, &sight, i, false, &score);
            if (one->edges) {
                try_launch(rig, one, &sight, i, true, &score);
            }
        }
    }
    (void)printf(
        "%s, %s: %u rejected (%u races, %u on the ladder, %u other faults), %u equivalent, "
        "%u not in this sample\n",
        one->op, one->what, score.rejected, score.by_race, score.by_rung, score.by_other,
        score.equivalent, score.left_out);
    total.rejected += score.rejected;
    total.wrong += score.wrong;
    total.equivalent += score.equivalent;
    total.left_out += score.left_out;
    op_trial_unbuild(&sight.built);
    gk_space_def_fini(&def);
    for (uint32_t i = 0; i < sight.problem_count; i++) {
        gk_problem_fini(&sight.problems[i]);
    }
    gk_catalog_destroy(catalog);
    assert_int_equal(score.wrong, 0);
}

/* After all the others. */
static void no_entry_is_stale(void **state)
{
    (void)state;
    assert_int_equal(test_takes_all() && !*only ? mutant_table_stale() : 0, 0);
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(DEVICES); i++) {
        if (op_trial_open(&rigs[i], DEVICES[i]) != 0) {
            return -1;
        }
        rigs[i].device->props.work_limit = WORK_LIMIT;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(DEVICES); i++) {
        op_trial_close(&rigs[i]);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[GK_ARRAY_COUNT(CASES) + 1];
    static char names[GK_ARRAY_COUNT(CASES)][100];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 1;
    size_t count = 0;
    int failed;
    only = argv + 1;
    (void)argc;
    mutant_table_load(TABLE);
    for (size_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        if (test_takes_all() || (i + seed) % SAMPLE_OF == 0) {
            (void)snprintf(names[i], sizeof names[i], "%s, %s", CASES[i].op, CASES[i].what);
            tests[count++] = (struct CMUnitTest){.name = names[i],
                                                 .test_func = mutants_of,
                                                 .initial_state = (void *)(uintptr_t)&CASES[i]};
        }
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_entry_is_stale);
    failed = _cmocka_run_group_tests("mutants of ops", tests, count, set_up, tear_down);
    (void)printf("mutants: ops: %u of %u rejected, %u equivalent; %u not in this sample\n",
                 total.rejected, total.rejected + total.wrong, total.equivalent, total.left_out);
    mutant_table_free();
    return failed;
}
