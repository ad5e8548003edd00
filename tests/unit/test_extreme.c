/*
 * The rung of inputs of unusual size: op add has it for 333 elements, for 335 beside an exact one,
 * which any other number has alone. A kernel that is wrong for large numbers alone passes every
 * input set.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "search/space.h"
#include "tests/unit/op_trial.h"
#include "worker/generate.h"
#include "worker/scene.h"

#define RIGHT  "BUG=none"
#define BROKEN "BUG=large"

static struct op_trial_rig rig;
static struct gk_catalog *catalog;
static struct gk_inspector *inspector;

static void run(int n, const char *values, uint32_t set, struct gk_record *record)
{
    const struct gk_op *op = gk_catalog_find(catalog, "add");
    struct op_trial_asked asked;
    char text[40];
    (void)snprintf(text, sizeof text, "add{\"n\":%d}", n);
    op_trial_ask(op, text, &rig.device->props, values, &asked);
    op_trial_run(&rig, catalog, op, &asked.problem, &asked.config, set, record);
    op_trial_asked_fini(&asked);
}

/* The modelled time. */
static double passes(int n, const char *values, uint32_t set, uint32_t rungs)
{
    struct gk_record record;
    run(n, values, set, &record);
    if (record.failure != GK_FAILURE_NONE) {
        fail_msg("%d elements, %s: %s", n, values, record.message);
    }
    assert_int_equal(record.rung_count, rungs);
    double ns = record.time_ns;
    gk_record_fini(&record);
    return ns;
}

static void fails(int n, uint32_t set)
{
    struct gk_record record;
    run(n, BROKEN, set, &record);
    assert_int_equal(record.failure, GK_FAILURE_WRONG);
    assert_non_null(strstr(record.message, "rung extreme: y"));
    gk_record_fini(&record);
}

/* Times are those of ordinary data, whatever a trial ran beside. */
static void time_is_of_ordinary_data(void **state)
{
    (void)state;
    double ordinary = passes(333, "BUG=slow_large", 0, 1);
    assert_true(fabs(passes(333, "BUG=slow_large", GK_INPUT_SETS - 1, 2) / ordinary - 1) < 0.01);
}

/* Where each rung is a run of its own: with one input set of four, and with all. */
static void host_compares(void **state)
{
    (void)state;
    for (uint32_t set = 0; set + 1 < GK_INPUT_SETS; set++) {
        (void)passes(333, BROKEN, set, 1);
    }
    fails(333, GK_INPUT_SETS - 1);
    fails(333, GK_INPUT_SETS_ALL);
    (void)passes(333, RIGHT, GK_INPUT_SETS_ALL, 5);
    (void)passes(334, BROKEN, GK_INPUT_SETS_ALL, 5); /* the exact one alone does not see it */
    (void)passes(335, RIGHT, GK_INPUT_SETS_ALL, 6);
    fails(335, GK_INPUT_SETS_ALL);
}

/* Where the slot beside the rotation has it: with every trial. */
static void device_compares(void **state)
{
    (void)state;
    for (uint32_t set = 0; set < GK_INPUT_SETS; set++) {
        fails(333, set);
    }
    fails(333, GK_INPUT_SETS_ALL);
    (void)passes(335, RIGHT, 0, 3); /* a slot each */
    fails(335, 0);
    const int64_t memory = rig.device->props.mem_bytes;
    rig.device->props.mem_bytes = 60000; /* half of it: three copies of some 9 KB */
    struct gk_record record;
    run(337, BROKEN, 0, &record);
    assert_int_equal(record.failure, GK_FAILURE_NONE); /* the exact one alone does not see it */
    assert_int_equal(record.rung_count, 2);
    assert_string_equal(gk_json_get_string(record.environment, "rung_not", ""), "extreme");
    gk_record_fini(&record);
    rig.device->props.mem_bytes = memory;
}

static int set_up(void **state)
{
    (void)state;
    if (op_trial_open(&rig, "emu:sm_80") != 0) {
        return -1;
    }
    catalog = op_trial_catalog(GK_SOURCE_DIR "/tests/data/worker", "add");
    return catalog ? 0 : -1;
}

static int set_up_scenes(void **state)
{
    struct gk_err err = {0};
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    if (set_up(state) != 0) {
        return -1;
    }
    rig.device->props.l2_bytes = 4096; /* few slots */
    if (gk_inspector_create(rig.device, &places, NULL, &inspector, &err) != GK_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    rig.bench.inspector = inspector;
    rig.bench.scenes = gk_scenes_create(rig.device, inspector, (uint64_t)64 << 20);
    return rig.bench.scenes ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    gk_scenes_destroy(rig.bench.scenes);
    gk_inspector_destroy(inspector);
    gk_catalog_destroy(catalog);
    op_trial_close(&rig);
    return 0;
}

int main(void)
{
    const struct CMUnitTest on_host[] = {cmocka_unit_test(host_compares),
                                         cmocka_unit_test(time_is_of_ordinary_data)};
    const struct CMUnitTest on_device[] = {cmocka_unit_test(device_compares)};
    int failed = cmocka_run_group_tests(on_host, set_up, tear_down);
    return failed + cmocka_run_group_tests(on_device, set_up_scenes, tear_down);
}
