/*
 * The broken twins of ops in tests/data/bad_kernels/ops.txt: what each changes, on which problem
 * and config it is run, and how a trial of it ends.
 */
#ifndef GK_TESTS_UNIT_BAD_OP_H
#define GK_TESTS_UNIT_BAD_OP_H

#include <stdint.h>

#include "tests/unit/mistake_list.h"
#include "tests/unit/op_trial.h"

#define BAD_OPS_MAX     400u
#define BAD_FAR_MAX     40u
#define BAD_ENDING_SIZE 80u

struct bad_op {
    struct mistake_change change;
    char op[40];
    char device[24];   /* "": emu:sm_80 */
    char problem[300]; /* canonical text without the op's name */
    char config[160]; /* "PIECES=0,GROUP=128": the first legal config with these; "": the default */
};

/* The list, which stays as it is from then on. Fails the test with what does not fit. */
const struct bad_op *bad_ops(uint32_t *count_out);
/* The same of far.txt, with the problems whose last rows lie more than 2^31 elements behind the
 * first: for devices with memory for it, some 10 to 40 GB a copy. */
const struct bad_op *bad_ops_far(uint32_t *count_out);

/* The twin's problem and config; the caller ends them. */
void bad_op_ask(const struct bad_op *twin, const struct gk_op *op,
                const struct gk_device_props *props, struct op_trial_asked *asked_out);

/* A trial of the twin on all input sets, with the op's sources under `root` (the repository's
 * kernels, or a folder that mistake_folder_make made). `props`: of the device that the config is
 * chosen for, which may be another one than the rig's. `ending`: "none", "race", or "wrong_result
 * at exact" where a rung compared; message: why. Fails the test where nothing comes out. */
void bad_op_run(const struct op_trial_rig *rig, const struct gk_device_props *props,
                const struct bad_op *twin, const char *root, char ending[BAD_ENDING_SIZE],
                char *message, size_t message_size);

#endif
