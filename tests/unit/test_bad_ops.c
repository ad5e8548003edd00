/*
 * Built-in ops with a mistake in their sources, each of which a trial must end, for the reason that
 * tests/data/bad_kernels/ops.txt names: a fault that the emulated device finds while it runs, or a
 * rung of the ladder. The unchanged sources must pass the same trial.
 *
 * GKTUNE_TEST_SEED chooses the sample, one in thirty; GKTUNE_TEST_ALL=1 takes all. An argument
 * confines the run to mistakes of that name. GK_TWINS_SHOW=1 prints how each ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/exhaustive.h"
#include "tests/support/source_dir.h"
#include "tests/unit/bad_op.h"
#include "tests/unit/mistake_folder.h"

/* One in so many. The sanitizers look at the interpreter, which meets nothing new in each. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 45u
#else
#define SAMPLE 30u
#endif

static const char *const DEVICES[] = {"emu:sm_80", "emu:sm_90a"};
static struct op_trial_rig rigs[GK_ARRAY_COUNT(DEVICES)];

static const struct op_trial_rig *rig_of(const struct bad_op *mistake)
{
    size_t i = 0;
    while (mistake->device[0] && strcmp(DEVICES[i], mistake->device) != 0) {
        if (++i == GK_ARRAY_COUNT(DEVICES)) {
            fail_msg("%s: there is no device %s", mistake->change.name, mistake->device);
        }
    }
    return &rigs[i];
}

static void run(const struct bad_op *twin, const char *root, char ending[BAD_ENDING_SIZE],
                char *message, size_t message_size)
{
    const struct op_trial_rig *rig = rig_of(twin);
    bad_op_run(rig, &rig->device->props, twin, root, ending, message, message_size);
}

static void broken(void **state)
{
    const struct bad_op *mistake = *state;
    char root[] = "/tmp/gktune-bad-ops-XXXXXX", ending[BAD_ENDING_SIZE], message[600];
    char kernels[600]; /* of the tree that the changed ones are made of */
    (void)snprintf(kernels, sizeof kernels, "%s/kernels", test_source_dir());
    run(mistake, kernels, ending, message, sizeof message);
    if (strcmp(ending, "none") != 0) {
        fail_msg("%s: the unchanged sources end as %s: %s", mistake->change.name, ending, message);
    }
    mistake_folder_make(&mistake->change, mistake->op, root);
    run(mistake, root, ending, message, sizeof message);
    mistake_folder_remove(root);
    if (!mistake_wants(&mistake->change, ending)) {
        fail_msg("%s: ends as %s, wants %s: %s", mistake->change.name, ending,
                 mistake->change.wants, message);
    }
    if (getenv("GK_TWINS_SHOW")) {
        (void)printf("%s: %s: %s\n", mistake->change.name, ending, message);
    }
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(DEVICES); i++) {
        if (op_trial_open(&rigs[i], DEVICES[i]) != 0) {
            return -1;
        }
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
    static struct CMUnitTest tests[BAD_OPS_MAX];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t chosen = 0, seed = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    uint32_t every = test_takes_all() ? 1 : SAMPLE;
    uint32_t count = 0;
    const struct bad_op *twins = bad_ops(&count);
    int failed;
    for (uint32_t i = 0; i < count; i++) {
        if (argc == 1 ? (i + seed) % every == 0 : strstr(twins[i].change.name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){.name = twins[i].change.name,
                                                  .test_func = broken,
                                                  .initial_state = (void *)(uintptr_t)&twins[i]};
        }
    }
    if (chosen == 0) {
        print_error("no twin has '%s' in its name\n", argc > 1 ? argv[1] : "");
        return 1;
    }
    failed = _cmocka_run_group_tests("broken ops", tests, chosen, set_up, tear_down);
    if (!failed) {
        (void)printf("twins: %u of %u broken ops rejected for their reasons\n", chosen, count);
    }
    return failed;
}
