/*
 * Problems from JSON: fields, defaults, series, rules. See problem.h. Pure; any thread.
 *
 * A row is read in one pass over the fields in declared order, so that a default sees the fields
 * before it. A field that is wrong marks its slot, and what would be computed from a marked slot is
 * skipped in silence: one mistake gives one message.
 *
 * Canonical forms: an INTS field is {"each":[..]} however it was written, except a draw, which
 * stays the draw. The default of an INTS field is one integer for every entry. Negative zero is
 * zero.
 */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/prng.h"
#include "core/problem_internal.h"

/* ------------------------------------------------------------------ the reader of one row */

struct reader {
    const struct gk_op_fields *op;
    const struct gk_json *row;
    const char *where;
    struct gk_diag *diag;
    struct gk_problem problem;
    struct gk_json *canonical;        /* members that differ from their default */
    bool wrong[GK_SCOPE_SYMBOLS_MAX]; /* by slot: no usable value there */
    bool failed;
};

static void complain(struct reader *r, enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(struct reader *r, enum gk_status status, const char *format, ...)
{
    struct gk_err text;
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(&text, status, format, ap); /* returns what it was given */
    va_end(ap);
    (void)gk_diag_add(r->diag, status, "%s: %s", r->where, text.text);
    r->failed = true;
}

/* What a field takes, for messages: "an integer from 1 to 4096", "bf16, f16". */
static void allowed_text(const struct gk_field *field, struct gk_buf *buf)
{
    char low[32], high[32];
    switch (field->type) {
    case GK_FIELD_INT:
        gk_buf_printf(buf, "an integer from %" PRId64 " to %" PRId64, field->min, field->max);
        break;
    case GK_FIELD_REAL:
        if (field->real_min <= -DBL_MAX && field->real_max >= DBL_MAX) {
            gk_buf_puts(buf, "a number");
            break;
        }
        gk_real_text(field->real_min, low);
        gk_real_text(field->real_max, high);
        gk_buf_printf(buf, "a number from %s to %s", low, high);
        break;
    case GK_FIELD_BOOL:
        gk_buf_puts(buf, "true or false");
        break;
    case GK_FIELD_ENUM:
        gk_buf_puts(buf, "one of ");
        for (uint32_t i = 0; i < field->value_count; i++) {
            gk_buf_printf(buf, "%s\"%s\"", i ? ", " : "", field->values[i]);
        }
        break;
    case GK_FIELD_INTS:
        gk_buf_printf(buf,
                      "{\"each\": [..]} with integers from %" PRId64 " to %" PRId64
                      ", or {\"draw\": \"uniform\", \"min\": .., \"max\": .., \"seed\": ..}",
                      field->min, field->max);
        break;
    }
}

static void complain_value(struct reader *r, const struct gk_field *field,
                           const struct gk_json *value)
{
    char shown[GK_JSON_SHOW_SIZE];
    struct gk_buf allowed = {0};
    gk_json_show(value, shown);
    allowed_text(field, &allowed);
    complain(r, GK_INPUT, "field %s is %s; allowed: %s", field->name, shown, gk_buf_text(&allowed));
    gk_buf_fini(&allowed);
}

/* True if the expression reads a slot without a usable value. */
static bool reads_wrong(const struct reader *r, const struct gk_expr *expr)
{
    for (int64_t slot = gk_expr_slot_max(expr); slot >= 0; slot--) {
        if (r->wrong[slot] && gk_expr_uses(expr, (uint32_t)slot)) {
            return true;
        }
    }
    return false;
}

static void keep(struct reader *r, const struct gk_field *field, struct gk_json *value)
{
    if (!gk_json_set(r->canonical, field->name, value)) {
        complain(r, GK_NOMEM, "out of memory for field %s", field->name);
    }
}

/* ------------------------------------------------------------------ fields with one value */

/* Reads a given value; false if it is not one of the field's. */
static bool read_scalar(const struct gk_field *field, const struct gk_json *json,
                        union gk_value *out)
{
    const char *text = NULL;
    switch (field->type) {
    case GK_FIELD_INT:
        out->i = gk_json_int(json, 0);
        return gk_json_is(json, GK_JSON_INT) && out->i >= field->min && out->i <= field->max;
    case GK_FIELD_REAL:
        out->r = gk_json_real(json, 0) + 0.0; /* -0.0 + 0.0 is 0.0 */
        return (gk_json_is(json, GK_JSON_INT) || gk_json_is(json, GK_JSON_REAL)) &&
               out->r >= field->real_min && out->r <= field->real_max;
    case GK_FIELD_BOOL:
        out->i = gk_json_bool(json, false);
        return gk_json_is(json, GK_JSON_BOOL);
    case GK_FIELD_ENUM:
        text = gk_json_string(json, NULL);
        for (uint32_t i = 0; text && i < field->value_count; i++) {
            if (strcmp(field->values[i], text) == 0) {
                out->i = i;
                return true;
            }
        }
        return false;
    case GK_FIELD_INTS:
        break;
    }
    return false;
}

static bool in_field(const struct gk_field *field, union gk_value value)
{
    switch (field->type) {
    case GK_FIELD_INT:
    case GK_FIELD_INTS:
        return value.i >= field->min && value.i <= field->max;
    case GK_FIELD_REAL:
        return value.r >= field->real_min && value.r <= field->real_max;
    case GK_FIELD_BOOL:
        return value.i == 0 || value.i == 1;
    case GK_FIELD_ENUM:
        return value.i >= 0 && value.i < (int64_t)field->value_count;
    }
    return false;
}

/* The default of a field from the fields before it; false if there is none or it cannot be computed
 * (which is told only if `tell`). */
static bool default_of(struct reader *r, const struct gk_field *field, bool tell,
                       union gk_value *out)
{
    struct gk_err err;
    if (!field->default_expr || reads_wrong(r, field->default_expr)) {
        return false;
    }
    enum gk_status status =
        field->type == GK_FIELD_REAL
            ? gk_expr_eval_real(field->default_expr, r->problem.slots, &out->r, &err)
            : gk_expr_eval_int(field->default_expr, r->problem.slots, &out->i, &err);
    if (status == GK_OK && field->type == GK_FIELD_REAL) {
        out->r += 0.0;
    }
    if (status == GK_OK && in_field(field, *out)) {
        return true;
    }
    if (tell && status != GK_OK) {
        complain(r, status, "default of field %s: %s", field->name, err.text);
    } else if (tell) {
        struct gk_buf text = {0};
        gk_expr_show_values(field->default_expr, r->problem.slots, &text);
        gk_buf_puts(&text, "; allowed: ");
        allowed_text(field, &text);
        complain(r, GK_RANGE, "field %s is absent and its default '%.200s' is out of range%s",
                 field->name, gk_expr_text(field->default_expr), gk_buf_text(&text));
        gk_buf_fini(&text);
    }
    return false;
}

struct gk_json *problem_scalar_json(const struct gk_field *field, union gk_value value)
{
    switch (field->type) {
    case GK_FIELD_INT:
        return gk_json_new_int(value.i);
    case GK_FIELD_REAL:
        return gk_json_new_real(value.r);
    case GK_FIELD_BOOL:
        return gk_json_new_bool(value.i != 0);
    case GK_FIELD_ENUM:
        return gk_json_new_string(field->values[value.i]);
    case GK_FIELD_INTS:
        break;
    }
    return NULL;
}

static void complain_missing(struct reader *r, const struct gk_field *field)
{
    struct gk_buf allowed = {0};
    allowed_text(field, &allowed);
    complain(r, GK_INPUT, "field %s is missing; allowed: %s", field->name, gk_buf_text(&allowed));
    gk_buf_fini(&allowed);
}

static void read_field(struct reader *r, const struct gk_field *field, const struct gk_json *json)
{
    union gk_value value = {0}, fallback = {0};
    bool has_default = default_of(r, field, json == NULL, &fallback);
    r->wrong[field->slot] = true;
    if (!json) {
        if (has_default) {
            r->problem.slots[field->slot] = fallback;
            r->wrong[field->slot] = false;
        } else if (!field->default_expr) {
            complain_missing(r, field);
        }
        return;
    }
    if (!read_scalar(field, json, &value)) {
        complain_value(r, field, json);
        return;
    }
    r->problem.slots[field->slot] = value;
    r->wrong[field->slot] = false;
    bool same = field->type == GK_FIELD_REAL ? value.r == fallback.r : value.i == fallback.i;
    if (!has_default || !same) {
        keep(r, field, problem_scalar_json(field, value));
    }
}

/* ------------------------------------------------------------------ fields with a value a request
 */

/* Number of entries the field must have, or -1 if any will do, or -2 if it cannot be told. */
static int64_t count_of(struct reader *r, const struct gk_field *field)
{
    struct gk_err err;
    int64_t count = 0;
    if (!field->count_expr) {
        return -1;
    }
    if (reads_wrong(r, field->count_expr)) {
        return -2;
    }
    if (gk_expr_slot_max(field->count_expr) >= (int64_t)field->slot) {
        complain(r, GK_INPUT, "field %s: its count '%.200s' reads fields after it", field->name,
                 gk_expr_text(field->count_expr));
        return -2;
    }
    if (gk_expr_eval_int(field->count_expr, r->problem.slots, &count, &err) != GK_OK) {
        complain(r, GK_RANGE, "field %s: its count: %s", field->name, err.text);
        return -2;
    }
    if (count < 0 || count > GK_SERIES_MAX) {
        complain(r, GK_LIMIT, "field %s has %" PRId64 " entries (%.200s); 0 to %d are allowed",
                 field->name, count, gk_expr_text(field->count_expr), GK_SERIES_MAX);
        return -2;
    }
    return count;
}

static int64_t *new_entries(struct reader *r, const struct gk_field *field, int64_t count)
{
    int64_t *values = malloc(count ? (size_t)count * sizeof *values : 1);
    if (!values) {
        complain(r, GK_NOMEM, "out of memory for %" PRId64 " entries of field %s", count,
                 field->name);
    }
    return values;
}

static int64_t *read_each(struct reader *r, const struct gk_field *field,
                          const struct gk_json *list, int64_t count)
{
    size_t met = gk_json_count(list);
    if (met > GK_SERIES_MAX) {
        complain(r, GK_LIMIT, "field %s has %zu entries; at most %d are allowed", field->name, met,
                 GK_SERIES_MAX);
        return NULL;
    }
    if (count >= 0 && met != (size_t)count) {
        complain(r, GK_INPUT, "field %s has %zu entries; %" PRId64 " (%.200s) are needed",
                 field->name, met, count, gk_expr_text(field->count_expr));
        return NULL;
    }
    int64_t *values = new_entries(r, field, (int64_t)met);
    for (size_t i = 0; values && i < met; i++) {
        const struct gk_json *entry = gk_json_at(list, i);
        values[i] = gk_json_int(entry, 0);
        if (!gk_json_is(entry, GK_JSON_INT) || values[i] < field->min || values[i] > field->max) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(entry, shown);
            complain(r, GK_INPUT,
                     "field %s, entry %zu is %s; allowed: an integer from %" PRId64 " to %" PRId64,
                     field->name, i, shown, field->min, field->max);
            free(values);
            return NULL;
        }
    }
    return values;
}

