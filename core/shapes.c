/*
 * Shapes files: JSON rows, their expansion, and the merging of equal problems. See shapes.h.
 *
 * Everything wrong with a file is told in one pass. A row that expands repeats a mistake once for
 * each combination: equal messages are told once. The first member of a row with a list varies
 * slowest.
 */
#include "core/shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/shapes_internal.h"

void gk_shapes_fini(struct gk_shapes *shapes)
{
    if (!shapes) {
        return;
    }
    for (uint32_t i = 0; i < shapes->count; i++) {
        gk_problem_fini(&shapes->problems[i]);
    }
    free(shapes->problems);
    memset(shapes, 0, sizeof *shapes);
}

void shapes_complain(struct shapes_reader *r, const char *at, enum gk_status status,
                     const char *format, ...)
{
    struct gk_err text;
    va_list ap;
    va_start(ap, format);
    (void)gk_vfail(&text, status, format, ap); /* returns what it was given */
    va_end(ap);
    (void)gk_diag_add(r->diag, status, "%s: %s%s%s", r->origin, at ? at : "", at ? ": " : "",
                      text.text);
    r->failed = true;
}

/* "1,000,000" */
static void grouped(uint64_t value, char text_out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    char *out = text_out;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) {
            *out++ = ',';
        }
        *out++ = digits[i];
    }
    *out = '\0';
}

/* ------------------------------------------------------------------ ops of rows */

static bool is_wanted(const struct shapes_reader *r, const struct gk_op_fields *op)
{
    return !r->wanted || strcmp(op->op, r->wanted) == 0 || strcmp(op->family, r->wanted) == 0;
}

const struct gk_op_fields *shapes_op(struct shapes_reader *r, const char *at, const char *row_op,
                                     const char *file_op)
{
    const char *name = row_op ? row_op : file_op ? file_op : r->wanted;
    if (!name) {
        shapes_complain(r, at, GK_INPUT, "no op is named; ops: %s", r->ops->names(r->ops->context));
        return NULL;
    }
    const struct gk_op_fields *op = r->ops->find(r->ops->context, name);
    if (!op && !row_op && !file_op) {
        shapes_complain(r, at, GK_INPUT, "'%.64s' is not an op: name one with \"op\"; ops: %s",
                        name, r->ops->names(r->ops->context));
    } else if (!op) {
        shapes_complain(r, at, GK_NOT_FOUND, "there is no op '%.64s'; ops: %s", name,
                        r->ops->names(r->ops->context));
    } else if (!is_wanted(r, op)) {
        shapes_complain(r, at, GK_INPUT, "op %s is not what was asked for, which is %s", op->op,
                        r->wanted);
        return NULL;
    }
    return op;
}

/* ------------------------------------------------------------------ merging */

static uint32_t slot_of(const struct shapes_reader *r, const struct gk_hash *id)
{
    uint32_t start;
    memcpy(&start, id->bytes, sizeof start);
    uint32_t at = start & (r->table_size - 1);
    while (r->table[at] && !gk_hash_equal(&r->shapes.problems[r->table[at] - 1].id, id)) {
        at = (at + 1) & (r->table_size - 1);
    }
    return at;
}

/* Keeps the table at most half full and the list with room for one more. */
static bool make_room(struct shapes_reader *r)
{
    if (r->shapes.count < r->capacity) {
        return true;
    }
    uint32_t capacity = r->capacity ? 2 * r->capacity : 64;
    struct gk_problem *problems = realloc(r->shapes.problems, capacity * sizeof *problems);
    if (!problems) {
        return false;
    }
    r->shapes.problems = problems;
    uint32_t *table = calloc(2 * (size_t)capacity, sizeof *table);
    if (!table) {
        return false;
    }
    free(r->table);
    r->table = table;
    r->table_size = 2 * capacity;
    r->capacity = capacity;
    for (uint32_t i = 0; i < r->shapes.count; i++) {
        r->table[slot_of(r, &problems[i].id)] = i + 1;
    }
    return true;
}

/* Takes the problem over. */
static void merge(struct shapes_reader *r, const char *at, struct gk_problem *problem)
{
    if (!make_room(r)) {
        shapes_complain(r, at, GK_NOMEM, "out of memory for %" PRIu32 " problems", r->shapes.count);
        gk_problem_fini(problem);
        return;
    }
    uint32_t slot = slot_of(r, &problem->id);
    if (r->table[slot]) {
        r->shapes.duplicates++;
        gk_problem_fini(problem);
        return;
    }
    r->shapes.problems[r->shapes.count++] = *problem;
    r->table[slot] = r->shapes.count;
}

