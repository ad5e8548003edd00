/*
 * Expressions as C text. See expr.h.
 *
 * The text must compile without a warning wherever an export is included, so more is done than the
 * grammar needs: everything is in parentheses, conditions are compared with 0, truth values become
 * numbers through ?:, & and | go through helpers (compilers warn about a comparison of a masked
 * value that cannot hold), a comparison of a thing with itself is written as its value, and
 * constant parts arrive folded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"
#include "core/json.h"

struct renderer {
    const struct gk_expr *expr;
    const struct gk_scope *scope;
    const struct gk_expr_c *names;
    struct gk_buf *buf;
    struct gk_err *err;
    enum gk_status status;
};

static void render(struct renderer *r, int32_t index);

static void fail(struct renderer *r, enum gk_status status, const char *what, const char *name)
{
    if (r->status == GK_OK) {
        r->status =
            gk_fail(r->err, status, "expression '%.400s' as C: %s '%s'", r->expr->text, what, name);
    }
}

static const char *slot_name(const struct gk_expr *expr, uint32_t slot)
{
    for (uint32_t i = 0; i < expr->use_count; i++) {
        if (expr->uses[i].slot == slot) {
            return expr->uses[i].name;
        }
    }
    return "?";
}

/* The caller's text for a symbol, or for an aggregate of it ("kv_len.max"). */
static void render_symbol(struct renderer *r, uint32_t slot, const char *aggregate)
{
    const char *name = slot_name(r->expr, slot);
    const struct gk_symbol *symbol = gk_scope_at(r->scope, slot);
    if (!symbol || strcmp(symbol->name, name) != 0) {
        fail(r, GK_INTERNAL, "another scope is given than the one it was compiled in: it lacks",
             name);
        return;
    }
    struct gk_symbol shown = *symbol;
    if (aggregate) {
        size_t used = strlen(name), more = strlen(aggregate);
        if (used + 1 + more >= sizeof shown.name) {
            fail(r, GK_LIMIT, "too long with its aggregate:", name);
            return;
        }
        shown.name[used] = '.';
        memcpy(shown.name + used + 1, aggregate, more + 1);
        shown.type = GK_VALUE_INT;
    }
    const char *text = r->names->symbol_text(r->names->context, &shown);
    if (!text) {
        fail(r, GK_UNSUPPORTED, "there is no C text for", shown.name);
        return;
    }
    gk_buf_puts(r->buf, text);
}

static void render_const(struct renderer *r, const struct expr_node *node)
{
    char text[32];
    if (node->type == GK_VALUE_REAL) {
        gk_real_text(node->value.r, text);
        bool whole = !strpbrk(text, ".e"); /* "3" would be an int of C */
        gk_buf_printf(r->buf, "(%s%s)", text, whole ? ".0" : "");
    } else if (node->value.i == INT64_MIN) {
        gk_buf_puts(r->buf, "(-INT64_C(9223372036854775807) - INT64_C(1))");
    } else if (node->value.i < 0) {
        gk_buf_printf(r->buf, "(-INT64_C(%" PRId64 "))", -node->value.i);
    } else {
        gk_buf_printf(r->buf, "INT64_C(%" PRId64 ")", node->value.i);
    }
}

/* Two subtrees that are written the same have the same value. */
static bool same_tree(const struct gk_expr *expr, int32_t a, int32_t b)
{
    if (a < 0 || b < 0) {
        return a == b;
    }
    const struct expr_node *x = &expr->nodes[a], *y = &expr->nodes[b];
    return x->kind == y->kind && x->type == y->type && x->op == y->op && x->slot == y->slot &&
           x->value.i == y->value.i && x->depth == y->depth && same_tree(expr, x->a, y->a) &&
           same_tree(expr, x->b, y->b) && same_tree(expr, x->c, y->c);
}

/* An operator of C, or the helper that takes its place. */
struct spelling {
    const char *sign;
    const char *helper;
    bool compare, holds_on_equal;
};

