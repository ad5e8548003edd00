/*
 * op.json: "small", problems that ask the same of a config on less.
 *
 * Extents and lengths are run-time arguments of a kernel, so a config's own code runs on a smaller
 * problem too: where every access can be watched, which would take hours at full size. Several
 * sizes stand one behind another, since a config may need more than the smallest has: the first on
 * which it is legal serves. It is no part of any identity: what was verified stays so.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void read_field(struct gk_reader *r, const struct gk_json *entry, const char *name,
                       const struct gk_op *op, struct gk_small_field *field)
{
    const struct gk_scope *scope = op->fields.scope;
    enum gk_field_type type = op->fields.fields[field->field].type;
    if (gk_json_is(gk_json_get(entry, name), GK_JSON_NULL)) {
        return;
    }
    if (type == GK_FIELD_INTS) {
        field->value_count =
            gk_read_exprs(r, entry, name, scope, 1, GK_SMALL_LIST_MAX, true, field->values);
    } else if (type == GK_FIELD_INT) {
        field->values[0] = gk_read_expr(r, entry, name, scope, GK_WANT_INT, true);
        field->value_count = field->values[0] != NULL;
    } else {
        gk_reader_fail(r, name, GK_INPUT, "only whole numbers become smaller; null leaves out");
    }
}

static void read_one(struct gk_reader *r, const struct gk_json *entry, struct gk_op *op)
{
    struct gk_small_def *small = &op->small[op->small_count++];
    void *cursor = NULL;
    const char *name = NULL;
    while (gk_json_next(entry, &cursor, &name)) {
        int64_t index = gk_op_field_index(op, name);
        if (index < 0) {
            gk_reader_fail(r, name, GK_NOT_FOUND, "is no field of the op");
            continue;
        }
        if (small->count == GK_SMALL_FIELDS_MAX) {
            gk_reader_fail(r, name, GK_LIMIT, "more than %d fields", GK_SMALL_FIELDS_MAX);
            return;
        }
        struct gk_small_field *field = &small->fields[small->count++];
        field->field = (uint32_t)index;
        read_field(r, entry, name, op, field);
    }
}

void gk_op_read_small(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "small", 1, GK_SMALL_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "small[%" PRIu32 "]", i);
        const struct gk_json *entry = gk_json_at(list, i);
        if (gk_json_is(entry, GK_JSON_OBJECT)) {
            read_one(r, entry, op);
        } else {
            gk_reader_fail(r, NULL, GK_INPUT, "an object from field to expression is needed");
        }
        gk_reader_leave(r, mark);
    }
}

void gk_small_fini(struct gk_small_def *small)
{
    for (uint32_t i = 0; i < small->count; i++) {
        for (uint32_t n = 0; n < small->fields[i].value_count; n++) {
            gk_expr_destroy(small->fields[i].values[n]);
        }
    }
}

/* ------------------------------------------------------------------ use */

static bool is_replaced(const struct gk_op *op, const struct gk_small_def *small, const char *name)
{
    bool any = false;
    for (uint32_t i = 0; i < small->count; i++) {
        any = any || strcmp(op->fields.fields[small->fields[i].field].name, name) == 0;
    }
    return any;
}

/* The number, or {"each": [..]} of those of all requests. */
static enum gk_status set_field(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_small_field *field, struct gk_json *fields,
                                struct gk_err *err)
{
    const struct gk_field *def = &op->fields.fields[field->field];
    struct gk_json *each = gk_json_new_array(), *list = gk_json_new_object();
    int64_t value = 0;
    bool whole = each && list;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; status == GK_OK && whole && i < field->value_count; i++) {
        status = gk_expr_eval_int(field->values[i], problem->slots, &value, err);
        whole = gk_json_push(each, gk_json_new_int(value));
    }
    if (whole && def->type == GK_FIELD_INTS) {
        whole = gk_json_set(list, "each", each);
        each = NULL;
        whole = whole && gk_json_set(fields, def->name, list);
        list = NULL;
    } else if (whole) {
        whole = gk_json_set_int(fields, def->name, value);
    }
    gk_json_free(each);
    gk_json_free(list);
    return whole ? status : gk_fail(err, GK_NOMEM, "out of memory");
}

/* The fields that the problem's canonical text has, but for those that become others. */
static enum gk_status fields_of(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_small_def *small, struct gk_json *fields,
                                struct gk_err *err)
{
    const char *text = strchr(problem->canonical, '{');
    struct gk_json *whole = NULL;
    enum gk_status status = gk_json_parse(text, strlen(text), "problem", &whole, err);
    void *cursor = NULL;
    const char *name = NULL;
    for (const struct gk_json *value = NULL;
         status == GK_OK && (value = gk_json_next(whole, &cursor, &name));) {
        if (!is_replaced(op, small, name) && !gk_json_set(fields, name, gk_json_copy(value))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    gk_json_free(whole);
    for (uint32_t i = 0; status == GK_OK && i < small->count; i++) {
        if (small->fields[i].value_count > 0) {
            status = set_field(op, problem, &small->fields[i], fields, err);
        }
    }
    return status;
}

enum gk_status gk_problem_small(const struct gk_op *op, const struct gk_problem *problem,
                                uint32_t which, struct gk_problem *small_out, struct gk_err *err)
{
    if (which >= op->small_count) {
        return GK_END;
    }
    struct gk_diag diag;
    gk_diag_init(&diag);
    struct gk_json *fields = gk_json_new_object();
    enum gk_status status =
        fields ? fields_of(op, problem, &op->small[which], fields, err) : GK_NOMEM;
    if (status == GK_OK &&
        gk_problem_from_json(&op->fields, fields, "small", small_out, &diag) != GK_OK) {
        status = gk_diag_status(&diag, err);
    }
    gk_json_free(fields);
    gk_diag_fini(&diag);
    return status;
}