/* A draw depends on its seed and the field's name alone, so that every process makes the same
 * values and two fields of one seed differ. */
static int64_t *read_draw(struct reader *r, const struct gk_field *field,
                          const struct gk_json *json, int64_t count)
{
    int64_t min = 0, max = 0, seed = 0;
    struct gk_err err;
    if (gk_json_need_int(json, "min", field->min, field->max, &min, "draw", &err) != GK_OK ||
        gk_json_need_int(json, "max", min, field->max, &max, "draw", &err) != GK_OK ||
        gk_json_need_int(json, "seed", 0, INT64_MAX, &seed, "draw", &err) != GK_OK) {
        complain(r, GK_INPUT, "field %s: %s", field->name, err.text);
        return NULL;
    }
    if (count < 0) {
        complain(r, GK_INPUT,
                 "field %s: a draw needs a number of entries, and the field declares none: give "
                 "{\"each\": [..]}",
                 field->name);
        return NULL;
    }
    int64_t *values = new_entries(r, field, count);
    struct gk_hash name = gk_hash_text(field->name);
    uint64_t stream = 0;
    memcpy(&stream, name.bytes, sizeof stream); /* little-endian machines only, as all of ours */
    struct gk_prng prng;
    gk_prng_init(&prng, (uint64_t)seed, stream);
    for (int64_t i = 0; values && i < count; i++) {
        uint64_t span = (uint64_t)max - (uint64_t)min + 1; /* 0: all of 64 bits */
        uint64_t step = span ? gk_prng_below(&prng, span) : gk_prng_u64(&prng);
        values[i] = (int64_t)((uint64_t)min + step);
    }
    return values;
}

