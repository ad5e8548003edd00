/*
 * From rows as they were read to a recording: values in order, repeated rows out, the space.
 *
 * The order of values and rows does not depend on the file's, so a cache and the T4 file made of it
 * give the same space, and a strategy the same run.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/replay_internal.h"

static int compare_values(const void *a, const void *b)
{
    const struct replay_value *x = a, *y = b;
    if (x->is_number != y->is_number) {
        return x->is_number ? -1 : 1;
    }
    if (x->is_number && x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    return strcmp(x->text, y->text);
}

/* Sorts a parameter's values; to_out[digit as read] is the digit in order. */
static void sort_values(struct replay_param *param, uint8_t to_out[GK_PARAM_VALUES_MAX])
{
    struct replay_value met[GK_PARAM_VALUES_MAX];
    memcpy(met, param->values, param->count * sizeof met[0]);
    qsort(param->values, param->count, sizeof param->values[0], compare_values);
    for (uint32_t i = 0; i < param->count; i++) {
        for (uint32_t k = 0; k < param->count; k++) {
            if (strcmp(met[i].text, param->values[k].text) == 0) {
                to_out[i] = (uint8_t)k;
            }
        }
    }
}

/* By config, and the later row first among equals. */
static int compare_raws(const void *a, const void *b)
{
    const struct replay_raw *x = a, *y = b;
    int order = memcmp(x->digits, y->digits, sizeof x->digits);
    if (order) {
        return order;
    }
    return (x->offset < y->offset) - (x->offset > y->offset);
}

/* Values that only dropped rows had are no values of the space. */
static void forget_unused(struct replay_rows *rows)
{
    for (uint32_t p = 0; p < rows->param_count; p++) {
        struct replay_param *param = &rows->params[p];
        bool used[GK_PARAM_VALUES_MAX] = {false};
        uint8_t to[GK_PARAM_VALUES_MAX] = {0};
        uint32_t kept = 0;
        for (size_t i = 0; i < rows->count; i++) {
            used[rows->raws[i].digits[p]] = true;
        }
        for (uint32_t i = 0; i < param->count; i++) {
            if (used[i]) {
                to[i] = (uint8_t)kept;
                param->values[kept++] = param->values[i];
            }
        }
        param->count = kept;
        for (size_t i = 0; i < rows->count; i++) {
            rows->raws[i].digits[p] = to[rows->raws[i].digits[p]];
        }
    }
}

static void order_rows(struct replay_rows *rows)
{
    forget_unused(rows);
    for (uint32_t p = 0; p < rows->param_count; p++) {
        uint8_t to[GK_PARAM_VALUES_MAX] = {0};
        sort_values(&rows->params[p], to);
        for (size_t i = 0; i < rows->count; i++) {
            rows->raws[i].digits[p] = to[rows->raws[i].digits[p]];
        }
    }
    qsort(rows->raws, rows->count, sizeof rows->raws[0], compare_raws);
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++) {
        struct replay_raw *raw = &rows->raws[i];
        if (kept && memcmp(rows->raws[kept - 1].digits, raw->digits, sizeof raw->digits) == 0) {
            struct replay_mark mark = {raw->offset, raw->line};
            replay_drop(rows, GK_REPLAY_REPEATED, &mark);
        } else {
            rows->raws[kept++] = *raw;
        }
    }
    rows->count = kept;
}

/* Numbers become integers, anything else an enum. */
static enum gk_status make_param(const struct replay_param *from, uint32_t slot,
                                 struct gk_param *param, struct gk_err *err)
{
    bool integers = true;
    memcpy(param->name, from->name, sizeof param->name);
    param->value_count = from->count;
    param->slot = slot;
    for (uint32_t i = 0; i < from->count; i++) {
        const struct replay_value *value = &from->values[i];
        integers &= value->is_number && fabs(value->number) < REPLAY_WHOLE_MAX &&
                    value->number == floor(value->number);
    }
    if (!integers) {
        param->names = calloc(from->count + 1, sizeof param->names[0]);
        if (!param->names) {
            return gk_fail(err, GK_NOMEM, "no memory for parameter %s", from->name);
        }
    }
    for (uint32_t i = 0; i < from->count; i++) {
        param->values[i] = integers ? (int64_t)from->values[i].number : (int64_t)i;
        if (!integers && !(param->names[i] = gk_strdup(from->values[i].text))) {
            return gk_fail(err, GK_NOMEM, "no memory for parameter %s", from->name);
        }
    }
    return GK_OK;
}

static enum gk_status make_space(struct replay_rows *rows, struct gk_recording *recording,
                                 struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_tree *tree = &recording->def.trees[0];
    uint8_t *digits = malloc(rows->count * GK_PARAMS_MAX);
    recording->params = calloc(rows->param_count, sizeof recording->params[0]);
    tree->base = calloc(rows->param_count, sizeof tree->base[0]);
    if (!digits || !recording->params || !tree->base) {
        status = gk_fail(err, GK_NOMEM, "no memory for a space of %zu configs", rows->count);
        goto out;
    }
    tree->template_name = recording->kernel;
    tree->params = recording->params;
    tree->param_count = tree->slot_count = rows->param_count;
    recording->def.tree_count = 1;
    for (uint32_t i = 0; status == GK_OK && i < rows->param_count; i++) {
        status = make_param(&rows->params[i], i, &recording->params[i], err);
    }
    for (size_t i = 0; i < rows->count; i++) {
        memcpy(digits + i * GK_PARAMS_MAX, rows->raws[i].digits, GK_PARAMS_MAX);
    }
    if (status == GK_OK) {
        status = gk_space_create_listed(&recording->def, digits, (uint32_t)rows->count,
                                        &recording->space, err);
    }
out:
    free(digits);
    return status;
}

