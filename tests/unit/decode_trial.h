/*
 * What tests of attention_decode's templates share: the op on the emulated sm_90a, cases of which a
 * seed draws some, and whether any config of a problem is of some kind.
 */
#ifndef GK_TESTS_UNIT_DECODE_TRIAL_H
#define GK_TESTS_UNIT_DECODE_TRIAL_H

#include "tests/unit/op_trial.h"

struct decode_rig {
    struct op_trial_rig rig;
    struct gk_catalog *catalog;
    const struct gk_op *op;
};

/* Of the group; tests find the rig in *state. */
int decode_set_up(void **state);
int decode_tear_down(void **state);

/* Whether case number `at` is in this run: one of `step` by GKTUNE_TEST_SEED, or all. */
bool decode_takes(uint64_t at, uint64_t step);

/* Whether a config of the problem satisfies `is`. Fails the test where there is none at all. */
bool decode_any(const struct decode_rig *decode, const char *problem,
                const struct gk_device_props *props,
                bool (*is)(const struct gk_tree *tree, const struct gk_config *config));

#endif
