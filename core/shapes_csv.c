/*
 * Shapes as CSV: a header line that names fields, then one problem a line. See shapes.h.
 *
 * Quotes as in RFC 4180: a quoted cell may hold commas, line ends and doubled quotes. An empty cell
 * leaves the field at its default. A cell is read as JSON (a number, true, {"each": [..]}) unless
 * the field takes names; what is no JSON is a text, which the field then refuses by name. A column
 * "op" gives the op of each line. A list in a cell is refused: here one line is one problem.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/shapes_internal.h"

#define CSV_COLUMNS_MAX (GK_FIELDS_MAX + 1) /* every field and "op" */

struct csv {
    struct shapes_reader *r;
    const char *at, *end;
    uint64_t line;      /* of the record being read, 1-based */
    uint64_t line_next; /* of the record after it */
    struct gk_buf cells[CSV_COLUMNS_MAX];
    uint32_t cell_count;
    char names[CSV_COLUMNS_MAX][GK_NAME_MAX]; /* of the header */
    uint32_t column_count;
    int32_t op_column; /* -1: none */
};

static void complain_line(struct csv *csv, enum gk_status status, const char *what)
{
    char at[40];
    (void)snprintf(at, sizeof at, "line %" PRIu64, csv->line); /* 25 bytes at most */
    shapes_complain(csv->r, at, status, "%s", what);
}

/* At the opening quote; leaves `at` behind the closing one. */
static bool read_quoted(struct csv *csv, struct gk_buf *cell)
{
    csv->at++;
    while (csv->at < csv->end) {
        char c = *csv->at++;
        if (c == '"' && csv->at < csv->end && *csv->at == '"') {
            csv->at++;
        } else if (c == '"') {
            if (csv->at == csv->end || strchr(",\r\n", *csv->at)) {
                return true;
            }
            complain_line(csv, GK_PARSE, "text after a closing quote; a comma is needed");
            return false;
        }
        csv->line_next += c == '\n';
        gk_buf_putc(cell, c);
    }
    complain_line(csv, GK_PARSE, "the closing quote of a cell is missing");
    return false;
}

static bool read_cell(struct csv *csv, struct gk_buf *cell)
{
    gk_buf_reset(cell);
    while (csv->at < csv->end && (*csv->at == ' ' || *csv->at == '\t')) {
        csv->at++; /* "a, b" is written by people */
    }
    if (csv->at < csv->end && *csv->at == '"') {
        return read_quoted(csv, cell);
    }
    while (csv->at < csv->end && !strchr(",\r\n", *csv->at)) {
        if (*csv->at == '"') {
            complain_line(csv, GK_PARSE, "a quote inside a cell that does not begin with one");
            return false;
        }
        gk_buf_putc(cell, *csv->at++);
    }
    while (cell->size &&
           (cell->data[cell->size - 1] == ' ' || cell->data[cell->size - 1] == '\t')) {
        cell->data[--cell->size] = '\0';
    }
    return true;
}

/* Reads one record into cells; false at the end or after an error. Empty lines are skipped. */
static bool read_record(struct csv *csv)
{
    while (csv->at < csv->end && (*csv->at == '\n' || *csv->at == '\r')) {
        csv->line_next += *csv->at == '\n';
        csv->at++;
    }
    if (csv->at == csv->end) {
        return false;
    }
    csv->line = csv->line_next;
    for (csv->cell_count = 0;;) {
        if (csv->cell_count == CSV_COLUMNS_MAX) {
            complain_line(csv, GK_LIMIT, "more cells than an op has fields");
            return false;
        }
        struct gk_buf *cell = &csv->cells[csv->cell_count];
        if (!read_cell(csv, cell)) {
            return false;
        }
        if (cell->failed) {
            complain_line(csv, GK_NOMEM, "out of memory for a cell");
            return false;
        }
        csv->cell_count++;
        if (csv->at == csv->end || *csv->at != ',') {
            break;
        }
        csv->at++;
    }
    if (csv->at < csv->end && *csv->at == '\r') {
        csv->at++;
    }
    if (csv->at < csv->end && *csv->at == '\n') {
        csv->at++;
        csv->line_next++;
    }
    return true;
}

static bool read_header(struct csv *csv)
{
    csv->op_column = -1;
    if (!read_record(csv)) {
        if (!csv->r->failed) {
            shapes_complain(csv->r, NULL, GK_INPUT, "a header line of field names is needed");
        }
        return false;
    }
    csv->column_count = csv->cell_count;
    bool good = true;
    for (uint32_t i = 0; i < csv->column_count; i++) {
        const char *name = gk_buf_text(&csv->cells[i]);
        char at[40], shown[GK_NAME_MAX];
        (void)snprintf(at, sizeof at, "line %" PRIu64, csv->line); /* 25 bytes at most */
        (void)snprintf(shown, sizeof shown, "%.40s", name);
        if (!gk_is_name(name)) {
            shapes_complain(csv->r, at, GK_INPUT, "column %" PRIu32 " is '%s', not a field name",
                            i + 1, shown);
            good = false;
            continue;
        }
        memcpy(csv->names[i], name, strlen(name) + 1); /* a name fits */
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(csv->names[k], name) == 0) {
                shapes_complain(csv->r, at, GK_INPUT, "column %s is there twice", name);
                good = false;
            }
        }
        csv->op_column = strcmp(name, "op") == 0 ? (int32_t)i : csv->op_column;
    }
    return good;
}