/* Times in ns, and the sums over all rows. */
static void settle_rows(const struct replay_rows *rows, struct gk_recording *recording)
{
    double unit = rows->unit_ns, cost = 0;
    for (size_t i = 0; i < rows->sample_count; i++) {
        recording->samples_ns[i] *= unit;
    }
    for (uint32_t i = 0; i < recording->count; i++) {
        struct gk_replay_row *row = &recording->rows[i];
        *row = rows->raws[i].row;
        row->time_ns *= rows->raws[i].time_in_ns ? 1 : unit;
        row->compile_ns *= unit;
        row->run_ns *= unit;
        row->verify_ns *= unit;
        row->overhead_ns *= unit;
        if (row->run_ns <= 0) { /* T4 files have the samples alone */
            for (uint32_t k = 0; k < row->sample_count; k++) {
                row->run_ns += recording->samples_ns[row->sample_first + k];
            }
        }
        recording->outcomes[row->outcome]++;
        if (row->outcome == GK_REPLAY_OK) {
            recording->best_ns =
                recording->ok_count ? fmin(recording->best_ns, row->time_ns) : row->time_ns;
            recording->ok_count++;
        }
        cost += gk_replay_cost_ns(row);
    }
    if (cost <= 0) { /* searches are compared over time: it must pass */
        for (uint32_t i = 0; i < recording->count; i++) {
            recording->rows[i].overhead_ns = 1e9;
        }
        cost = 1e9 * recording->count;
        recording->oddities[GK_REPLAY_NO_COST] = recording->count;
    }
    recording->mean_cost_ns = cost / recording->count;
}

static enum gk_status fail_empty(const struct replay_rows *rows, const char *origin,
                                 struct gk_err *err)
{
    struct gk_buf why = {0};
    if (rows->too_many) {
        gk_buf_printf(&why, "; its configs have %zu parameters, a space has at most %d",
                      rows->too_many, GK_PARAMS_MAX);
    }
    for (int i = 0; i < GK_REPLAY_DROPS; i++) {
        if (rows->drops[i].count) {
            gk_buf_printf(&why, "; %" PRIu64 " %s, the first in line %" PRIu64,
                          rows->drops[i].count, gk_replay_drop_text((enum gk_replay_drop_kind)i),
                          rows->drops[i].first_line);
        }
    }
    enum gk_status status =
        gk_fail(err, GK_INPUT, "%s: not one row with a time%s", origin, gk_buf_text(&why));
    gk_buf_fini(&why);
    return status;
}

enum gk_status replay_rows_finish(struct replay_rows *rows, const char *origin,
                                  struct gk_recording **recording_out, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_recording *recording = NULL;
    bool any = false;
    for (size_t i = 0; i < rows->count; i++) {
        any |= rows->raws[i].row.outcome == GK_REPLAY_OK;
    }
    if (!any) {
        return fail_empty(rows, origin, err);
    }
    order_rows(rows);
    recording = calloc(1, sizeof *recording);
    if (!recording || !(recording->rows = calloc(rows->count, sizeof recording->rows[0]))) {
        status = gk_fail(err, GK_NOMEM, "%s: no memory for %zu rows", origin, rows->count);
        goto out;
    }
    recording->format = rows->is_t4 ? GK_REPLAY_T4 : GK_REPLAY_KERNEL_TUNER;
    recording->count = (uint32_t)rows->count;
    memcpy(recording->device, rows->device, sizeof recording->device);
    memcpy(recording->kernel, rows->kernel, sizeof recording->kernel);
    recording->samples_ns = rows->samples;
    rows->samples = NULL;
    memcpy(recording->drops, rows->drops, sizeof recording->drops);
    memcpy(recording->oddities, rows->oddities, sizeof recording->oddities);
    settle_rows(rows, recording);
    status = make_space(rows, recording, err);
    if (status == GK_OK && !recording->ok_count) { /* only a repeated row had a time */
        status = fail_empty(rows, origin, err);
    }
    if (status == GK_OK) {
        *recording_out = recording;
        recording = NULL;
    }
out:
    gk_recording_destroy(recording);
    return status;
}

void gk_recording_destroy(struct gk_recording *recording)
{
    if (!recording) {
        return;
    }
    gk_space_destroy(recording->space);
    const struct gk_tree *tree = &recording->def.trees[0];
    for (uint32_t i = 0; recording->params && i < tree->param_count; i++) {
        struct gk_param *param = &recording->params[i];
        for (uint32_t k = 0; param->names && k < param->value_count; k++) {
            free(param->names[k]);
        }
        free(param->names);
    }
    free(recording->params);
    gk_space_def_fini(&recording->def);
    free(recording->rows);
    free(recording->samples_ns);
    free(recording);
}
