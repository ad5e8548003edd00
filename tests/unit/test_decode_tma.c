/*
 * decode_tma, the template of attention_decode whose keys come by TMA, on emu:sm_90a under each of
 * the three schedules: layouts, pages, lengths that no tile divides, groups, queries, parts, blocks
 * that go on to further parts; and which problems are none of its business. Rows and pages that no
 * request owns are NaN. Its broken twins stand in tests/data/bad_kernels/ops.txt.
 *
 * GKTUNE_TEST_SEED chooses one case in twelve; GKTUNE_TEST_ALL=1 takes all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/space.h"
#include "tests/support/check.h"
#include "tests/unit/decode_trial.h"

#ifdef __SANITIZE_ADDRESS__
#define STEP 24
#else
#define STEP 12
#endif

/* ------------------------------------------------------------------ results */

/* STAY and ORDER are parameters of decode_tma alone: the config is one of it. */
static const struct one {
    const char *problem, *config;
} CASES[] = {
    /* both layouts, both orders in shared memory */
    {"{\"batch\":2,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":150,\"q_heads\":8}",
     "STAY=no,ORDER=columns,KEYS=16,WARPS=4,STAGES=3,SPLITS=1"},
    {"{\"batch\":2,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":150,\"q_heads\":8}",
     "STAY=no,ORDER=rows,KEYS=16,WARPS=4,STAGES=3,SPLITS=1"},
    {"{\"batch\":2,\"kv_heads\":2,\"kv_len\":150,\"lse\":true,\"q_heads\":2}",
     "STAY=no,ORDER=rows,KEYS=32,WARPS=4,STAGES=2,SPLITS=1,QUERY=shared"},
    {"{\"batch\":1,\"dtype\":\"f16\",\"head_dim\":64,\"kv_heads\":3,\"kv_len\":333,\"lse\":true,"
     "\"q_heads\":12}",
     "STAY=no,KEYS=16,WARPS=8,STAGES=2,SPLITS=2,SLICES=2,LOAD=normal"},
    {"{\"batch\":1,\"head_dim\":256,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":130,"
     "\"q_heads\":8}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,QUERY=shared"},
    /* lengths: none, one key, whole tiles, one key past them; more queries than keys */
    {"{\"batch\":5,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[0,1,64,128,"
     "129]},\"lse\":true,\"q_heads\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,SPLITS=1"},
    {"{\"batch\":5,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[0,1,64,128,"
     "129]},\"lse\":true,\"q_heads\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,SPLITS=2,SLICES=2"},
    {"{\"batch\":4,\"kv_heads\":1,\"kv_len\":70,\"kv_lens\":{\"each\":[2,70,0,65]},\"lse\":true,"
     "\"q_heads\":4,\"q_len\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,SPLITS=1"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":3,\"kv_lens\":{\"each\":[0,0]},"
     "\"q_heads\":1}",
     "STAY=no,KEYS=16,WARPS=2,STAGES=2"},
    /* pages smaller than a tile, as large, larger than a round; of both layouts */
    {"{\"batch\":4,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":260,\"kv_lens\":{\"each\":[17,0,260,"
     "64]},\"page_size\":16,\"q_heads\":4}",
     "STAY=no,KEYS=32,WARPS=4,STAGES=2,SPLITS=2"},
    {"{\"batch\":3,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":200,\"kv_lens\":{\"each\":[200,"
     "1,33]},\"lse\":true,\"page_size\":16,\"q_heads\":8}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=3,ORDER=rows,SPLITS=1"},
    {"{\"batch\":2,\"dtype\":\"f16\",\"kv_heads\":1,\"kv_layout\":\"HND\",\"kv_len\":300,"
     "\"kv_lens\":{\"each\":[300,31]},\"page_size\":64,\"q_heads\":4,\"q_len\":3}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,SPLITS=2,ORDER=columns"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":300,\"kv_lens\":{\"each\":[129,300]},"
     "\"page_size\":256,\"q_heads\":2,\"q_len\":2}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=3,SPLITS=2"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":600,\"kv_lens\":{\"each\":[600,511]},"
     "\"page_size\":64,\"q_heads\":2}",
     "STAY=no,KEYS=64,WARPS=4,STAGES=2,SPLITS=1"},
    /* rows of more than one tile, not causal */
    {"{\"batch\":1,\"causal\":false,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":100,\"q_heads\":9,"
     "\"q_len\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,M_TILES=2"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":100,\"q_heads\":9,\"q_len\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,M_TILES=4,QUERY=shared"},
    {"{\"batch\":2,\"dtype\":\"f16\",\"kv_heads\":1,\"kv_len\":90,\"q_heads\":8,\"q_len\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2,M_TILES=1"},
    /* blocks that go on to further parts: with keys, without, of other lengths */
    {"{\"batch\":21,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":140,\"kv_lens\":{\"draw\":"
     "\"uniform\",\"max\":140,\"min\":0,\"seed\":2},\"q_heads\":2}",
     "STAY=yes,KEYS=16,WARPS=4,STAGES=2,BLOCKS=1,SPLITS=1"},
    {"{\"batch\":7,\"head_dim\":64,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":270,"
     "\"kv_lens\":{\"each\":[270,0,64,1,200,256,128]},\"lse\":true,\"q_heads\":4}",
     "STAY=yes,KEYS=16,WARPS=4,STAGES=3,BLOCKS=1,SPLITS=3,SLICES=2"},
    {"{\"batch\":10,\"kv_heads\":2,\"kv_len\":100,\"page_size\":32,\"q_heads\":2,\"q_len\":2}",
     "STAY=yes,KEYS=16,WARPS=4,STAGES=2,BLOCKS=2,SPLITS=1"},
    /* rounds from the middle on */
    {"{\"batch\":3,\"head_dim\":64,\"kv_heads\":3,\"kv_len\":1100,\"kv_lens\":{\"each\":[1100,"
     "1030,3]},\"q_heads\":3}",
     "STAY=yes,KEYS=16,WARPS=4,STAGES=2,BLOCKS=1,SPLITS=1,SPREAD=16"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":5,\"kv_len\":2150,\"page_size\":16,\"q_heads\":5}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=3,BLOCKS=1,SPLITS=2,SPREAD=16"},
    /* rounds that come before the length is known: past the end of a request, of a part, of all,
     * of a request without keys, and a block that goes on to further parts behind them */
    {"{\"batch\":1,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":450,\"q_heads\":8}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=3,SPLITS=2,ORDER=rows,EARLY=yes"},
    {"{\"batch\":11,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":150,\"kv_lens\":{\"each\":[150,150,0,"
     "150,149,150,1,150,150,150,150]},\"lse\":true,\"q_heads\":4}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=4,SPLITS=1,EARLY=yes"},
    {"{\"batch\":5,\"head_dim\":64,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":270,\"kv_lens\":"
     "{\"each\":[270,270,256,270,120]},\"lse\":true,\"q_heads\":4}",
     "STAY=no,KEYS=16,WARPS=2,STAGES=3,SPLITS=3,SLICES=2,EARLY=yes"},
    {"{\"batch\":13,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":140,\"kv_lens\":{\"each\":[0,140,140,"
     "140,3,140,140,140,140,140,140,140,140]},\"q_heads\":2}",
     "STAY=yes,KEYS=16,WARPS=2,STAGES=3,BLOCKS=1,SPLITS=1,EARLY=yes"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":5,\"kv_len\":2150,\"kv_lens\":{\"each\":[2049]},"
     "\"q_heads\":5}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=3,BLOCKS=1,SPLITS=2,SPREAD=16,EARLY=yes"},
    /* a scale of 0, and one that makes one key all */
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":41,\"q_heads\":2,\"softmax_scale\":"
     "0.0}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2"},
    {"{\"batch\":3,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":90,\"q_heads\":2,\"softmax_scale\":"
     "100000.0}",
     "STAY=no,KEYS=16,WARPS=4,STAGES=2"},
};