static struct spelling spelling_of(enum expr_op op)
{
    switch (op) {
    case OP_I_ADD:
    case OP_R_ADD:
        return (struct spelling){.sign = "+"};
    case OP_I_SUB:
    case OP_R_SUB:
        return (struct spelling){.sign = "-"};
    case OP_I_MUL:
    case OP_R_MUL:
        return (struct spelling){.sign = "*"};
    case OP_R_DIV:
        return (struct spelling){.sign = "/"};
    case OP_I_XOR:
        return (struct spelling){.sign = "^"};
    case OP_I_LT:
    case OP_R_LT:
        return (struct spelling){.sign = "<", .compare = true};
    case OP_I_LE:
    case OP_R_LE:
        return (struct spelling){.sign = "<=", .compare = true, .holds_on_equal = true};
    case OP_I_GT:
    case OP_R_GT:
        return (struct spelling){.sign = ">", .compare = true};
    case OP_I_GE:
    case OP_R_GE:
        return (struct spelling){.sign = ">=", .compare = true, .holds_on_equal = true};
    case OP_I_EQ:
    case OP_R_EQ:
        return (struct spelling){.sign = "==", .compare = true, .holds_on_equal = true};
    case OP_I_NE:
    case OP_R_NE:
        return (struct spelling){.sign = "!=", .compare = true};
    case OP_I_DIV:
        return (struct spelling){.helper = "gk_x_div"};
    case OP_I_MOD:
        return (struct spelling){.helper = "gk_x_mod"};
    case OP_I_SHL:
        return (struct spelling){.helper = "gk_x_shl"};
    case OP_I_SHR:
        return (struct spelling){.helper = "gk_x_shr"};
    case OP_I_AND:
        return (struct spelling){.helper = "gk_x_and"};
    case OP_I_OR:
        return (struct spelling){.helper = "gk_x_or"};
    case OP_I_MIN:
        return (struct spelling){.helper = "gk_x_min"};
    case OP_I_MAX:
        return (struct spelling){.helper = "gk_x_max"};
    case OP_R_MIN:
        return (struct spelling){.helper = "gk_x_min_real"};
    case OP_R_MAX:
        return (struct spelling){.helper = "gk_x_max_real"};
    case OP_I_CEIL_DIV:
        return (struct spelling){.helper = "gk_x_ceil_div"};
    case OP_I_ALIGN_UP:
        return (struct spelling){.helper = "gk_x_align_up"};
    case OP_I_NEG:
    case OP_R_NEG:
        return (struct spelling){.sign = "-"};
    case OP_I_INVERT:
        return (struct spelling){.sign = "~"};
    case OP_TO_REAL:
        return (struct spelling){.sign = "(double)"};
    case OP_I_LOG2:
        return (struct spelling){.helper = "gk_x_log2"};
    case OP_I_IS_POW2:
        return (struct spelling){.helper = "gk_x_is_pow2"};
    case OP_I_ABS:
        return (struct spelling){.helper = "gk_x_abs"};
    case OP_R_ABS:
        return (struct spelling){.helper = "gk_x_abs_real"};
    case OP_R_SQRT:
        return (struct spelling){.helper = "gk_x_sqrt"};
    default:
        gk_panic(__FILE__, __LINE__, "every operation has a spelling in C");
    }
}

/* As a condition of C: something that is compared, never a bare number. */
static void render_truth(struct renderer *r, int32_t index)
{
    const struct expr_node *node = &r->expr->nodes[index];
    if (node->kind == NODE_AND || node->kind == NODE_OR) {
        gk_buf_putc(r->buf, '(');
        render_truth(r, node->a);
        gk_buf_puts(r->buf, node->kind == NODE_AND ? " && " : " || ");
        render_truth(r, node->b);
        gk_buf_putc(r->buf, ')');
    } else if (node->kind == NODE_UNARY && node->op == OP_I_NOT) {
        gk_buf_puts(r->buf, "(!");
        render_truth(r, node->a);
        gk_buf_putc(r->buf, ')');
    } else if (node->kind == NODE_BINARY && spelling_of(node->op).compare &&
               !same_tree(r->expr, node->a, node->b)) {
        gk_buf_putc(r->buf, '(');
        render(r, node->a);
        gk_buf_printf(r->buf, " %s ", spelling_of(node->op).sign);
        render(r, node->b);
        gk_buf_putc(r->buf, ')');
    } else {
        gk_buf_putc(r->buf, '(');
        render(r, index);
        gk_buf_puts(r->buf, " != INT64_C(0))");
    }
}

static void render_as_number(struct renderer *r, int32_t index)
{
    gk_buf_putc(r->buf, '(');
    render_truth(r, index);
    gk_buf_puts(r->buf, " ? INT64_C(1) : INT64_C(0))");
}

