/* See decode_trial.h. */
#include "tests/unit/decode_trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "search/space.h"
#include "tests/support/exhaustive.h"

int decode_set_up(void **state)
{
    static struct decode_rig decode;
    if (op_trial_open(&decode.rig, "emu:sm_90a") != 0) {
        return -1;
    }
    decode.catalog = op_trial_catalog(GK_SOURCE_DIR "/kernels", "attention_decode");
    decode.op = gk_catalog_find(decode.catalog, "attention_decode");
    *state = &decode;
    return 0;
}

int decode_tear_down(void **state)
{
    struct decode_rig *decode = *state;
    gk_catalog_destroy(decode->catalog);
    op_trial_close(&decode->rig);
    return 0;
}

bool decode_takes(uint64_t at, uint64_t step)
{
    const char *seed = getenv("GKTUNE_TEST_SEED");
    return test_takes_all() || (at + (seed ? strtoull(seed, NULL, 10) : 1)) % step == 0;
}

bool decode_any(const struct decode_rig *decode, const char *text,
                const struct gk_device_props *props,
                bool (*is)(const struct gk_tree *tree, const struct gk_config *config))
{
    struct gk_problem problem = {0};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err = {0};
    bool found = false;
    op_trial_need(gk_problem_from_text(&decode->op->fields, text, &problem, &err), &err);
    op_trial_need(gk_catalog_space(decode->op, &problem, props, &def, &err), &err);
    op_trial_need(gk_space_create(&def, &space, &err), &err);
    assert_true(gk_space_count(space) > 0);
    for (uint32_t i = 0; i < gk_space_count(space) && !found; i++) {
        struct gk_config config;
        gk_space_config(space, i, &config);
        found = is(&def.trees[gk_space_tree_of(space, i)], &config);
    }
    gk_space_destroy(space);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
    return found;
}
