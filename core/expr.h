/*
 * The expression language of op.json and kernel.json.
 *
 *   literals   12  0x40  1.5  1e-7  'bf16' (a value of an enum)  true  false
 *
 *   names      M  BM  smem  dev.sms  k.regs  kv_len.max  (one dot at most)
 *
 *   operators  ?:  ||  &&  == !=  < <= > >=  |  ^  &  << >>  + -  * / %  unary - ! ~
 *              with C's precedence
 *
 *   functions  min(a,b,..)  max(a,b,..)  ceil_div(a,b)  align_up(a,b)  log2(a)  is_pow2(a)
 *              abs(a)  sqrt(a)  real(a)
 *
 *   series     s.max  s.min  s.sum  s.count  s.blocks(n)  s.ramp(t, n)
 *
 * log2 rounds down; ceil_div and align_up round towards plus infinity for every sign; s.blocks(n)
 * is the sum of ceil_div(value, n); s.ramp(t, n), of two series equally long, is the sum over their
 * entries s and t of min(max(i + t - s + n, 0), t) for i from 0 to s - 1: the keys that come before
 * key i + t - s + n, over all queries i, where the last query stands at the last key. 'bf16' stands
 * only beside == or != with a name of that enum; two enums are compared only if the values of one
 * start the list of the other. 010 is refused (octal in C).
 *
 * Two types: checked 64-bit integers (truth is 0 or 1) and reals. Integer operators demand
 * integers; arithmetic of an integer and a real is real; `/` of two integers truncates as in C.
 * Overflow, division by zero, log2 of <= 0, align_up to <= 0, a shift outside 0..62 and a real that
 * is not finite are errors that name the expression and the values. && || ?: do not evaluate the
 * side not taken. No loops, no side effects: evaluation always ends, and text from strangers is
 * safe (bounded length, depth and code).
 *
 * A scope maps names to slots; values live in a flat array of union gk_value indexed by slot, so
 * that an enumeration can change one slot and evaluate again at the cost of a few instructions.
 */
#ifndef GK_CORE_EXPR_H
#define GK_CORE_EXPR_H

#include "core/buf.h"
#include "core/status.h"

#define GK_EXPR_TEXT_MAX     4096 /* bytes of one expression: a screen of text */
#define GK_EXPR_DEPTH_MAX    64   /* nesting of the parser: bounds the C stack */
#define GK_EXPR_CODE_MAX     1024 /* instructions of one compiled expression */
#define GK_EXPR_STACK_MAX    64   /* operands alive at once */
#define GK_SCOPE_SYMBOLS_MAX 512
#define GK_NAME_MAX          64 /* bytes of a name with its NUL */

/* Per-request values (kv_len of each request). Expressions see aggregates only. */
struct gk_series {
    const int64_t *values;
    uint32_t count;
};

union gk_value {
    int64_t i;
    double r;
    const struct gk_series *series;
};

enum gk_value_type {
    GK_VALUE_INT, /* integers, truth values, and enums as the index of their value */
    GK_VALUE_REAL,
    GK_VALUE_SERIES
};

/* ------------------------------------------------------------------ scope */

struct gk_symbol {
    char name[GK_NAME_MAX];
    enum gk_value_type type;
    uint32_t slot;
    const char *const *enum_values; /* of an enum: borrowed from the definition; else NULL */
    uint32_t enum_count;
};

struct gk_scope; /* name -> symbol, in order of addition; slots are 0, 1, 2, ... */

struct gk_scope *gk_scope_create(void); /* NULL when out of memory */
void gk_scope_destroy(struct gk_scope *scope);
/* GK_EXISTS if the name is taken, GK_INPUT if it is not a name, GK_LIMIT past the maximum.
 * enum_values may be NULL; it is borrowed and must outlive the scope. */
enum gk_status gk_scope_add(struct gk_scope *scope, const char *name, enum gk_value_type type,
                            const char *const *enum_values, uint32_t enum_count, uint32_t *slot_out,
                            struct gk_err *err);
const struct gk_symbol *gk_scope_find(const struct gk_scope *scope, const char *name);
const struct gk_symbol *gk_scope_at(const struct gk_scope *scope,
                                    uint32_t slot); /* NULL past end */