static void render_binary(struct renderer *r, int32_t index)
{
    const struct expr_node *node = &r->expr->nodes[index];
    struct spelling spelling = spelling_of(node->op);
    if (r->expr->nodes[node->a].kind == NODE_CONST && r->expr->nodes[node->b].kind == NODE_CONST) {
        /* It was not folded, so it faults: no call that evaluates without error gets here. */
        gk_buf_puts(r->buf, node->type == GK_VALUE_REAL ? "0.0" : "INT64_C(0)");
    } else if (spelling.compare && same_tree(r->expr, node->a, node->b)) {
        gk_buf_puts(r->buf, spelling.holds_on_equal ? "INT64_C(1)" : "INT64_C(0)");
    } else if (spelling.compare) {
        render_as_number(r, index);
    } else {
        gk_buf_printf(r->buf, "%s(", spelling.helper ? spelling.helper : "");
        render(r, node->a);
        if (spelling.helper) {
            gk_buf_puts(r->buf, ", ");
        } else {
            gk_buf_printf(r->buf, " %s ", spelling.sign);
        }
        render(r, node->b);
        gk_buf_putc(r->buf, ')');
    }
}

static void render_unary(struct renderer *r, int32_t index)
{
    const struct expr_node *node = &r->expr->nodes[index];
    if (node->op == OP_I_NOT) {
        render_as_number(r, index);
    } else if (r->expr->nodes[node->a].kind == NODE_CONST) {
        gk_buf_puts(r->buf, node->type == GK_VALUE_REAL ? "0.0" : "INT64_C(0)"); /* as above */
    } else {
        struct spelling spelling = spelling_of(node->op);
        if (spelling.helper) {
            gk_buf_printf(r->buf, "%s(", spelling.helper);
        } else {
            gk_buf_printf(r->buf, "(%s", spelling.sign);
        }
        render(r, node->a);
        gk_buf_putc(r->buf, ')');
    }
}

static void render_series(struct renderer *r, const struct expr_node *node)
{
    switch (node->op) {
    case OP_S_MAX:
        render_symbol(r, node->slot, "max");
        break;
    case OP_S_MIN:
        render_symbol(r, node->slot, "min");
        break;
    case OP_S_SUM:
        render_symbol(r, node->slot, "sum");
        break;
    case OP_S_COUNT:
        render_symbol(r, node->slot, "count");
        break;
    default:
        fail(r, GK_UNSUPPORTED,
             "C sees no single values of the list, as .blocks and .ramp need, of",
             slot_name(r->expr, node->slot));
        break;
    }
}

/* As a value of type int64_t or double. */
static void render(struct renderer *r, int32_t index)
{
    const struct expr_node *node = &r->expr->nodes[index];
    if (r->status != GK_OK) {
        return;
    }
    switch (node->kind) {
    case NODE_CONST:
        render_const(r, node);
        break;
    case NODE_NAME:
        render_symbol(r, node->slot, NULL);
        break;
    case NODE_UNARY:
        render_unary(r, index);
        break;
    case NODE_BINARY:
        render_binary(r, index);
        break;
    case NODE_AND:
    case NODE_OR:
        render_as_number(r, index);
        break;
    case NODE_COND:
        gk_buf_putc(r->buf, '(');
        render_truth(r, node->a);
        gk_buf_puts(r->buf, " ? ");
        render(r, node->b);
        gk_buf_puts(r->buf, " : ");
        render(r, node->c);
        gk_buf_putc(r->buf, ')');
        break;
    case NODE_SERIES:
        render_series(r, node);
        break;
    case NODE_ENUM:
        gk_panic(__FILE__, __LINE__, "every enum value was resolved by the parser");
        break;
    }
}

enum gk_status gk_expr_render_c(const struct gk_expr *expr, const struct gk_scope *scope,
                                const struct gk_expr_c *names, struct gk_buf *buf,
                                struct gk_err *err)
{
    struct renderer r = {
        .expr = expr, .scope = scope, .names = names, .buf = buf, .err = err, .status = GK_OK};
    size_t before = buf->size;
    render(&r, expr->root);
    if (r.status != GK_OK) {
        if (buf->data && !buf->failed) { /* nothing of a failed rendering stays */
            buf->size = before;
            buf->data[before] = '\0';
        }
        return r.status;
    }
    return gk_buf_status(buf, err);
}

