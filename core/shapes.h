/*
 * Shapes files: JSON {"op":"gemm","shapes":[{"M":[1,16],"N":4096,"K":4096}]} or CSV with a header
 * line.
 *
 * A bare list as a value expands to the product. A row may carry its own "op" within the family
 * asked for. Duplicates are merged and counted. All errors of a file come in one pass, each with
 * file, row, field, value and what is allowed; from a file with an error nothing is returned.
 */
#ifndef GK_CORE_SHAPES_H
#define GK_CORE_SHAPES_H

#include "core/problem.h"

#define GK_SHAPES_FILE_MAX (16u << 20) /* bytes: 10,000 rows of a kilobyte and then some */
#define GK_PROBLEMS_MAX    10000       /* problems of one job after expansion */

/* Finds the fields of an op by name; NULL if there is none. */
struct gk_op_lookup {
    const struct gk_op_fields *(*find)(void *context, const char *op);
    /* Names of all ops for messages, "a, b, c". */
    const char *(*names)(void *context);
    void *context;
};

struct gk_shapes {
    struct gk_problem *problems;
    uint32_t count;
    uint32_t duplicates; /* rows merged into an earlier equal one */
};

/* `wanted` is the op or family of the command line; a file or row naming another op is an error. */
enum gk_status gk_shapes_load(const char *path, const char *wanted, const struct gk_op_lookup *ops,
                              struct gk_shapes *shapes_out, struct gk_diag *diag);
/* The same from memory (text of `size` bytes; is_csv chosen by the caller); `origin` names it. */
enum gk_status gk_shapes_parse(const char *text, size_t size, bool is_csv, const char *origin,
                               const char *wanted, const struct gk_op_lookup *ops,
                               struct gk_shapes *shapes_out, struct gk_diag *diag);
void gk_shapes_fini(struct gk_shapes *shapes);

#endif
