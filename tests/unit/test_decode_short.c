/*
 * What attention_decode has for streams that are soon over, on emu:sm_90a under each of the three
 * schedules. Parts that meet in a cluster (COMBINE=cluster, cluster_send): sizes that are no power
 * of two and of more than eight blocks, parts without keys, requests without any, rows of several
 * tiles, narrow keys, turned ones, pages; and where there are no clusters. Tiles that are copied
 * before a length is known (EARLY=yes): past the end of a request, of a part, of all. Broken twins
 * stand in tests/data/bad_kernels/ops.txt.
 *
 * GKTUNE_TEST_SEED chooses one case in eight; GKTUNE_TEST_ALL=1 takes all.
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
#define STEP 16
#else
#define STEP 8
#endif

/* ------------------------------------------------------------------ results */

#define CLUSTER "COMBINE=cluster," /* of these cases also with cluster_send */

static const struct one {
    const char *problem, *config;
} CASES[] = {
    /* two blocks, three, five; eight, and more than eight */
    {"{\"batch\":2,\"kv_heads\":2,\"kv_len\":130,\"lse\":true,\"q_heads\":8}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=2,SPLITS=2"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":290,\"lse\":true,\"q_heads\":2}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=3,SPLITS=3"},
    {"{\"batch\":1,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":300,\"q_heads\":3}",
     "COMBINE=cluster,KEYS=32,WARPS=2,STAGES=2,SPLITS=5"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":500,\"lse\":true,\"q_heads\":8}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=2,SPLITS=8"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":500,\"lse\":true,\"q_heads\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=2,STAGES=2,SPLITS=16,BLOCKS=2"},
    {"{\"batch\":1,\"head_dim\":32,\"kv_heads\":1,\"kv_len\":200,\"q_heads\":2}",
     "COMBINE=cluster,KEYS=16,WARPS=1,STAGES=2,SPLITS=14,BLOCKS=2"},
    /* requests shorter than the room, of one key, of none; parts that their keys do not reach */
    {"{\"batch\":5,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[0,1,64,128,"
     "129]},\"lse\":true,\"q_heads\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=1,STAGES=2,SPLITS=8"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":200,\"kv_lens\":{\"each\":[0,0]},"
     "\"lse\":true,\"q_heads\":1}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=2,SPLITS=3"},
    /* more queries than keys; rows of two tiles, of one that is not full, of two of a block */
    {"{\"batch\":4,\"kv_heads\":1,\"kv_len\":70,\"kv_lens\":{\"each\":[2,70,0,65]},\"lse\":true,"
     "\"q_heads\":4,\"q_len\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=2,STAGES=2,SPLITS=2"},
    {"{\"batch\":1,\"causal\":false,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":130,\"q_heads\":9,"
     "\"q_len\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=3,SPLITS=2,M_TILES=1"},
    {"{\"batch\":1,\"dtype\":\"f16\",\"head_dim\":64,\"kv_heads\":2,\"kv_len\":130,\"lse\":true,"
     "\"q_heads\":18,\"q_len\":3}",
     "COMBINE=cluster,KEYS=32,WARPS=2,STAGES=2,SPLITS=2,M_TILES=2,QUERY=shared"},
    /* narrow keys, turned ones, pages */
    {"{\"batch\":2,\"kv_dtype\":\"e4m3\",\"kv_heads\":2,\"kv_len\":150,\"kv_lens\":{\"each\":[150,"
     "33]},\"lse\":true,\"q_heads\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=2,SPLITS=2"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":2,\"kv_len\":90,\"kv_lens\":{\"each\":[2,90]},"
     "\"lse\":true,\"q_heads\":4,\"q_len\":4,\"rope\":\"neox\"}",
     "COMBINE=cluster,KEYS=16,WARPS=1,STAGES=2,SPLITS=4"},
    {"{\"batch\":3,\"head_dim\":64,\"kv_heads\":2,\"kv_layout\":\"HND\",\"kv_len\":260,\"kv_lens\":"
     "{\"each\":[17,0,260]},\"page_size\":16,\"q_heads\":4}",
     "COMBINE=cluster,KEYS=16,WARPS=2,STAGES=3,SPLITS=6"},
    {"{\"batch\":1,\"head_dim\":256,\"kv_heads\":1,\"kv_len\":130,\"lse\":true,\"q_heads\":8}",
     "COMBINE=cluster,KEYS=16,WARPS=4,STAGES=2,SPLITS=2,QUERY=shared"},
    {"{\"batch\":1,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":520,\"q_heads\":2,\"softmax_scale\":"
     "0.0}",
     "COMBINE=cluster,KEYS=16,WARPS=16,STAGES=2,SPLITS=2"},
    /* copies before the length is known: of whole parts, past the end of some, for nothing */
    {"{\"batch\":6,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[129,0,129,"
     "129,128,127]},\"lse\":true,\"q_heads\":4}",
     "COMBINE=cluster,EARLY=yes,KEYS=16,WARPS=2,STAGES=3,SPLITS=3"},
    {"{\"batch\":6,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[129,0,129,"
     "129,128,127]},\"lse\":true,\"q_heads\":4}",
     "COMBINE=launch,EARLY=yes,KEYS=16,WARPS=2,STAGES=4,SPLITS=2,SLICES=2"},
    {"{\"batch\":6,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":129,\"kv_lens\":{\"each\":[129,0,129,"
     "129,128,127]},\"lse\":true,\"q_heads\":4}",
     "COMBINE=last,EARLY=yes,KEYS=16,WARPS=2,STAGES=2,SPLITS=4"},
    {"{\"batch\":3,\"dtype\":\"f16\",\"kv_dtype\":\"e4m3\",\"kv_heads\":2,\"kv_layout\":\"HND\","
     "\"kv_len\":100,\"kv_lens\":{\"each\":[100,67,99]},\"lse\":true,\"q_heads\":8,\"q_len\":2}",
     "COMBINE=launch,EARLY=yes,KEYS=16,WARPS=4,STAGES=3,SPLITS=1"},
    {"{\"batch\":2,\"head_dim\":64,\"kv_heads\":1,\"kv_len\":90,\"kv_lens\":{\"each\":[77,90]},"
     "\"prefix_len\":40,\"q_heads\":2,\"rope\":\"neox\"}",
     "COMBINE=launch,EARLY=yes,KEYS=16,WARPS=2,STAGES=3,SPLITS=2"},
};