static const struct gk_field *field_of(const struct gk_op_fields *op, const char *name)
{
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (strcmp(op->fields[i].name, name) == 0) {
            return &op->fields[i];
        }
    }
    return NULL;
}

/* Without a column "op" all lines are of one op: a column that it lacks is told once. */
static bool check_columns(struct csv *csv, const struct gk_op_fields *op)
{
    bool good = true;
    for (uint32_t i = 0; i < csv->column_count; i++) {
        if (field_of(op, csv->names[i])) {
            continue;
        }
        struct gk_buf all = {0};
        for (uint32_t k = 0; k < op->field_count; k++) {
            gk_buf_printf(&all, "%s%s", k ? ", " : "", op->fields[k].name);
        }
        shapes_complain(csv->r, "line 1", GK_NOT_FOUND, "%s has no field '%s'; its fields: %s",
                        op->op, csv->names[i], gk_buf_text(&all));
        gk_buf_fini(&all);
        good = false;
    }
    return good;
}

static struct gk_json *cell_to_json(const struct gk_field *field, const struct gk_buf *cell)
{
    struct gk_json *json = NULL;
    const char *text = gk_buf_text(cell);
    if (field && field->type == GK_FIELD_ENUM) {
        return gk_json_new_string(text);
    }
    if (gk_json_parse(text, cell->size, "cell", &json, NULL) != GK_OK) {
        return gk_json_new_string(text);
    }
    return json;
}

static void read_line(struct csv *csv, const struct gk_op_fields *file_op)
{
    char at[40];
    (void)snprintf(at, sizeof at, "line %" PRIu64, csv->line); /* 25 bytes at most */
    if (csv->cell_count != csv->column_count) {
        shapes_complain(csv->r, at, GK_INPUT,
                        "%" PRIu32 " cells where the header has %" PRIu32 " columns",
                        csv->cell_count, csv->column_count);
        return;
    }
    const char *named = csv->op_column >= 0 ? gk_buf_text(&csv->cells[csv->op_column]) : "";
    const struct gk_op_fields *op = file_op;
    if (!op) {
        op = shapes_op(csv->r, at, named[0] ? named : NULL, NULL);
    }
    struct gk_json *fields = op ? gk_json_new_object() : NULL;
    if (!op) {
        return;
    }
    bool good = fields != NULL;
    for (uint32_t i = 0; good && i < csv->cell_count; i++) {
        if ((int32_t)i != csv->op_column && csv->cells[i].size > 0) {
            good = gk_json_set(fields, csv->names[i],
                               cell_to_json(field_of(op, csv->names[i]), &csv->cells[i]));
        }
    }
    if (good) {
        shapes_add(csv->r, at, op, fields);
    } else {
        shapes_complain(csv->r, at, GK_NOMEM, "out of memory");
    }
    gk_json_free(fields);
}

static void read_lines(struct csv *csv)
{
    struct shapes_reader *r = csv->r;
    if (!read_header(csv)) {
        return;
    }
    const struct gk_op_fields *op = NULL;
    if (csv->op_column < 0) {
        op = shapes_op(r, NULL, NULL, NULL);
        if (!op || !check_columns(csv, op)) {
            return;
        }
    }
    while (read_record(csv)) {
        if (++r->total > GK_PROBLEMS_MAX) {
            shapes_complain(r, NULL, GK_LIMIT, "more than %d problems", GK_PROBLEMS_MAX);
            return;
        }
        read_line(csv, op);
    }
    if (r->total == 0 && !r->failed) {
        shapes_complain(r, NULL, GK_INPUT, "there is a header line and no problem after it");
    }
}

void shapes_read_csv(struct shapes_reader *r, const char *text, size_t size)
{
    size_t bad = 0;
    if (!gk_utf8_check(text, size, &bad)) {
        shapes_complain(r, NULL, GK_PARSE, "not UTF-8: byte 0x%02X at offset %zu",
                        (unsigned)(unsigned char)text[bad], bad);
        return;
    }
    const char *nul = size ? memchr(text, '\0', size) : NULL;
    if (nul) {
        shapes_complain(r, NULL, GK_PARSE, "a NUL byte at offset %zu", (size_t)(nul - text));
        return;
    }
    struct csv *csv = calloc(1, sizeof *csv);
    if (!csv) {
        shapes_complain(r, NULL, GK_NOMEM, "out of memory");
        return;
    }
    csv->r = r;
    csv->at = text;
    csv->end = text + size;
    csv->line_next = 1;
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        csv->at += 3; /* spreadsheets write a byte order mark */
    }
    read_lines(csv);
    for (uint32_t i = 0; i < CSV_COLUMNS_MAX; i++) {
        gk_buf_fini(&csv->cells[i]);
    }
    free(csv);
}
