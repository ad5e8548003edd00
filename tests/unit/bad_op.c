/* See bad_op.h. */
#include "tests/unit/bad_op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/source_dir.h"

static struct bad_op list[BAD_OPS_MAX];
static uint32_t list_count;

static struct mistake_change *next(void)
{
    assert_true(list_count < BAD_OPS_MAX);
    return &list[list_count++].change;
}

static bool read_field(const char *key, const char *value)
{
    struct bad_op *twin = &list[list_count - 1];
    if (strcmp(key, "op") == 0) {
        mistake_take(twin->op, sizeof twin->op, value);
    } else if (strcmp(key, "device") == 0) {
        mistake_take(twin->device, sizeof twin->device, value);
    } else if (strcmp(key, "problem") == 0) {
        mistake_take(twin->problem, sizeof twin->problem, value);
    } else if (strcmp(key, "config") == 0) {
        mistake_take(twin->config, sizeof twin->config, value);
    } else {
        return false;
    }
    return true;
}

const struct bad_op *bad_ops(uint32_t *count_out)
{
    if (list_count == 0) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/tests/data/bad_kernels/ops.txt", test_source_dir());
        mistake_list_read(path, next, read_field);
    }
    *count_out = list_count;
    return list;
}

void bad_op_ask(const struct bad_op *twin, const struct gk_op *op,
                const struct gk_device_props *props, struct op_trial_asked *asked_out)
{
    char text[300];
    (void)snprintf(text, sizeof text, "%s%s", twin->op, twin->problem);
    op_trial_ask(op, text, props, twin->config, asked_out);
}

void bad_op_run(const struct op_trial_rig *rig, const struct gk_device_props *props,
                const struct bad_op *twin, const char *root, char ending[BAD_ENDING_SIZE],
                char *message, size_t message_size)
{
    struct gk_catalog *catalog = op_trial_catalog(root, twin->op);
    const struct gk_op *op = gk_catalog_find(catalog, twin->op);
    struct op_trial_asked asked;
    struct gk_record record;
    bad_op_ask(twin, op, props, &asked);
    op_trial_run(rig, catalog, op, &asked.problem, &asked.config, GK_INPUT_SETS_ALL, &record);
    const struct gk_rung *last = record.rung_count ? &record.rungs[record.rung_count - 1] : NULL;
    bool compared = record.failure != GK_FAILURE_NONE && last && !last->passed;
    (void)snprintf(ending, BAD_ENDING_SIZE, "%s%s%s", gk_failure_name(record.failure),
                   compared ? " at " : "", compared ? last->name : "");
    (void)snprintf(message, message_size, "%s", record.message ? record.message : "");
    gk_record_fini(&record);
    op_trial_asked_fini(&asked);
    gk_catalog_destroy(catalog);
}