uint32_t gk_scope_count(const struct gk_scope *scope);
/* True for [A-Za-z_][A-Za-z0-9_]* with at most one dot inside and shorter than GK_NAME_MAX. */
bool gk_is_name(const char *text);

/* ------------------------------------------------------------------ expressions */

struct gk_expr;

/* Compiles text. The expression keeps a copy of the text and no reference to the scope, except that
 * names and enum lists for rendering are read through the scope given to gk_expr_render_c.
 * Errors: GK_PARSE with the column, GK_NOT_FOUND for an unknown name (lists near names) or an enum
 * value that the compared symbol does not have (lists the values), GK_LIMIT. */
enum gk_status gk_expr_compile(const char *text, const struct gk_scope *scope,
                               struct gk_expr **expr_out, struct gk_err *err);
/* The same for an expression whose result is a value of an enum (the default of an ENUM field):
 * 'bf16' may also be the result itself or a branch of a ?: that is; the result is the index in
 * `values`. A name as the result must be an enum whose values start this list, so that its index
 * means the same. */
enum gk_status gk_expr_compile_enum(const char *text, const struct gk_scope *scope,
                                    const char *const *values, uint32_t value_count,
                                    struct gk_expr **expr_out, struct gk_err *err);
void gk_expr_destroy(struct gk_expr *expr);

const char *gk_expr_text(const struct gk_expr *expr);
enum gk_value_type gk_expr_type(const struct gk_expr *expr); /* INT or REAL */
/* True if evaluation may read this slot; and the largest slot it may read, or -1 for a constant. */
bool gk_expr_uses(const struct gk_expr *expr, uint32_t slot);
int64_t gk_expr_slot_max(const struct gk_expr *expr);

/* Evaluates over slots[]. GK_RANGE with the expression's text and the values met on overflow etc.
 */
enum gk_status gk_expr_eval(const struct gk_expr *expr, const union gk_value *slots,
                            union gk_value *value_out, struct gk_err *err);
/* The same, converted: an integer result is demanded (GK_RANGE if real), or a real is given. */
enum gk_status gk_expr_eval_int(const struct gk_expr *expr, const union gk_value *slots,
                                int64_t *value_out, struct gk_err *err);
enum gk_status gk_expr_eval_real(const struct gk_expr *expr, const union gk_value *slots,
                                 double *value_out, struct gk_err *err);

/* Appends " (a = 3, b = 0)": the names that the expression reads and their values; nothing if none.
 */
void gk_expr_show_values(const struct gk_expr *expr, const union gk_value *slots,
                         struct gk_buf *buf);

/* Renders to a C expression of type int64_t (or double). symbol_text() returns the C text of a
 * symbol (the caller's: "p->M", "config->BM", "132"), lent until the next call; NULL makes
 * rendering fail with GK_UNSUPPORTED naming it. Enum constants are rendered as their index.
 * Functions are rendered as calls of gk_x_min(a,b), gk_x_max, gk_x_ceil_div, gk_x_align_up,
 * gk_x_log2, gk_x_is_pow2, gk_x_abs, and of gk_x_div / gk_x_mod for / and %, gk_x_shl / gk_x_shr
 * for << and >>, gk_x_and / gk_x_or for & and |, all int64_t helpers that return 0 instead of
 * trapping on a zero divisor; on reals gk_x_min_real, gk_x_max_real, gk_x_abs_real, gk_x_sqrt. The
 * exporter emits them (gk_expr_c_helpers). symbol_text() must give text of type int64_t (double for
 * a REAL); for s.max .min .sum .count it is asked with that whole name and the slot of s;
 * s.blocks(n) and s.ramp(t, n) are GK_UNSUPPORTED. */
struct gk_expr_c {
    const char *(*symbol_text)(void *context, const struct gk_symbol *symbol);
    void *context;
};
enum gk_status gk_expr_render_c(const struct gk_expr *expr, const struct gk_scope *scope,
                                const struct gk_expr_c *names, struct gk_buf *buf,
                                struct gk_err *err);
/* C11/C++17 text of the static helpers above, each guarded so that several headers may define it.
 */
const char *gk_expr_c_helpers(void);

#endif
