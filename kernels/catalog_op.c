/*
 * op.json: fields, derived names, constraints, traffic, reference, tolerance, defaults.
 *
 * The scope grows as the file is read, so that an expression sees exactly the names that stand before
 * it: fields in their order, then derived names. Tensors are in catalog_tensor.c.
 */
#include "kernels/catalog_internal.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const field_types[] = {"int", "real", "bool", "enum", "dtype", "ints", NULL};
enum { TYPE_INT, TYPE_REAL, TYPE_BOOL, TYPE_ENUM, TYPE_DTYPE, TYPE_INTS };

int64_t gk_op_field_index(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        if (strcmp(op->fields.fields[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ------------------------------------------------------------------ fields */

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
            gk_reader_fail(r, "values", GK_INPUT,
                           "%s; text of letters, digits, '_', '-', '.' (at most %d bytes) is allowed",
                           shown, GK_NAME_MAX - 1);
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

static void read_field_values(struct gk_reader *r, const struct gk_json *json, struct gk_field *field)
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
            gk_reader_fail(r, "values", GK_INPUT,
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
        gk_reader_fail(r, NULL, GK_INPUT, "\"min\" %" PRId64 " is over \"max\" %" PRId64, field->min,
                       field->max);
    }
}

/* "=FIELD": the value that the earlier enum field has, by name. Text of the expression; NULL: failed. */
static char *same_as_field(struct gk_reader *r, const struct gk_op *op, const struct gk_field *field,
                           const char *name)
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

static void read_field_default(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                               struct gk_field *field)
{
    const struct gk_json *value = gk_json_get(json, "default");
    struct gk_expr *expr = NULL;
    if (!value) {
        return;
    }
    if (field->type == GK_FIELD_ENUM) {
        char *text = enum_default(r, op, field, value);
        struct gk_json *wrapped = text ? gk_json_new_string(text) : NULL;
        if (wrapped) {
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

static void read_field_count(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                             struct gk_field *field)
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

static void read_field(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"name", "type", "default", "min", "max", "values", "role",
                                       "count", NULL};
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

static void read_fields(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "fields", 1, GK_FIELDS_MAX, true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "fields[%" PRIu32 "]", i);
        read_field(r, gk_json_at(list, i), op);
        gk_reader_leave(r, mark);
    }
}

/* ------------------------------------------------------------------ tolerance */

static void read_term(struct gk_reader *r, const struct gk_json *json, const struct gk_op *op,
                      struct gk_tolerance *tolerance)
{
    static const char *const keys[] = {"name", "c", "u", NULL};
    uint32_t i = tolerance->term_count;
    if (!gk_read_keys(r, json, keys) ||
        !gk_read_name(r, json, "name", GK_NAME_MAX, tolerance->terms[i].name)) {
        return;
    }
    const struct gk_json *u = gk_json_get(json, "u");
    tolerance->terms[i].u = gk_json_real(u, -1);
    if (!(tolerance->terms[i].u >= 0 && tolerance->terms[i].u <= 1)) {
        gk_reader_fail(r, "u", GK_INPUT, "a unit roundoff between 0 and 1 is needed");
    }
    if (!gk_json_get(json, "why")) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"why\" is missing; a rounding point states its reason");
    }
    tolerance->terms[i].c = gk_read_expr(r, json, "c", op->fields.scope, GK_WANT_REAL, true);
    tolerance->term_count++;
}

static void read_tolerance(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"terms", "norm", NULL};
    const struct gk_json *object = gk_json_get(json, "tolerance");
    if (object && !gk_json_is(object, GK_JSON_OBJECT)) {
        gk_reader_fail(r, "tolerance", GK_INPUT, "an object from output tensor to terms is allowed");
        return;
    }
    void *cursor = NULL;
    const char *name = NULL;
    for (const struct gk_json *entry = NULL; (entry = gk_json_next(object, &cursor, &name));) {
        size_t mark = gk_reader_enter(r, "tolerance.%.63s", name);
        int64_t index = gk_op_tensor_index(op, name);
        if (index < 0 || op->tensors[index].role == GK_TENSOR_IN) {
            gk_reader_fail(r, NULL, GK_NOT_FOUND, "names no output tensor");
        } else if (gk_read_keys(r, entry, keys)) {
            struct gk_tolerance *tolerance = &op->tolerance[index];
            const struct gk_json *terms = gk_read_list(r, entry, "terms", 0, GK_TERMS_MAX, true);
            tolerance->present = true;
            for (uint32_t i = 0; i < gk_json_count(terms); i++) {
                size_t inner = gk_reader_enter(r, "terms[%" PRIu32 "]", i);
                read_term(r, gk_json_at(terms, i), op, tolerance);
                gk_reader_leave(r, inner);
            }
            tolerance->norm = gk_read_expr(r, entry, "norm", op->fields.scope, GK_WANT_REAL, false);
        }
        gk_reader_leave(r, mark);
    }
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        bool exact = (op->exact_outputs >> i & 1) != 0;
        if (op->tensors[i].role != GK_TENSOR_IN && !op->tolerance[i].present && !exact) {
            gk_reader_fail(r, "tolerance", GK_INPUT,
                           "output tensor \"%s\" has none and is not among the reference's "
                           "exact_outputs",
                           op->tensors[i].name);
        }
    }
}