/* Adds what is not said yet: one wrong value in a product would be told once a combination. */
static void tell_new(struct shapes_reader *r, const struct gk_diag *found)
{
    for (uint32_t i = 0; i < found->kept; i++) {
        bool said = false;
        for (uint32_t k = r->diag->kept; k > 0 && !said; k--) {
            said = strcmp(r->diag->texts[k - 1], found->texts[i]) == 0;
        }
        if (!said) {
            (void)gk_diag_add(r->diag, found->status, "%s", found->texts[i]); /* failed is set */
        }
    }
    if (found->kept == 0) {
        shapes_complain(r, NULL, found->status, "out of memory for a message");
    }
    r->failed = true;
}

void shapes_add(struct shapes_reader *r, const char *at, const struct gk_op_fields *op,
                const struct gk_json *fields)
{
    struct gk_problem problem;
    struct gk_diag found;
    char *where = gk_asprintf("%s: %s", r->origin, at);
    gk_diag_init(&found);
    if (!where) {
        shapes_complain(r, at, GK_NOMEM, "out of memory");
    } else if (gk_problem_from_json(op, fields, where, &problem, &found) != GK_OK) {
        tell_new(r, &found);
    } else {
        merge(r, at, &problem);
    }
    free(where);
    gk_diag_fini(&found);
}

/* ------------------------------------------------------------------ expansion */

struct axis {
    const char *field;
    const struct gk_json *list;
    size_t at;
};

static bool takes_lists(const struct gk_op_fields *op, const char *name)
{
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (strcmp(op->fields[i].name, name) == 0) {
            return op->fields[i].type == GK_FIELD_INTS;
        }
    }
    return true; /* not a field: gk_problem_from_json() says so once */
}

/* Finds the members that expand and refuses too many problems before any is made. */
static bool find_axes(struct shapes_reader *r, const char *at, const struct gk_op_fields *op,
                      const struct gk_json *row, struct axis *axes, uint32_t *count_out)
{
    uint32_t count = 0;
    uint64_t product = 1;
    void *cursor = NULL;
    const char *key = NULL;
    const struct gk_json *value;
    while ((value = gk_json_next(row, &cursor, &key))) {
        if (!gk_json_is(value, GK_JSON_ARRAY) || strcmp(key, "op") == 0 || takes_lists(op, key)) {
            continue;
        }
        size_t size = gk_json_count(value);
        if (size == 0) {
            shapes_complain(r, at, GK_INPUT, "field %s is an empty list: no value, no problem",
                            key);
            return false;
        }
        if (__builtin_mul_overflow(product, (uint64_t)size, &product)) {
            product = UINT64_MAX;
        }
        axes[count++] = (struct axis){.field = key, .list = value};
    }
    char many[32], most[32], before[32];
    grouped(product, many);
    grouped(GK_PROBLEMS_MAX, most);
    if (product > GK_PROBLEMS_MAX) {
        shapes_complain(r, at, GK_LIMIT, "expands to %s%s problems; at most %s are allowed",
                        product == UINT64_MAX ? "more than " : "", many, most);
        return false;
    }
    if (r->total + product > GK_PROBLEMS_MAX) {
        grouped(r->total, before);
        shapes_complain(r, at, GK_LIMIT,
                        "its %s problems come after %s; at most %s are allowed in one file", many,
                        before, most);
        return false;
    }
    r->total += product;
    *count_out = count;
    return true;
}

/* The row with one value of each axis and without "op"; NULL when out of memory. */
static struct gk_json *pick(const struct gk_json *row, const struct axis *axes, uint32_t count)
{
    struct gk_json *json = gk_json_new_object();
    void *cursor = NULL;
    const char *key = NULL;
    const struct gk_json *value;
    while (json && (value = gk_json_next(row, &cursor, &key))) {
        for (uint32_t i = 0; i < count; i++) {
            if (axes[i].field == key) {
                value = gk_json_at(axes[i].list, axes[i].at);
            }
        }
        if (strcmp(key, "op") != 0 && !gk_json_set(json, key, gk_json_copy(value))) {
            gk_json_free(json);
            return NULL;
        }
    }
    return json;
}

/* Steps to the next combination, the last axis fastest; false after the last one. */
static bool step(struct axis *axes, uint32_t count)
{
    for (uint32_t i = count; i > 0; i--) {
        if (++axes[i - 1].at < gk_json_count(axes[i - 1].list)) {
            return true;
        }
        axes[i - 1].at = 0;
    }
    return false;
}

static void read_row(struct shapes_reader *r, const char *at, const struct gk_json *row,
                     const char *file_op)
{
    struct axis axes[GK_FIELDS_MAX]; /* an axis is a field, and keys are unique */
    uint32_t count = 0;
    char shown[GK_JSON_SHOW_SIZE];
    if (!gk_json_is(row, GK_JSON_OBJECT)) {
        gk_json_show(row, shown);
        shapes_complain(r, at, GK_INPUT, "%s where an object of fields is needed", shown);
        return;
    }
    const struct gk_json *named = gk_json_get(row, "op");
    if (named && !gk_json_is(named, GK_JSON_STRING)) {
        gk_json_show(named, shown);
        shapes_complain(r, at, GK_INPUT, "\"op\" is %s; a name is needed", shown);
        return;
    }
    const struct gk_op_fields *op = shapes_op(r, at, gk_json_string(named, NULL), file_op);
    if (!op || !find_axes(r, at, op, row, axes, &count)) {
        return;
    }
    do {
        struct gk_json *fields = pick(row, axes, count);
        if (!fields) {
            shapes_complain(r, at, GK_NOMEM, "out of memory");
            return;
        }
        shapes_add(r, at, op, fields);
        gk_json_free(fields);
    } while (step(axes, count));
}

