/* Aligned tables: see table.h. Widths are counted in characters, not bytes (UTF-8). */
#include "cli/table.h"
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_cell(struct gk_table *table, char *text)
{
    if (table->count == table->capacity) {
        uint32_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = realloc(table->cells, capacity * sizeof *cells);
        if (!cells) {
            table->failed = true;
            free(text);
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    if (!text) {
        table->failed = true;
        return;
    }
    table->cells[table->count++] = text;
}

void gk_table_init(struct gk_table *table, const char *head)
{
    *table = (struct gk_table){0};
    while (table->columns < GK_TABLE_COLUMNS_MAX) {
        table->right[table->columns] = *head == '>';
        head += *head == '>';
        size_t size = strcspn(head, "|");
        add_cell(table, gk_strndup(head, size));
        table->columns++;
        if (head[size] == '\0') {
            break;
        }
        head += size + 1;
    }
}

void gk_table_fini(struct gk_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    *table = (struct gk_table){0};
}

void gk_table_cell(struct gk_table *table, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = NULL;
    if (vasprintf(&text, format, ap) < 0) {
        text = NULL;
    }
    va_end(ap);
    if (text) {
        struct gk_buf plain = {0};
        gk_put_plain(text, false, &plain);
        free(text);
        text = gk_buf_detach(&plain);
    }
    add_cell(table, text);
}

uint32_t gk_table_rows(const struct gk_table *table)
{
    return table->count / table->columns - 1;
}

static uint32_t width_of(const char *text)
{
    uint32_t width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

#define ROOM_MIN 40 /* columns beside a row that are worth filling */
#define INDENT   4

/* Bytes of the text that fit `room` columns, broken behind a blank where there is one. */
static size_t part_that_fits(const char *text, uint32_t room)
{
    uint32_t width = 0;
    size_t size = 0, blank = 0;
    while (text[size] && width < room) {
        width++;
        size++;
        while (((unsigned char)text[size] & 0xC0) == 0x80) {
            size++;
        }
        blank = text[size] == ' ' ? size : blank;
    }
    return text[size] == '\0' || blank == 0 ? size : blank;
}

/* The last cell of a row that has used `used` columns so far. */
static void put_last(const char *text, uint32_t used, uint32_t width, struct gk_buf *out)
{
    uint32_t indent = used;
    if (width <= INDENT || used + width_of(text) <= width) {
        gk_buf_puts(out, text);
        return;
    }
    if (used + ROOM_MIN > width) {
        indent = INDENT;
        gk_buf_printf(out, "\n%*s", INDENT, "");
    }
    for (;;) {
        size_t size = part_that_fits(text, width - indent);
        size_t whole = size;
        while (whole > 0 && text[whole - 1] == ' ') {
            whole--;
        }
        gk_buf_add(out, text, whole);
        text += size;
        text += strspn(text, " ");
        if (*text == '\0') {
            return;
        }
        gk_buf_printf(out, "\n%*s", (int)indent, "");
    }
}

void gk_table_render(const struct gk_table *table, struct gk_buf *out)
{
    uint32_t used = 0;
    uint32_t widths[GK_TABLE_COLUMNS_MAX] = {0};
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t width = width_of(table->cells[i]), column = i % table->columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    out->failed |= table->failed;
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t column = i % table->columns;
        bool last = column + 1 == table->columns || i + 1 == table->count;
        int pad = (int)(widths[column] - width_of(table->cells[i]));
        if (table->right[column]) {
            gk_buf_printf(out, "%*s%s", pad, "", table->cells[i]);
        } else if (last) {
            put_last(table->cells[i], used, table->width, out);
        } else {
            gk_buf_printf(out, "%s%*s", table->cells[i], pad, "");
        }
        used = last ? 0 : used + widths[column] + 2;
        gk_buf_puts(out, last ? "\n" : "  ");
    }
}