static void every_schedule(void **state)
{
    const struct decode_rig *decode = *state;
    for (uint64_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        if (decode_takes(i, STEP)) {
            op_trial_schedules(&decode->rig, decode->catalog, decode->op, CASES[i].problem,
                               CASES[i].config);
        }
    }
}

/* ------------------------------------------------------------------ its problems */

/* decode_mma takes them all. */
static bool is_ours(const struct gk_tree *tree, const struct gk_config *config)
{
    (void)config;
    return strcmp(tree->template_name, "decode_tma") == 0;
}

static void problems_of_others(void **state)
{
    static const struct {
        const char *fields;
        bool ours;
    } PROBLEMS[] = {
        {"", true},
        {",\"page_size\":16", true},
        {",\"head_dim\":256", true},
        {",\"kv_dtype\":\"e4m3\"", false},
        {",\"head_dim\":96", false},
        {",\"head_dim\":192", false},
        {",\"rope\":\"neox\"", false},
        {",\"prefix_len\":64", false},
    };
    const struct decode_rig *decode = *state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(PROBLEMS); i++) {
        char text[300];
        (void)snprintf(text, sizeof text,
                       "attention_decode{\"batch\":2,\"kv_heads\":1,\"kv_len\":80,\"q_heads\":1%s}",
                       PROBLEMS[i].fields);
        if (decode_any(decode, text, &decode->rig.device->props, is_ours) != PROBLEMS[i].ours) {
            fail_msg("%s: decode_tma has %s config", text, PROBLEMS[i].ours ? "no" : "a");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule),
                                       cmocka_unit_test(problems_of_others)};
    return cmocka_run_group_tests(tests, decode_set_up, decode_tear_down);
}
