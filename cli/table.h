/* Aligned tables of text for people: cells are gathered, then printed with each column as wide as
 * needed. */
#ifndef GK_CLI_TABLE_H
#define GK_CLI_TABLE_H

#include "core/buf.h"

#define GK_TABLE_COLUMNS_MAX 16

struct gk_table {
    uint32_t columns;
    bool right[GK_TABLE_COLUMNS_MAX]; /* numbers stand right */
    char **cells;                     /* row after row, the head first */
    uint32_t count, capacity;
    /* Of the terminal: a last cell that does not fit is broken between words, below its row where
     * the row leaves little room. 0 (a pipe, a file): every row is one line. */
    uint32_t width;
    bool failed;
};

/* head: names separated by '|'; a name that begins with '>' makes a column of numbers. */
void gk_table_init(struct gk_table *table, const char *head);
void gk_table_fini(struct gk_table *table);
/* Appends a cell; a row is full after `columns` of them. */
void gk_table_cell(struct gk_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint32_t gk_table_rows(const struct gk_table *table); /* without the head */
void gk_table_render(const struct gk_table *table, struct gk_buf *out);

#endif