static bool all_equal(const int64_t *values, int64_t count, int64_t value)
{
    for (int64_t i = 0; i < count; i++) {
        if (values[i] != value) {
            return false;
        }
    }
    return true;
}

struct gk_json *problem_each_json(const int64_t *values, size_t count)
{
    struct gk_json *json = gk_json_new_object(), *list = gk_json_new_array();
    for (size_t i = 0; list && i < count; i++) {
        if (!gk_json_push(list, gk_json_new_int(values[i]))) {
            gk_json_free(list);
            list = NULL;
        }
    }
    if (!json || !gk_json_set(json, "each", list)) { /* takes the list in any case */
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* True if the object has no member but those of the list. */
static bool only_members(const struct gk_json *json, const char *const *names, size_t count)
{
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(json, &cursor, &key)) {
        bool found = false;
        for (size_t i = 0; i < count && !found; i++) {
            found = strcmp(names[i], key) == 0;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

static void read_series(struct reader *r, const struct gk_field *field, const struct gk_json *json,
                        struct gk_series *series)
{
    static const char *const each_names[] = {"each"};
    static const char *const draw_names[] = {"draw", "min", "max", "seed"};
    int64_t *values = NULL;
    union gk_value fallback = {0};
    bool has_default = default_of(r, field, json == NULL, &fallback);
    r->wrong[field->slot] = true;
    r->problem.slots[field->slot].series = series;
    if (!json && !field->default_expr) {
        complain_missing(r, field);
        return;
    }
    int64_t count = count_of(r, field);
    if (count == -2 || (!json && !has_default)) {
        return;
    }
    const struct gk_json *each = gk_json_is(json, GK_JSON_ARRAY) ? json : gk_json_get(json, "each");
    bool draw = strcmp(gk_json_get_string(json, "draw", ""), "uniform") == 0 &&
                only_members(json, draw_names, GK_ARRAY_COUNT(draw_names));
    if (!json) {
        count = count < 0 ? 0 : count;
        values = new_entries(r, field, count);
        for (int64_t i = 0; values && i < count; i++) {
            values[i] = fallback.i;
        }
    } else if (gk_json_is(each, GK_JSON_ARRAY) &&
               only_members(json, each_names, GK_ARRAY_COUNT(each_names))) {
        values = read_each(r, field, each, count);
        count = (int64_t)gk_json_count(each);
    } else if (draw) {
        values = read_draw(r, field, json, count);
    } else {
        complain_value(r, field, json);
    }
    if (!values) {
        return;
    }
    series->values = values;
    series->count = (uint32_t)count;
    r->wrong[field->slot] = false;
    if (draw) {
        keep(r, field, gk_json_copy(json));
    } else if (json && !(has_default && all_equal(values, count, fallback.i) &&
                         (field->count_expr || count == 0))) {
        keep(r, field, problem_each_json(values, (size_t)count));
    }
}

/* ------------------------------------------------------------------ whole rows */

static const struct gk_field *find_field(const struct gk_op_fields *op, const char *name)
{
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (strcmp(op->fields[i].name, name) == 0) {
            return &op->fields[i];
        }
    }
    return NULL;
}

static void refuse_unknown(struct reader *r)
{
    void *cursor = NULL;
    const char *key = NULL;
    while (gk_json_next(r->row, &cursor, &key)) {
        if (find_field(r->op, key)) {
            continue;
        }
        struct gk_buf all = {0};
        for (uint32_t i = 0; i < r->op->field_count; i++) {
            gk_buf_printf(&all, "%s%s", i ? ", " : "", r->op->fields[i].name);
        }
        complain(r, GK_NOT_FOUND, "%s has no field '%.64s'; its fields: %s", r->op->op, key,
                 gk_buf_text(&all));
        gk_buf_fini(&all);
    }
}

static void apply_rule(struct reader *r, const struct gk_rule *rule)
{
    struct gk_err err;
    union gk_value value = {0};
    if (!rule->is_constraint) {
        r->wrong[rule->slot] = true;
    }
    if (reads_wrong(r, rule->expr)) {
        return;
    }
    enum gk_status status = rule->is_constraint
                                ? gk_expr_eval_int(rule->expr, r->problem.slots, &value.i, &err)
                                : gk_expr_eval(rule->expr, r->problem.slots, &value, &err);
    if (status != GK_OK) {
        complain(r, status, "%s: %s", rule->name, err.text);
    } else if (!rule->is_constraint) {
        r->problem.slots[rule->slot] = value;
        r->wrong[rule->slot] = false;
    } else if (value.i == 0) {
        struct gk_buf values = {0};
        gk_expr_show_values(rule->expr, r->problem.slots, &values);
        complain(r, GK_INPUT, "breaks '%s': %.200s%s%s%.300s", rule->name, gk_expr_text(rule->expr),
                 gk_buf_text(&values), rule->doc ? ": " : "", rule->doc ? rule->doc : "");
        gk_buf_fini(&values);
    }
}

static void finish(struct reader *r)
{
    struct gk_buf buf = {0};
    struct gk_err err;
    gk_buf_puts(&buf, r->op->op);
    if (gk_json_canonical(r->canonical, &buf, &err) != GK_OK ||
        !(r->problem.canonical = gk_buf_detach(&buf))) {
        complain(r, GK_NOMEM, "out of memory for the canonical text");
        gk_buf_fini(&buf);
        return;
    }
    r->problem.id = gk_hash_text(r->problem.canonical);
}

static void read_row(struct reader *r)
{
    const struct gk_op_fields *op = r->op;
    if (!gk_json_is(r->row, GK_JSON_OBJECT)) {
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(r->row, shown);
        complain(r, GK_INPUT, "%s where an object of the fields of %s is needed", shown, op->op);
        return;
    }
    refuse_unknown(r);
    memset(r->wrong, true, sizeof r->wrong); /* until it is read */
    for (uint32_t i = 0; i < op->field_count; i++) {
        const struct gk_field *field = &op->fields[i];
        const struct gk_json *json = gk_json_get(r->row, field->name);
        if (field->type == GK_FIELD_INTS) {
            read_series(r, field, json, &r->problem.series[i]);
        } else {
            read_field(r, field, json);
        }
    }
    for (uint32_t i = 0; i < op->rule_count; i++) {
        apply_rule(r, &op->rules[i]);
    }
    /* Only an op.json whose default or rule reads what comes after it gets here without a message.
     */
    for (uint32_t slot = 0; !r->failed && slot < r->problem.slot_count; slot++) {
        if (r->wrong[slot]) {
            complain(r, GK_INPUT, "'%s' of %s depends on a name declared after it",
                     gk_scope_at(op->scope, slot)->name, op->op);
        }
    }
    if (!r->failed) {
        finish(r);
    }
}

enum gk_status gk_problem_from_json(const struct gk_op_fields *op, const struct gk_json *fields,
                                    const char *where, struct gk_problem *problem_out,
                                    struct gk_diag *diag)
{
    uint32_t slot_count = gk_scope_count(op->scope);
    struct reader r = {.op = op, .row = fields, .where = where, .diag = diag};
    r.problem.op = op;
    r.problem.slot_count = slot_count;
    r.problem.slots = calloc(slot_count ? slot_count : 1, sizeof *r.problem.slots);
    r.problem.series = calloc(op->field_count ? op->field_count : 1, sizeof *r.problem.series);
    r.canonical = gk_json_new_object();
    if (r.problem.slots && r.problem.series && r.canonical) {
        read_row(&r);
    } else {
        complain(&r, GK_NOMEM, "out of memory for a problem of %s", op->op);
    }
    gk_json_free(r.canonical);
    if (r.failed) {
        gk_problem_fini(&r.problem);
        return diag->status;
    }
    *problem_out = r.problem;
    return GK_OK;
}