/* ------------------------------------------------------------------ reference */

static void read_exact_outputs(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "exact_outputs", 0, GK_TENSORS_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        int64_t index = gk_op_tensor_index(op, name);
        if (index < 0 || op->tensors[index].role == GK_TENSOR_IN) {
            gk_reader_fail(r, "exact_outputs", GK_NOT_FOUND, "\"%.60s\" is no output tensor", name);
        } else {
            op->exact_outputs |= UINT32_C(1) << index;
        }
    }
}

static void check_results(struct gk_reader *r, const struct gk_op *op)
{
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        uint32_t results = 0;
        for (uint32_t k = 0; k < op->reference.arg_count; k++) {
            const struct gk_arg *arg = &op->reference.args[k];
            results += arg->kind == GK_ARG_RESULT && arg->index == i;
        }
        bool is_output = op->tensors[i].role != GK_TENSOR_IN;
        if (results != (is_output ? 1U : 0U)) {
            gk_reader_fail(r, "args", GK_INPUT,
                           is_output ? "output tensor \"%s\" is written %" PRIu32 " times; one "
                                       "{\"result\": \"%s\"} is needed"
                                     : "tensor \"%s\" stands %" PRIu32 " times as a result, but it "
                                       "is an input (\"%s\")",
                           op->tensors[i].name, results, op->tensors[i].name);
        }
    }
}

void gk_op_read_reference(struct gk_reader *r, const struct gk_json *json, const struct gk_reach *reach,
                          struct gk_op *op)
{
    static const char *const keys[] = {"source", "kernel", "grid", "block", "smem",
                                       "args", "dtype", "exact_outputs", NULL};
    static const char *const dtypes[] = {"f64x2", NULL};
    const struct gk_json *object = gk_json_get(json, "reference");
    if (!object) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"reference\" is missing; the plain kernel that defines "
                                          "what is right is needed");
        return;
    }
    size_t mark = gk_reader_enter(r, "reference");
    uint32_t before = r->errors;
    if (gk_read_keys(r, object, keys)) {
        op->has_reference = true;
        (void)gk_read_choice(r, object, "dtype", dtypes, 0); /* the only one, today */
        gk_launch_read(r, object, op, NULL, op->fields.scope, &op->reference);
        gk_launch_read_grid(r, object, op->fields.scope, &op->reference);
        const char *source = gk_read_text(r, object, "source", GK_PATH_MAX - 1, true);
        if (source) {
            gk_reach_tokens(reach, r, "source", source, &op->reference.source,
                            &op->reference.tokens);
        }
        read_exact_outputs(r, object, op);
        if (r->errors == before) {
            check_results(r, op);
        }
    }
    gk_reader_leave(r, mark);
}

/* ------------------------------------------------------------------ defaults */

/* A template without an identity had mistakes, which were told: what depends on it is not. */
static bool is_broken(const struct gk_template *t)
{
    return gk_hash_is_zero(&t->hash);
}

