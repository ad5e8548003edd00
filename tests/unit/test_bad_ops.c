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

#include "search/space.h"
#include "tests/support/check.h"
#include "tests/support/exhaustive.h"
#include "tests/unit/mistake_folder.h"
#include "tests/unit/op_trial.h"

#define KERNELS      GK_SOURCE_DIR "/kernels"
#define LIST         GK_SOURCE_DIR "/tests/data/bad_kernels/ops.txt"
#define MISTAKES_MAX 260u
/* One in so many. The sanitizers look at the interpreter, which meets nothing new in each. */
#ifdef __SANITIZE_ADDRESS__
#define SAMPLE 45u
#else
#define SAMPLE 30u
#endif

struct mistake {
    struct mistake_change change;
    char op[40];
    char device[24];   /* "": DEVICES[0] */
    char problem[200]; /* canonical text without the op's name */
    char config[160]; /* "PIECES=0,GROUP=128": the first legal config with these; "": the default */
};

static struct mistake mistakes[MISTAKES_MAX];
static uint32_t mistake_count;
static const char *const DEVICES[] = {"emu:sm_80", "emu:sm_90a"};
static struct op_trial_rig rigs[GK_ARRAY_COUNT(DEVICES)];

/* ------------------------------------------------------------------ the list */

static struct mistake_change *next(void)
{
    assert_true(mistake_count < MISTAKES_MAX);
    return &mistakes[mistake_count++].change;
}

static bool read_field(const char *key, const char *value)
{
    struct mistake *mistake = &mistakes[mistake_count - 1];
    if (strcmp(key, "op") == 0) {
        mistake_take(mistake->op, sizeof mistake->op, value);
    } else if (strcmp(key, "device") == 0) {
        mistake_take(mistake->device, sizeof mistake->device, value);
    } else if (strcmp(key, "problem") == 0) {
        mistake_take(mistake->problem, sizeof mistake->problem, value);
    } else if (strcmp(key, "config") == 0) {
        mistake_take(mistake->config, sizeof mistake->config, value);
    } else {
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ judging */

static const struct op_trial_rig *rig_of(const struct mistake *mistake)
{
    size_t i = 0;
    while (mistake->device[0] && strcmp(DEVICES[i], mistake->device) != 0) {
        if (++i == GK_ARRAY_COUNT(DEVICES)) {
            fail_msg("%s: there is no device %s", mistake->change.name, mistake->device);
        }
    }
    return &rigs[i];
}

/* "race", or "wrong_result at exact" where a rung compared. */
static void run(const struct mistake *mistake, const char *root, char *ending, size_t size,
                char *message, size_t message_size)
{
    const struct op_trial_rig *rig = rig_of(mistake);
    struct gk_catalog *catalog = op_trial_catalog(root, mistake->op);
    const struct gk_op *op = gk_catalog_find(catalog, mistake->op);
    struct gk_problem problem = {0};
    struct gk_space_def def = {0};
    struct gk_config config = {0};
    struct gk_record record;
    struct gk_err err = {0};
    char text[300];
    (void)snprintf(text, sizeof text, "%s%s", mistake->op, mistake->problem);
    op_trial_need(gk_problem_from_text(&op->fields, text, &problem, &err), &err);
    op_trial_need(gk_catalog_space(op, &problem, &rig->device->props, &def, &err), &err);
    (void)op_trial_config(op, &problem, &def, mistake->config, &config);
    op_trial_run(rig, catalog, op, &problem, &config, GK_INPUT_SETS_ALL, &record);
    const struct gk_rung *last = record.rung_count ? &record.rungs[record.rung_count - 1] : NULL;
    bool compared = record.failure != GK_FAILURE_NONE && last && !last->passed;
    (void)snprintf(ending, size, "%s%s%s", gk_failure_name(record.failure), compared ? " at " : "",
                   compared ? last->name : "");
    (void)snprintf(message, message_size, "%s", record.message ? record.message : "");
    gk_record_fini(&record);
    gk_space_def_fini(&def);
    gk_problem_fini(&problem);
    gk_catalog_destroy(catalog);
}

static void broken(void **state)
{
    const struct mistake *mistake = *state;
    char root[] = "/tmp/gktune-bad-ops-XXXXXX", ending[80], message[600];
    run(mistake, KERNELS, ending, sizeof ending, message, sizeof message);
    if (strcmp(ending, "none") != 0) {
        fail_msg("%s: the unchanged sources end as %s: %s", mistake->change.name, ending, message);
    }
    mistake_folder_make(&mistake->change, mistake->op, root);
    run(mistake, root, ending, sizeof ending, message, sizeof message);
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
    static struct CMUnitTest tests[MISTAKES_MAX];
    const char *text = getenv("GKTUNE_TEST_SEED");
    uint32_t chosen = 0, seed = text ? (uint32_t)strtoul(text, NULL, 10) : 1;
    uint32_t every = test_takes_all() ? 1 : SAMPLE;
    int failed;
    mistake_list_read(LIST, next, read_field);
    for (uint32_t i = 0; i < mistake_count; i++) {
        if (argc == 1 ? (i + seed) % every == 0
                      : strstr(mistakes[i].change.name, argv[1]) != NULL) {
            tests[chosen++] = (struct CMUnitTest){.name = mistakes[i].change.name,
                                                  .test_func = broken,
                                                  .initial_state = &mistakes[i]};
        }
    }
    failed = _cmocka_run_group_tests("broken ops", tests, chosen, set_up, tear_down);
    if (!failed) {
        (void)printf("twins: %u of %u broken ops rejected for their reasons\n", chosen,
                     mistake_count);
    }
    return failed;
}
