/*
 * op.json: one field: its type, values, range, default and count.
 *
 * Defaults become expressions over the fields before it, whatever they were written as, so that a
 * problem is completed by one evaluation a field.
 */
#include "kernels/catalog_internal.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const field_types[] = {"int", "real", "bool", "enum", "dtype", "ints", NULL};
enum { TYPE_INT, TYPE_REAL, TYPE_BOOL, TYPE_ENUM, TYPE_DTYPE, TYPE_INTS };

/* ------------------------------------------------------------------ values */

/* A value of an enum becomes a part of macro names and of canonical text. */
static bool is_value_name(const char *text)
{
    size_t size = strlen(text);
    if (size == 0 || size >= GK_NAME_MAX) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        bool word = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
                    (text[i] >= '0' && text[i] <= '9') || text[i] == '_';
        if (!word && !(i > 0 && (text[i] == '-' || text[i] == '.'))) {
            return false;
        }
    }
    return true;
}

char **gk_read_values(struct gk_reader *r, const struct gk_json *list, uint32_t *count_out)
{
    uint32_t count = (uint32_t)gk_json_count(list);
    char **values = calloc(count ? count : 1, sizeof *values);
    if (!values) {
        gk_reader_fail(r, "values", GK_NOMEM, "out of memory");
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *text = gk_json_string(gk_json_at(list, i), "");
        if (!is_value_name(text)) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(gk_json_at(list, i), shown);
            gk_reader_fail(
                r, "values", GK_INPUT,
                "%s; text of letters, digits, '_', '-', '.' (at most %d bytes) is allowed", shown,
                GK_NAME_MAX - 1);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(values[k], text) == 0) {
                gk_reader_fail(r, "values", GK_EXISTS, "\"%s\" stands twice; values are unique",
                               text);
            }
        }
        values[i] = gk_strdup(text);
        if (!values[i]) {
            gk_reader_fail(r, "values", GK_NOMEM, "out of memory");
            gk_free_values(values, i);
            return NULL;
        }
    }
    *count_out = count;
    return values;
}

void gk_free_values(char **values, uint32_t count)
{
    for (uint32_t i = 0; values && i < count; i++) {
        free(values[i]);
    }
    free(values);
}

static char **all_dtypes(struct gk_reader *r, uint32_t *count_out)
{
    char **values = calloc(GK_DTYPE_COUNT, sizeof *values);
    for (uint32_t i = 0; values && i < GK_DTYPE_COUNT; i++) {
        values[i] = gk_strdup(gk_dtype_name((enum gk_dtype)i));
        if (!values[i]) {
            gk_free_values(values, i);
            values = NULL;
        }
    }
    if (!values) {
        gk_reader_fail(r, "values", GK_NOMEM, "out of memory");
        return NULL;
    }
    *count_out = GK_DTYPE_COUNT;
    return values;
}

static void read_field_values(struct gk_reader *r, const struct gk_json *json,
                              struct gk_field *field)
{
    bool is_enum = field->type == GK_FIELD_ENUM;
    if (!is_enum) {
        if (gk_json_get(json, "values")) {
            gk_reader_fail(r, "values", GK_INPUT, "given for a field that is no enum and no dtype");
        }
        return;
    }
    if (field->is_dtype && !gk_json_get(json, "values")) {
        field->values = all_dtypes(r, &field->value_count);
        return;
    }
    const struct gk_json *list = gk_read_list(r, json, "values", 1, GK_PARAM_VALUES_MAX, true);
    field->values = list ? gk_read_values(r, list, &field->value_count) : NULL;
    for (uint32_t i = 0; field->is_dtype && i < field->value_count; i++) {
        enum gk_dtype dtype = GK_BF16;
        if (!gk_dtype_from_name(field->values[i], &dtype)) {
            gk_reader_fail(
                r, "values", GK_INPUT,
                "\"%s\" is no element type; bf16, f16, e4m3, f32, f64, i8, i32, i64, u8, "
                "u32 are allowed",
                field->values[i]);
        }
    }
}