static bool any_unnamed(const struct gk_op *op)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (op->templates[i].name[0] == '\0') {
            return true;
        }
    }
    return false;
}

static const struct gk_template *find_template(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, name) == 0) {
            return &op->templates[i];
        }
    }
    return NULL;
}

static struct gk_expr *read_default_value(struct gk_reader *r, const struct gk_json *value,
                                          const struct gk_op *op, const struct gk_param *param)
{
    if (!param->names) {
        return gk_read_expr_value(r, value, param->name, op->fields.scope, GK_WANT_INT);
    }
    const char *text = gk_json_string(value, "");
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (strcmp(param->names[i], text) == 0) {
            struct gk_json *index = gk_json_new_int((int64_t)i);
            struct gk_expr *expr =
                gk_read_expr_value(r, index, param->name, op->fields.scope, GK_WANT_INT);
            gk_json_free(index);
            return expr;
        }
    }
    struct gk_buf buf = {0};
    for (uint32_t i = 0; i < param->value_count; i++) {
        gk_buf_printf(&buf, "%s%s", i ? ", " : "", param->names[i]);
    }
    char shown[GK_JSON_SHOW_SIZE];
    gk_json_show(value, shown);
    gk_reader_fail(r, param->name, GK_INPUT, "%s; one of %s is allowed", shown, gk_buf_text(&buf));
    gk_buf_fini(&buf);
    return NULL;
}

static void read_default_config(struct gk_reader *r, const struct gk_json *config,
                                const struct gk_op *op, const struct gk_template *t,
                                struct gk_default_def *def)
{
    size_t mark = gk_reader_enter(r, "config");
    void *cursor = NULL;
    const char *key = NULL;
    for (const struct gk_json *value = NULL; (value = gk_json_next(config, &cursor, &key));) {
        uint32_t i = 0;
        while (i < t->param_count && strcmp(t->params[i].name, key) != 0) {
            i++;
        }
        if (i == t->param_count) {
            gk_reader_fail(r, NULL, GK_NOT_FOUND, "\"%.60s\" is no parameter of template \"%s\"",
                           key, t->name);
        } else {
            def->values[i] = read_default_value(r, value, op, &t->params[i]);
        }
    }
    for (uint32_t i = 0; i < t->param_count; i++) {
        if (!gk_json_get(config, t->params[i].name)) {
            gk_reader_fail(r, NULL, GK_INPUT, "parameter \"%s\" is missing; a default names all",
                           t->params[i].name);
        }
    }
    gk_reader_leave(r, mark);
}

