/* See bad_op.h. */
#include "tests/unit/bad_op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/source_dir.h"

struct bad_list {
    const char *file;
    struct bad_op *twins;
    uint32_t count, max;
};

static struct bad_op of_ops[BAD_OPS_MAX], of_far[BAD_FAR_MAX];
static struct bad_list ops = {.file = "ops.txt", .twins = of_ops, .max = BAD_OPS_MAX},
                       far = {.file = "far.txt", .twins = of_far, .max = BAD_FAR_MAX};
static struct bad_list *reading;

static struct mistake_change *next(void)
{
    if (reading->count == reading->max) { /* outside of any test: nobody else would say why */
        print_error("%s has more than %u twins: raise BAD_OPS_MAX, BAD_FAR_MAX (bad_op.h)\n",
                    reading->file, reading->max);
        exit(1);
    }
    return &reading->twins[reading->count++].change;
}

static bool read_field(const char *key, const char *value)
{
    struct bad_op *twin = &reading->twins[reading->count - 1];
    if (strcmp(key, "op") == 0) {
        mistake_take(twin->op, sizeof twin->op, value);
    } else if (strcmp(key, "device") == 0) {
        mistake_take(twin->device, sizeof twin->device, value);
    } else if (strcmp(key, reading == &far ? "far" : "problem") == 0) {
        mistake_take(twin->problem, sizeof twin->problem, value);
    } else if (strcmp(key, "config") == 0) {
        mistake_take(twin->config, sizeof twin->config, value);
    } else {
        return reading == &far && strcmp(key, "near") == 0;
    }
    return true;
}

static const struct bad_op *read_list(struct bad_list *list, uint32_t *count_out)
{
    if (list->count == 0) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/tests/data/bad_kernels/%s", test_source_dir(),
                       list->file);
        reading = list;
        mistake_list_read(path, next, read_field);
    }
    *count_out = list->count;
    return list->twins;
}

const struct bad_op *bad_ops(uint32_t *count_out)
{
    return read_list(&ops, count_out);
}

const struct bad_op *bad_ops_far(uint32_t *count_out)
{
    return read_list(&far, count_out);
}

void bad_op_ask(const struct bad_op *twin, const struct gk_op *op,
                const struct gk_device_props *props, struct op_trial_asked *asked_out)
{
    char text[400];
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