/* ------------------------------------------------------------------ whole files */

/* Gives the list of rows and the file's own op of {"op":.., "shapes":[..]}. */
static const struct gk_json *read_top(struct shapes_reader *r, const struct gk_json *top,
                                      const char **file_op_out)
{
    void *cursor = NULL;
    const char *key = NULL;
    char shown[GK_JSON_SHOW_SIZE];
    if (gk_json_is(top, GK_JSON_ARRAY)) {
        return top;
    }
    if (!gk_json_is(top, GK_JSON_OBJECT)) {
        gk_json_show(top, shown);
        shapes_complain(r, NULL, GK_INPUT,
                        "%s where {\"op\": .., \"shapes\": [..]} or a list of rows is needed",
                        shown);
        return NULL;
    }
    while (gk_json_next(top, &cursor, &key)) {
        if (strcmp(key, "op") != 0 && strcmp(key, "shapes") != 0) {
            shapes_complain(r, NULL, GK_INPUT,
                            "\"%.64s\" is not a member of a shapes file; allowed: op, shapes", key);
        }
    }
    const struct gk_json *op = gk_json_get(top, "op"), *rows = gk_json_get(top, "shapes");
    if (op && !gk_json_is(op, GK_JSON_STRING)) {
        gk_json_show(op, shown);
        shapes_complain(r, NULL, GK_INPUT, "\"op\" is %s; a name is needed", shown);
    }
    if (!gk_json_is(rows, GK_JSON_ARRAY)) {
        gk_json_show(rows, shown);
        shapes_complain(r, NULL, GK_INPUT, "\"shapes\" is %s; a list of rows is needed",
                        rows ? shown : "missing");
        return NULL;
    }
    *file_op_out = gk_json_string(op, NULL);
    return rows;
}

static void read_json(struct shapes_reader *r, const char *text, size_t size)
{
    struct gk_json *top = NULL;
    struct gk_err err;
    const char *file_op = NULL;
    enum gk_status status = gk_json_parse(text, size, r->origin, &top, &err);
    if (status != GK_OK) {
        (void)gk_diag_add(r->diag, status, "%s", err.text); /* names the file already */
        r->failed = true;
        return;
    }
    const struct gk_json *rows = read_top(r, top, &file_op);
    size_t count = gk_json_count(rows);
    if (rows && count == 0) {
        shapes_complain(r, NULL, GK_INPUT, "the list of shapes is empty");
    } else if (count > GK_PROBLEMS_MAX) {
        shapes_complain(r, NULL, GK_LIMIT, "%zu rows; at most %d problems are allowed", count,
                        GK_PROBLEMS_MAX);
    } else if (file_op && !shapes_op(r, NULL, NULL, file_op)) {
        count = 0; /* told once for the file, not once a row */
    }
    for (size_t i = 0; i < count && count <= GK_PROBLEMS_MAX; i++) {
        char at[32];
        (void)snprintf(at, sizeof at, "row %zu", i + 1); /* 24 bytes at most */
        read_row(r, at, gk_json_at(rows, i), file_op);
    }
    gk_json_free(top);
}

enum gk_status gk_shapes_parse(const char *text, size_t size, bool is_csv, const char *origin,
                               const char *wanted, const struct gk_op_lookup *ops,
                               struct gk_shapes *shapes_out, struct gk_diag *diag)
{
    struct shapes_reader r = {.origin = origin, .wanted = wanted, .ops = ops, .diag = diag};
    if (is_csv) {
        shapes_read_csv(&r, text, size);
    } else {
        read_json(&r, text, size);
    }
    free(r.table);
    if (r.failed) {
        gk_shapes_fini(&r.shapes);
        return diag->status;
    }
    *shapes_out = r.shapes;
    return GK_OK;
}

enum gk_status gk_shapes_load(const char *path, const char *wanted, const struct gk_op_lookup *ops,
                              struct gk_shapes *shapes_out, struct gk_diag *diag)
{
    char *text = NULL;
    size_t size = 0, length = strlen(path);
    struct gk_err err;
    enum gk_status status = gk_file_load(path, GK_SHAPES_FILE_MAX, &text, &size, &err);
    if (status != GK_OK) {
        return gk_diag_add(diag, status, "%s", err.text);
    }
    bool is_csv = length > 4 && strcasecmp(path + length - 4, ".csv") == 0;
    status = gk_shapes_parse(text, size, is_csv, path, wanted, ops, shapes_out, diag);
    free(text);
    return status;
}