static void read_field_range(struct gk_reader *r, const struct gk_json *json, int type,
                             struct gk_field *field)
{
    const struct gk_json *min = gk_json_get(json, "min"), *max = gk_json_get(json, "max");
    field->real_min = -DBL_MAX;
    field->real_max = DBL_MAX;
    if (type == TYPE_REAL) {
        bool numbers = (!min || gk_json_is(min, GK_JSON_INT) || gk_json_is(min, GK_JSON_REAL)) &&
                       (!max || gk_json_is(max, GK_JSON_INT) || gk_json_is(max, GK_JSON_REAL));
        if (!numbers) {
            gk_reader_fail(r, NULL, GK_INPUT, "\"min\" and \"max\" of a real field are numbers");
        }
        field->real_min = gk_json_real(min, -DBL_MAX);
        field->real_max = gk_json_real(max, DBL_MAX);
        if (!(field->real_min <= field->real_max)) {
            gk_reader_fail(r, NULL, GK_INPUT, "\"min\" is over \"max\"");
        }
        return;
    }
    if (type != TYPE_INT && type != TYPE_INTS) {
        if (min || max) {
            gk_reader_fail(r, NULL, GK_INPUT,
                           "\"min\" and \"max\" belong to int, real and ints fields");
        }
        return;
    }
    if (!gk_json_is(min, GK_JSON_INT) || !gk_json_is(max, GK_JSON_INT)) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"min\" and \"max\" must be there and be integers");
        return;
    }
    field->min = gk_json_int(min, 0);
    field->max = gk_json_int(max, 0);
    if (field->min > field->max) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"min\" %" PRId64 " is over \"max\" %" PRId64,
                       field->min, field->max);
    }
}

/* "=FIELD": the value that the earlier enum field has, by name. Text of the expression; NULL:
 * failed. */
static char *same_as_field(struct gk_reader *r, const struct gk_op *op,
                           const struct gk_field *field, const char *name)
{
    int64_t index = gk_op_field_index(op, name);
    const struct gk_field *from = index >= 0 ? &op->fields.fields[index] : NULL;
    if (!from || from->type != GK_FIELD_ENUM) {
        gk_reader_fail(r, "default", GK_NOT_FOUND,
                       "\"=%.60s\" names no earlier enum or dtype field", name);
        return NULL;
    }
    struct gk_buf buf = {0};
    for (uint32_t i = 0; i < from->value_count; i++) {
        uint32_t match = field->value_count;
        for (uint32_t k = 0; k < field->value_count; k++) {
            match = strcmp(field->values[k], from->values[i]) == 0 ? k : match;
        }
        if (match == field->value_count) {
            gk_reader_fail(r, "default", GK_INPUT,
                           "\"=%s\": this field lacks that field's value \"%s\"", name,
                           from->values[i]);
        }
        if (i + 1 < from->value_count) {
            gk_buf_printf(&buf, "%s == '%s' ? %" PRIu32 " : ", name, from->values[i], match);
        } else {
            gk_buf_printf(&buf, "%" PRIu32, match);
        }
    }
    char *text = gk_buf_detach(&buf);
    if (!text) {
        gk_reader_fail(r, "default", GK_NOMEM, "out of memory");
    }
    return text;
}

/* Text of the expression that an enum's default stands for; NULL with a message. */
static char *enum_default(struct gk_reader *r, const struct gk_op *op, const struct gk_field *field,
                          const struct gk_json *value)
{
    const char *text = gk_json_string(value, NULL);
    if (text && text[0] == '=') {
        return gk_plain_name(text + 1) ? same_as_field(r, op, field, text + 1)
                                       : gk_strdup(text + 1); /* an expression: the index */
    }
    for (uint32_t i = 0; text && i < field->value_count; i++) {
        if (strcmp(field->values[i], text) == 0) {
            return gk_asprintf("%" PRIu32, i);
        }
    }
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(value, shown);
    gk_reader_fail(r, "default", GK_INPUT,
                   "%s; one of \"values\", \"=FIELD\" or \"=EXPRESSION\" (an index) is allowed",
                   shown);
    return NULL;
}

static void check_default_range(struct gk_reader *r, const struct gk_field *field)
{
    if (!field->default_expr || gk_expr_slot_max(field->default_expr) >= 0) {
        return; /* depends on other fields: checked for each problem */
    }
    struct gk_err err = {0};
    double value = 0;
    enum gk_status status = gk_expr_eval_real(field->default_expr, NULL, &value, &err);
    bool whole = field->type != GK_FIELD_REAL;
    double low = whole ? (double)field->min : field->real_min;
    double high = whole ? (double)field->max : field->real_max;
    if (status != GK_OK) {
        gk_reader_fail(r, "default", status, "%s", err.text);
    } else if (!(value >= low && value <= high)) {
        gk_reader_fail(r, "default", GK_INPUT, "%g; %g to %g is allowed", value, low, high);
    }
}

