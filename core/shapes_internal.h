/* What shapes.c (JSON, expansion, merging) and shapes_csv.c (lines) share; nobody else includes
 * this. */
#ifndef GK_CORE_SHAPES_INTERNAL_H
#define GK_CORE_SHAPES_INTERNAL_H

#include "core/shapes.h"

struct shapes_reader {
    const char *origin;
    const char *wanted; /* op or family asked for; NULL: any */
    const struct gk_op_lookup *ops;
    struct gk_diag *diag;
    bool failed;
    struct gk_shapes shapes;
    uint32_t capacity;
    uint64_t total;      /* problems before merging */
    uint32_t *table;     /* open addressing over problem ids: index + 1, 0 is free */
    uint32_t table_size; /* a power of two */
};

/* Adds a message with the file's name before it. `at` is "row 3", "line 4" or NULL. */
void shapes_complain(struct shapes_reader *r, const char *at, enum gk_status status,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The op of a row from what the row says, else the file, else the command line; NULL was told. */
const struct gk_op_fields *shapes_op(struct shapes_reader *r, const char *at, const char *row_op,
                                     const char *file_op);

/* Reads one object of fields as a problem and merges it. A member "op" is not among the fields. */
void shapes_add(struct shapes_reader *r, const char *at, const struct gk_op_fields *op,
                const struct gk_json *fields);

/* Reads CSV text of `size` bytes, NUL-terminated. */
void shapes_read_csv(struct shapes_reader *r, const char *text, size_t size);

#endif
