/*
 * Fields of an op, problems, and their canonical text.
 *
 * A problem is one op with one value for each field. Its canonical text is
 *     gemm{"K":4096,"M":16,"N":4096}
 * : keys sorted, fields at their default left out, reals as shortest decimals. The hash of that
 * text is its identity in the store, in messages and in exports, so a field that a later release
 * adds (with a default) changes no stored identity, and a released default never changes.
 */
#ifndef GK_CORE_PROBLEM_H
#define GK_CORE_PROBLEM_H

#include "core/expr.h"
#include "core/hash.h"
#include "core/json.h"

#define GK_FIELDS_MAX 48
#define GK_SERIES_MAX 65536 /* requests of one problem */
#define GK_EXTENT_MAX (INT64_C(1) << 40)

enum gk_field_type { GK_FIELD_INT, GK_FIELD_REAL, GK_FIELD_BOOL, GK_FIELD_ENUM, GK_FIELD_INTS };
enum gk_field_role {
    GK_FIELD_KEY, /* looked up by select */
    GK_FIELD_DATA /* per-request data: select sees count, max and sum */
};

struct gk_field {
    char name[GK_NAME_MAX];
    char *doc;
    enum gk_field_type type;
    enum gk_field_role role;
    bool is_dtype;    /* an enum of element types: macros carry the C++ type */
    int64_t min, max; /* INT and INTS: inclusive */
    double real_min, real_max;
    char **values; /* ENUM: allowed values, append-only across releases */
    uint32_t value_count;
    char *default_text;           /* expression over earlier fields; NULL: the field is required */
    struct gk_expr *default_expr; /* compiled against the op's scope */
    char *count_text;             /* INTS: number of entries as an expression, e.g. "batch" */
    struct gk_expr *count_expr;
    uint32_t slot; /* in the op's scope */
};

/* Constraint or derived name of an op or template: evaluated in order. */
struct gk_rule {
    char name[GK_NAME_MAX];
    char *doc; /* why; may be NULL */
    struct gk_expr *expr;
    bool is_constraint; /* else a derived name that fills `slot` */
    uint32_t slot;
};

/* What core needs to know of an op to read problems. Owned by the catalog. Slots of the scope:
 * fields first in declared order, then derived names. */
struct gk_op_fields {
    char op[GK_NAME_MAX];
    char family[GK_NAME_MAX];
    struct gk_field fields[GK_FIELDS_MAX];
    uint32_t field_count;
    struct gk_scope *scope;
    struct gk_rule *rules; /* derived names and constraints over fields */
    uint32_t rule_count;
};

void gk_op_fields_fini(struct gk_op_fields *op);

struct gk_problem {
    const struct gk_op_fields *op; /* borrowed */
    union gk_value *slots;         /* fields and derived names: gk_scope_count(op->scope) entries */
    uint32_t slot_count;
    struct gk_series *series; /* storage of INTS fields, by field index */
    char *canonical;
    struct gk_hash id;
};

/* From {"M":16,...}: absent fields take their default; unknown fields, wrong types, values outside
 * the range, a broken constraint: each is one message in diag, prefixed by `where` ("shapes.json:
 * row 3"). All messages of the row come at once. Nothing is written on failure. INTS accept
 * [1,2,3],
 * {"each":[..]} and {"draw":"uniform","min":..,"max":..,"seed":..}; the canonical text of a draw is
 * the draw, its values are made here (Philox: the same everywhere). */
enum gk_status gk_problem_from_json(const struct gk_op_fields *op, const struct gk_json *fields,
                                    const char *where, struct gk_problem *problem_out,
                                    struct gk_diag *diag);
/* From canonical text; GK_INPUT if it is another op's or does not parse. */
enum gk_status gk_problem_from_text(const struct gk_op_fields *op, const char *canonical,
                                    struct gk_problem *problem_out, struct gk_err *err);
void gk_problem_fini(struct gk_problem *problem);
/* All fields with their values, defaults included; the caller frees. */
struct gk_json *gk_problem_to_json(const struct gk_problem *problem);
/* The op name before '{' of a canonical text; GK_INPUT if there is none. */
enum gk_status gk_problem_op_of(const char *canonical, char op_out[GK_NAME_MAX],
                                struct gk_err *err);
/* For people: "M=16 N=4096 K=4096 bf16"-like, non-default fields only, bounded. */
void gk_problem_label(const struct gk_problem *problem, char *text_out, size_t size);

#endif