const char *gk_expr_c_helpers(void)
{
    return "#ifndef GK_X_HELPERS\n"
           "#define GK_X_HELPERS\n"
           "/* Arithmetic of tuning expressions on 64-bit integers; 0 where there is no result. "
           "*/\n"
           "static inline int64_t gk_x_min(int64_t a, int64_t b) { return a < b ? a : b; }\n"
           "static inline int64_t gk_x_max(int64_t a, int64_t b) { return a > b ? a : b; }\n"
           "static inline int64_t gk_x_abs(int64_t a)\n"
           "{\n"
           "    return a >= 0 ? a : a == INT64_MIN ? 0 : -a;\n"
           "}\n"
           "static inline int64_t gk_x_and(int64_t a, int64_t b) { return a & b; }\n"
           "static inline int64_t gk_x_or(int64_t a, int64_t b) { return a | b; }\n"
           "static inline int64_t gk_x_div(int64_t a, int64_t b)\n"
           "{\n"
           "    return b == 0 || (a == INT64_MIN && b == -1) ? 0 : a / b;\n"
           "}\n"
           "static inline int64_t gk_x_mod(int64_t a, int64_t b)\n"
           "{\n"
           "    return b == 0 || b == -1 ? 0 : a % b;\n"
           "}\n"
           "static inline int64_t gk_x_ceil_div(int64_t a, int64_t b)\n"
           "{\n"
           "    int64_t q = gk_x_div(a, b);\n"
           "    return gk_x_mod(a, b) != 0 && (a < 0) == (b < 0) ? q + 1 : q;\n"
           "}\n"
           "static inline int64_t gk_x_align_up(int64_t a, int64_t b)\n"
           "{\n"
           "    return b <= 0 ? 0 : gk_x_ceil_div(a, b) * b;\n"
           "}\n"
           "static inline int64_t gk_x_shl(int64_t a, int64_t n)\n"
           "{\n"
           "    return n < 0 || n > 62 ? 0 : a * (INT64_C(1) << n);\n"
           "}\n"
           "static inline int64_t gk_x_shr(int64_t a, int64_t n)\n"
           "{\n"
           "    return n < 0 || n > 62 ? 0 : a >= 0 ? a >> n : ~(~a >> n);\n"
           "}\n"
           "static inline int64_t gk_x_log2(int64_t a)\n"
           "{\n"
           "    int64_t n = 0;\n"
           "    while (a > 1) {\n"
           "        a >>= 1;\n"
           "        n++;\n"
           "    }\n"
           "    return n;\n"
           "}\n"
           "static inline int64_t gk_x_is_pow2(int64_t a)\n"
           "{\n"
           "    return a > 0 && (a & (a - 1)) == 0 ? 1 : 0;\n"
           "}\n"
           "static inline double gk_x_min_real(double a, double b) { return a < b ? a : b; }\n"
           "static inline double gk_x_max_real(double a, double b) { return a > b ? a : b; }\n"
           "static inline double gk_x_abs_real(double a) { return a < 0 ? -a : a == 0 ? 0 : a; }\n"
           "/* Heron's steps on a value scaled into [1, 4), then one with the exact remainder, "
           "which\n"
           " * leaves the nearest double; no library is needed. */\n"
           "static inline double gk_x_sqrt(double a)\n"
           "{\n"
           "    double scale = 1.0, y, high, low, remainder;\n"
           "    int i;\n"
           "    if (!(a > 0)) {\n"
           "        return 0;\n"
           "    }\n"
           "    while (a >= 4.0) {\n"
           "        a *= 0.25;\n"
           "        scale *= 2.0;\n"
           "    }\n"
           "    while (a < 1.0) {\n"
           "        a *= 4.0;\n"
           "        scale *= 0.5;\n"
           "    }\n"
           "    y = 0.5 * (a + 1.0);\n"
           "    for (i = 0; i < 6; i++) {\n"
           "        y = 0.5 * (y + a / y);\n"
           "    }\n"
           "    high = y * 134217729.0; /* 2^27 + 1 splits y in two halves of 26 bits */\n"
           "    high = high - (high - y);\n"
           "    low = y - high;\n"
           "    remainder = ((a - high * high) - 2.0 * high * low) - low * low;\n"
           "    return scale * (y + remainder / (2.0 * y));\n"
           "}\n"
           "#endif\n";
}