static void read_field_default(struct gk_reader *r, const struct gk_json *json,
                               const struct gk_op *op, struct gk_field *field)
{
    const struct gk_json *value = gk_json_get(json, "default");
    struct gk_expr *expr = NULL;
    uint32_t before = r->errors;
    if (!value) {
        return;
    }
    if (field->type == GK_FIELD_ENUM) {
        char *text = enum_default(r, op, field, value);
        struct gk_json *wrapped = text ? gk_json_new_string(text) : NULL;
        if (!wrapped && r->errors == before) {
            gk_reader_fail(r, "default", GK_NOMEM, "out of memory");
        } else if (wrapped) {
            expr = gk_read_expr_value(r, wrapped, "default", op->fields.scope, GK_WANT_INT);
        }
        gk_json_free(wrapped);
        free(text);
    } else if (field->type == GK_FIELD_BOOL && !gk_json_is(value, GK_JSON_BOOL)) {
        gk_reader_fail(r, "default", GK_INPUT, "%s; true or false is allowed",
                       gk_json_type_name(gk_json_type(value)));
    } else {
        enum gk_wanted wanted = field->type == GK_FIELD_REAL ? GK_WANT_REAL : GK_WANT_INT;
        expr = gk_read_expr_value(r, value, "default", op->fields.scope, wanted);
    }
    if (!expr) {
        return;
    }
    field->default_expr = expr;
    field->default_text = gk_strdup(gk_expr_text(expr));
    if (!field->default_text) {
        gk_reader_fail(r, "default", GK_NOMEM, "out of memory");
    }
    if (field->type == GK_FIELD_ENUM || field->type == GK_FIELD_BOOL) {
        return;
    }
    check_default_range(r, field);
}

static void read_field_count(struct gk_reader *r, const struct gk_json *json,
                             const struct gk_op *op, struct gk_field *field)
{
    bool is_ints = field->type == GK_FIELD_INTS;
    if (!is_ints && gk_json_get(json, "count")) {
        gk_reader_fail(r, "count", GK_INPUT, "belongs to ints fields");
        return;
    }
    field->count_expr = gk_read_expr(r, json, "count", op->fields.scope, GK_WANT_INT, is_ints);
    if (field->count_expr) {
        field->count_text = gk_strdup(gk_expr_text(field->count_expr));
        if (!field->count_text) {
            gk_reader_fail(r, "count", GK_NOMEM, "out of memory");
        }
    }
}

void gk_op_read_field(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"name",   "type", "default", "min", "max",
                                       "values", "role", "count",   NULL};
    static const char *const roles[] = {"key", "data", NULL};
    struct gk_field *field = &op->fields.fields[op->fields.field_count];
    if (!gk_read_keys(r, json, keys) ||
        !gk_read_name(r, json, "name", sizeof field->name, field->name)) {
        return;
    }
    (void)gk_reader_enter(r, "(%s)", field->name); /* the caller leaves */
    int type = gk_read_choice(r, json, "type", field_types, -1);
    static const enum gk_field_type types[] = {
        [TYPE_INT] = GK_FIELD_INT,   [TYPE_REAL] = GK_FIELD_REAL,  [TYPE_BOOL] = GK_FIELD_BOOL,
        [TYPE_ENUM] = GK_FIELD_ENUM, [TYPE_DTYPE] = GK_FIELD_ENUM, [TYPE_INTS] = GK_FIELD_INTS};
    field->type = type >= 0 ? types[type] : GK_FIELD_INT;
    field->is_dtype = type == TYPE_DTYPE;
    field->role = (enum gk_field_role)gk_read_choice(
        r, json, "role", roles, type == TYPE_INTS ? GK_FIELD_DATA : GK_FIELD_KEY);
    field->doc = gk_read_doc(r, json);
    op->fields.field_count++; /* from here gk_op_fields_fini() frees what it holds */
    if (type >= 0) {
        read_field_values(r, json, field);
        read_field_range(r, json, type, field);
        read_field_default(r, json, op, field);
        read_field_count(r, json, op, field);
    }
    enum gk_value_type symbol = field->type == GK_FIELD_REAL   ? GK_VALUE_REAL
                                : field->type == GK_FIELD_INTS ? GK_VALUE_SERIES
                                                               : GK_VALUE_INT;
    struct gk_err err = {0};
    enum gk_status status =
        gk_scope_add(op->fields.scope, field->name, symbol, (const char *const *)field->values,
                     field->value_count, &field->slot, &err);
    if (status != GK_OK) {
        gk_reader_fail(r, "name", status, "%s", err.text);
    }
}