/* True if op.json's "templates" lists the name: it may be absent here (a bundle of one template). */
static bool is_listed(const struct gk_json *json, const char *name)
{
    const struct gk_json *list = gk_json_get(json, "templates");
    for (uint32_t i = 0; gk_json_is(list, GK_JSON_ARRAY) && i < gk_json_count(list); i++) {
        if (strcmp(gk_json_string(gk_json_at(list, i), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

static void read_default(struct gk_reader *r, const struct gk_json *entry, const struct gk_json *json,
                         struct gk_op *op)
{
    static const char *const keys[] = {"template", "config", "when", NULL};
    char name[GK_NAME_MAX];
    if (!gk_read_keys(r, entry, keys) || !gk_read_name(r, entry, "template", sizeof name, name)) {
        return;
    }
    const struct gk_template *t = find_template(op, name);
    if (!t) {
        if (!is_listed(json, name) && !any_unnamed(op)) {
            gk_reader_fail(r, "template", GK_NOT_FOUND,
                           "\"%s\" is neither here nor listed in \"templates\"", name);
        }
        return;
    }
    if (is_broken(t)) {
        return;
    }
    const struct gk_json *config = gk_json_get(entry, "config");
    struct gk_default_def *def = &op->defaults[op->default_count];
    if (!gk_json_is(config, GK_JSON_OBJECT)) {
        gk_reader_fail(r, NULL, GK_INPUT, "\"config\" is missing; an object of all parameters is "
                                          "needed");
        return;
    }
    def->template_index = (uint32_t)(t - op->templates);
    op->default_count++;
    read_default_config(r, config, op, t, def);
    def->when = gk_read_expr(r, entry, "when", op->fields.scope, GK_WANT_INT, false);
}

void gk_op_read_defaults(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "defaults", 0, GK_DEFAULTS_MAX, false);
    if (gk_json_count(list) == 0) {
        return;
    }
    op->defaults = calloc(gk_json_count(list), sizeof *op->defaults);
    if (!op->defaults) {
        gk_reader_fail(r, "defaults", GK_NOMEM, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "defaults[%" PRIu32 "]", i);
        read_default(r, gk_json_at(list, i), json, op);
        gk_reader_leave(r, mark);
    }
}

/* ------------------------------------------------------------------ the file */

static void read_template_list(struct gk_reader *r, const struct gk_json *json)
{
    const struct gk_json *list = gk_read_list(r, json, "templates", 1, GK_TEMPLATES_MAX, false);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        if (!gk_plain_name(name)) {
            gk_reader_fail(r, "templates", GK_INPUT, "entry %" PRIu32 " is no name of a template", i);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(gk_json_string(gk_json_at(list, k), ""), name) == 0) {
                gk_reader_fail(r, "templates", GK_EXISTS, "\"%.60s\" stands twice", name);
            }
        }
    }
}

void gk_op_read(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"op",    "family",    "fields",    "derived", "constraints",
                                       "tensors", "flops",   "bytes",     "reference", "tolerance",
                                       "exact", "defaults",  "templates", NULL};
    op->fields.scope = gk_scope_create();
    if (!op->fields.scope) {
        gk_reader_fail(r, NULL, GK_NOMEM, "out of memory");
        return;
    }
    if (!gk_read_keys(r, json, keys)) {
        return;
    }
    struct gk_op_fields *fields = &op->fields;
    (void)gk_read_name(r, json, "op", sizeof fields->op, fields->op); /* reported */
    if (gk_json_get(json, "family")) {
        (void)gk_read_name(r, json, "family", sizeof fields->family, fields->family); /* reported */
    } else {
        memcpy(fields->family, fields->op, sizeof fields->family);
    }
    op->doc = gk_read_doc(r, json);
    read_fields(r, json, op);
    struct gk_rule_list rules = {0};
    gk_read_rules(r, json, fields->scope, &rules);
    fields->rules = rules.rules;
    fields->rule_count = rules.count;
    gk_op_read_tensors(r, json, op);
    op->flops = gk_read_expr(r, json, "flops", fields->scope, GK_WANT_REAL, true);
    op->bytes = gk_read_expr(r, json, "bytes", fields->scope, GK_WANT_REAL, true);
    read_template_list(r, json);
}

void gk_op_read_checks(struct gk_reader *r, const struct gk_json *json, const struct gk_reach *reach,
                       struct gk_op *op)
{
    gk_op_read_reference(r, json, reach, op);
    read_tolerance(r, json, op);
    gk_op_read_exact(r, json, op);
}

void gk_op_free(struct gk_op *op)
{
    if (!op) {
        return;
    }
    for (uint32_t i = 0; i < op->default_count; i++) {
        for (uint32_t k = 0; k < GK_PARAMS_MAX; k++) {
            gk_expr_destroy(op->defaults[i].values[k]);
        }
        gk_expr_destroy(op->defaults[i].when);
    }
    free(op->defaults);
    for (uint32_t i = 0; i < op->template_count; i++) {
        gk_template_fini(&op->templates[i]);
    }
    free(op->templates);
    for (uint32_t i = 0; i < op->tensor_count; i++) {
        gk_tensor_fini(&op->tensors[i]);
    }
    for (uint32_t i = 0; i < GK_TENSORS_MAX; i++) {
        for (uint32_t k = 0; k < op->tolerance[i].term_count; k++) {
            gk_expr_destroy(op->tolerance[i].terms[k].c);
        }
        gk_expr_destroy(op->tolerance[i].norm);
    }
    gk_launch_fini(&op->reference);
    gk_expr_destroy(op->flops);
    gk_expr_destroy(op->bytes);
    gk_expr_destroy(op->exact_when);
    free(op->doc);
    gk_op_fields_fini(&op->fields);
    free(op);
}
