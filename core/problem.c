/* Problems: their life, canonical text, and back to JSON and people. See problem.h. Pure; any
 * thread. */
#include "core/problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/problem_internal.h"

static void rule_fini(struct gk_rule *rule)
{
    free(rule->doc);
    gk_expr_destroy(rule->expr);
}

static void field_fini(struct gk_field *field)
{
    free(field->doc);
    for (uint32_t i = 0; field->values && i < field->value_count; i++) {
        free(field->values[i]);
    }
    free(field->values);
    free(field->default_text);
    gk_expr_destroy(field->default_expr);
    free(field->count_text);
    gk_expr_destroy(field->count_expr);
}

void gk_op_fields_fini(struct gk_op_fields *op)
{
    if (!op) {
        return;
    }
    for (uint32_t i = 0; i < op->field_count; i++) {
        field_fini(&op->fields[i]);
    }
    for (uint32_t i = 0; op->rules && i < op->rule_count; i++) {
        rule_fini(&op->rules[i]);
    }
    free(op->rules);
    gk_scope_destroy(op->scope);
    memset(op, 0, sizeof *op);
}

void gk_problem_fini(struct gk_problem *problem)
{
    if (!problem) {
        return;
    }
    for (uint32_t i = 0; problem->series && i < problem->op->field_count; i++) {
        free((void *)(uintptr_t)problem->series[i].values); /* const for its readers only */
    }
    free(problem->series);
    free(problem->slots);
    free(problem->canonical);
    memset(problem, 0, sizeof *problem);
}

/* ------------------------------------------------------------------ canonical text */

enum gk_status gk_problem_op_of(const char *canonical, char op_out[GK_NAME_MAX], struct gk_err *err)
{
    size_t length = strcspn(canonical, "{");
    char name[GK_NAME_MAX];
    if (length == 0 || length >= sizeof name || canonical[length] != '{') {
        return gk_fail(err, GK_INPUT,
                       "problem '%.120s': an op and its fields are needed, as gemm{..}", canonical);
    }
    memcpy(name, canonical, length);
    name[length] = '\0';
    if (!gk_is_name(name) || strchr(name, '.')) {
        return gk_fail(err, GK_INPUT, "problem '%.120s': '%s' is not the name of an op", canonical,
                       name);
    }
    memcpy(op_out, name, length + 1);
    return GK_OK;
}

enum gk_status gk_problem_from_text(const struct gk_op_fields *op, const char *canonical,
                                    struct gk_problem *problem_out, struct gk_err *err)
{
    char name[GK_NAME_MAX];
    struct gk_json *json = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = gk_problem_op_of(canonical, name, err);
    if (status == GK_OK && strcmp(name, op->op) != 0) {
        status = gk_fail(err, GK_INPUT, "problem '%.120s' is of op %s, not of %s", canonical, name,
                         op->op);
    }
    if (status == GK_OK) {
        const char *text = canonical + strlen(name);
        status = gk_json_parse(text, strlen(text), "problem", &json, err);
        if (status != GK_OK) {
            status = GK_INPUT;
            if (err) {
                err->status = GK_INPUT;
            }
        }
    }
    if (status == GK_OK && gk_problem_from_json(op, json, "problem", problem_out, &diag) != GK_OK) {
        status = gk_diag_status(&diag, err);
    }
    gk_json_free(json);
    gk_diag_fini(&diag);
    return status;
}

/* ------------------------------------------------------------------ back to JSON and people */

/* The members of the canonical text: the fields that are not at their default. NULL when out of
 * memory. */
static struct gk_json *canonical_members(const struct gk_problem *problem)
{
    struct gk_json *json = NULL;
    const char *text = problem->canonical + strlen(problem->op->op);
    (void)gk_json_parse(text, strlen(text), "problem", &json,
                        NULL); /* json stays NULL on failure */
    return json;
}

struct gk_json *gk_problem_to_json(const struct gk_problem *problem)
{
    struct gk_json *given = canonical_members(problem), *json = gk_json_new_object();
    bool good = given && json;
    for (uint32_t i = 0; good && i < problem->op->field_count; i++) {
        const struct gk_field *field = &problem->op->fields[i];
        const struct gk_json *member = gk_json_get(given, field->name);
        struct gk_json *value =
            member ? gk_json_copy(member)
            : field->type == GK_FIELD_INTS
                ? problem_each_json(problem->series[i].values, problem->series[i].count)
                : problem_scalar_json(field, problem->slots[field->slot]);
        good = gk_json_set(json, field->name, value);
    }
    gk_json_free(given);
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static void label_field(const struct gk_problem *problem, uint32_t index, struct gk_buf *buf)
{
    const struct gk_field *field = &problem->op->fields[index];
    union gk_value value = problem->slots[field->slot];
    char number[32];
    gk_buf_puts(buf, buf->size ? " " : "");
    switch (field->type) {
    case GK_FIELD_INT:
        gk_buf_printf(buf, "%s=%" PRId64, field->name, value.i);
        break;
    case GK_FIELD_REAL:
        gk_real_text(value.r, number);
        gk_buf_printf(buf, "%s=%s", field->name, number);
        break;
    case GK_FIELD_BOOL:
        gk_buf_printf(buf, "%s%s", field->name, value.i ? "" : "=false");
        break;
    case GK_FIELD_ENUM:
        if (!field->is_dtype) {
            gk_buf_printf(buf, "%s=", field->name);
        }
        gk_buf_puts(buf, field->values[value.i]);
        break;
    case GK_FIELD_INTS: {
        const struct gk_series *series = &problem->series[index];
        int64_t min = series->count ? series->values[0] : 0, max = min;
        for (uint32_t i = 1; i < series->count; i++) {
            min = series->values[i] < min ? series->values[i] : min;
            max = series->values[i] > max ? series->values[i] : max;
        }
        gk_buf_printf(buf, "%s=%" PRIu32 "x[%" PRId64 "..%" PRId64 "]", field->name, series->count,
                      min, max);
        break;
    }
    }
}

void gk_problem_label(const struct gk_problem *problem, char *text_out, size_t size)
{
    struct gk_buf buf = {0};
    struct gk_json *given = canonical_members(problem);
    for (uint32_t i = 0; i < problem->op->field_count; i++) {
        if (gk_json_get(given, problem->op->fields[i].name)) {
            label_field(problem, i, &buf);
        }
    }
    const char *text = buf.size ? gk_buf_text(&buf) : problem->op->op;
    int length = size ? snprintf(text_out, size, "%s", text) : 0;
    if (length > 0 && (size_t)length >= size && size >= 4) {
        memcpy(text_out + size - 4, "...", 4);
    }
    gk_json_free(given);
    gk_buf_fini(&buf);
}
