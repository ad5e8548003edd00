/*
 * op.json: fields, derived names, constraints, traffic, reference, tolerance, defaults.
 *
 * The scope grows as the file is read, so that an expression sees exactly the names that stand
 * before it: fields in their order, then derived names. One field is in catalog_field.c, tensors
 * are in catalog_tensor.c.
 */
#include "kernels/catalog_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t gk_op_field_index(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->fields.field_count; i++) {
        if (strcmp(op->fields.fields[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void read_fields(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, "fields", 1, GK_FIELDS_MAX, true);
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        size_t mark = gk_reader_enter(r, "fields[%" PRIu32 "]", i);
        gk_op_read_field(r, gk_json_at(list, i), op);
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
        gk_reader_fail(r, "tolerance", GK_INPUT,
                       "an object from output tensor to terms is allowed");
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

uint32_t gk_op_read_outputs(struct gk_reader *r, const struct gk_json *json, const char *key,
                            const struct gk_op *op)
{
    const struct gk_json *list = gk_read_list(r, json, key, 0, GK_TENSORS_MAX, false);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < gk_json_count(list); i++) {
        const char *name = gk_json_string(gk_json_at(list, i), "");
        int64_t index = gk_op_tensor_index(op, name);
        if (index < 0 || op->tensors[index].role == GK_TENSOR_IN) {
            gk_reader_fail(r, key, GK_NOT_FOUND, "\"%.60s\" is no output tensor", name);
        } else {
            outputs |= UINT32_C(1) << index;
        }
    }
    return outputs;
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

void gk_op_read_reference(struct gk_reader *r, const struct gk_json *json,
                          const struct gk_reach *reach, struct gk_op *op)
{
    static const char *const keys[] = {"source", "kernel", "grid",          "block", "smem",
                                       "args",   "dtype",  "exact_outputs", NULL};
    static const char *const dtypes[] = {"f64x2", NULL};
    const struct gk_json *object = gk_json_get(json, "reference");
    if (!object) {
        gk_reader_fail(r, NULL, GK_INPUT,
                       "\"reference\" is missing; the plain kernel that defines "
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
        op->exact_outputs = gk_op_read_outputs(r, object, "exact_outputs", op);
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

const struct gk_template *gk_op_template(const struct gk_op *op, const char *name)
{
    for (uint32_t i = 0; i < op->template_count; i++) {
        if (strcmp(op->templates[i].name, name) == 0) {
            return &op->templates[i];
        }
    }
    return NULL;
}

/* A constant that is none of the parameter's values would never apply, and nobody would hear of it.
 * One that reads fields may fit some problems alone: that is what lists of defaults are for. */
static void check_constant(struct gk_reader *r, const struct gk_expr *expr,
                           const struct gk_param *param)
{
    int64_t value = 0;
    struct gk_err why = {0};
    if (!expr || gk_expr_slot_max(expr) >= 0) {
        return;
    }
    enum gk_status status = gk_expr_eval_int(expr, NULL, &value, &why);
    if (status != GK_OK) {
        gk_reader_fail(r, param->name, status, "%s", why.text);
        return;
    }
    for (uint32_t i = 0; i < param->value_count; i++) {
        if (param->values[i] == value) {
            return;
        }
    }
    struct gk_buf buf = {0};
    for (uint32_t i = 0; i < param->value_count; i++) {
        gk_buf_printf(&buf, "%s%" PRId64, i ? ", " : "", param->values[i]);
    }
    gk_reader_fail(r, param->name, GK_INPUT, "%" PRId64 "; one of %s is allowed", value,
                   gk_buf_text(&buf));
    gk_buf_fini(&buf);
}

static struct gk_expr *read_default_value(struct gk_reader *r, const struct gk_json *value,
                                          const struct gk_op *op, const struct gk_param *param)
{
    if (!param->names) {
        struct gk_expr *own =
            gk_read_expr_value(r, value, param->name, op->fields.scope, GK_WANT_INT);
        check_constant(r, own, param);
        return own;
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

/* True if op.json's "templates" lists the name: it may be absent here (a bundle of one template).
 */
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

const struct gk_template *gk_op_named_template(struct gk_reader *r, const char *key,
                                               const char *text, const struct gk_json *json,
                                               const struct gk_op *op)
{
    const struct gk_template *t = gk_op_template(op, text);
    if (!t && !is_listed(json, text) && !any_unnamed(op)) {
        gk_reader_fail(r, key, GK_NOT_FOUND,
                       "\"%.60s\" is neither here nor listed in \"templates\"", text);
    }
    return t;
}

static void read_default(struct gk_reader *r, const struct gk_json *entry,
                         const struct gk_json *json, struct gk_op *op)
{
    static const char *const keys[] = {"template", "config", "when", NULL};
    char name[GK_NAME_MAX];
    if (!gk_read_keys(r, entry, keys) || !gk_read_name(r, entry, "template", sizeof name, name)) {
        return;
    }
    const struct gk_template *t = gk_op_named_template(r, "template", name, json, op);
    if (!t || is_broken(t)) {
        return;
    }
    const struct gk_json *config = gk_json_get(entry, "config");
    struct gk_default_def *def = &op->defaults[op->default_count];
    if (!gk_json_is(config, GK_JSON_OBJECT)) {
        gk_reader_fail(r, NULL, GK_INPUT,
                       "\"config\" is missing; an object of all parameters is "
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
            gk_reader_fail(r, "templates", GK_INPUT, "entry %" PRIu32 " is no name of a template",
                           i);
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
    static const char *const keys[] = {"op",      "family",  "fields",   "derived",   "constraints",
                                       "tensors", "flops",   "bytes",    "reference", "tolerance",
                                       "exact",   "extreme", "defaults", "templates", "vendor",
                                       "prefer",  "avoids",  "example",  "small",     NULL};
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
    gk_op_read_vendor(r, json, op);
    gk_op_read_avoided(r, json, op);
    op->flops = gk_read_expr(r, json, "flops", fields->scope, GK_WANT_REAL, true);
    op->bytes = gk_read_expr(r, json, "bytes", fields->scope, GK_WANT_REAL, true);
    gk_op_read_small(r, json, op);
    read_template_list(r, json);
}

/* A problem like any other: one that is none would be shown to everybody. */
static void read_example(struct gk_reader *r, const struct gk_json *json, struct gk_op *op)
{
    const struct gk_json *fields = gk_json_get(json, "example");
    struct gk_problem problem = {0};
    if (!fields) {
        return;
    }
    char where[512];
    uint32_t before = r->diag->count;
    (void)snprintf(where, sizeof where, "%s: example", r->file); /* cut if need be: for people */
    if (gk_problem_from_json(&op->fields, fields, where, &problem, r->diag) != GK_OK) {
        r->errors += r->diag->count - before;
    } else if (!(op->example = gk_json_copy(fields))) {
        gk_reader_fail(r, "example", GK_NOMEM, "out of memory");
    }
    gk_problem_fini(&problem);
}

void gk_op_read_checks(struct gk_reader *r, const struct gk_json *json,
                       const struct gk_reach *reach, struct gk_op *op)
{
    gk_op_read_reference(r, json, reach, op);
    read_tolerance(r, json, op);
    read_example(r, json, op);
    gk_op_read_special(r, json, op);
    struct gk_err err = {0};
    enum gk_status status = gk_op_hash(json, op, &op->meaning, &err);
    if (status != GK_OK) {
        gk_reader_fail(r, NULL, status, "%s", err.text);
    }
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
    for (uint32_t i = 0; i < op->avoided_count; i++) {
        gk_avoided_fini(&op->avoided[i]);
    }
    for (uint32_t i = 0; i < op->small_count; i++) {
        gk_small_fini(&op->small[i]);
    }
    for (uint32_t i = 0; i < op->preference_count; i++) {
        gk_preference_fini(&op->preferences[i]);
    }
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
    gk_expr_destroy(op->extreme_when);
    gk_vendor_def_fini(&op->vendor);
    free(op->doc);
    gk_json_free(op->example);
    gk_op_fields_fini(&op->fields);
    free(op);
}