static void every_schedule(void **state)
{
    const struct decode_rig *decode = *state;
    for (uint64_t i = 0; i < GK_ARRAY_COUNT(CASES); i++) {
        if (!decode_takes(i, STEP)) {
            continue;
        }
        op_trial_schedules(&decode->rig, decode->catalog, decode->op, CASES[i].problem,
                           CASES[i].config);
        if (strncmp(CASES[i].config, CLUSTER, strlen(CLUSTER)) == 0) {
            char sends[200];
            (void)snprintf(sends, sizeof sends, "COMBINE=cluster_send,%s",
                           CASES[i].config + strlen(CLUSTER));
            op_trial_schedules(&decode->rig, decode->catalog, decode->op, CASES[i].problem, sends);
        }
    }
}

/* ------------------------------------------------------------------ where it is legal */

static bool is_cluster(const struct gk_tree *tree, const struct gk_config *config)
{
    for (uint32_t i = 0; i < tree->param_count; i++) {
        if (strcmp(tree->params[i].name, "COMBINE") == 0) {
            return strncmp(tree->params[i].names[config->values[i]], "cluster", 7) == 0;
        }
    }
    return false;
}

static bool has_clusters(const struct decode_rig *decode, const char *fields, const char *device)
{
    struct gk_device_props props;
    struct gk_err err = {0};
    char text[300];
    (void)snprintf(text, sizeof text, "attention_decode%s", fields);
    op_trial_need(gk_device_props_builtin(device, &props, &err), &err);
    return decode_any(decode, text, &props, is_cluster);
}

static void where_there_are_none(void **state)
{
    static const struct {
        const char *fields, *device;
        bool has;
    } PROBLEMS[] = {
        {"{\"batch\":1,\"kv_heads\":1,\"kv_len\":80,\"q_heads\":1}", "emu:sm_90a", true},
        {"{\"batch\":1,\"kv_heads\":1,\"kv_len\":80,\"q_heads\":1}", "emu:sm_80", false},
        {"{\"batch\":1,\"kv_heads\":1,\"kv_len\":16,\"q_heads\":1}", "emu:sm_90a", false},
        {"{\"batch\":1,\"kv_heads\":1,\"kv_len\":80,\"prefix_len\":64,\"q_heads\":1}", "emu:sm_90a",
         false},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(PROBLEMS); i++) {
        if (has_clusters(*state, PROBLEMS[i].fields, PROBLEMS[i].device) != PROBLEMS[i].has) {
            fail_msg("%s on %s has %s config with a cluster", PROBLEMS[i].fields,
                     PROBLEMS[i].device, PROBLEMS[i].has ? "no" : "a");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_schedule),
                                       cmocka_unit_test(where_there_are_none)};
    return cmocka_run_group_tests(tests, decode_set_up, decode_tear_down);
}
