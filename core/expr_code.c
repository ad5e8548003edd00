/* Code of expressions: tree to instructions, and the life of struct gk_expr. See expr_internal.h.
 */
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"

static uint32_t emit(struct expr_code *code, enum expr_op op, uint32_t arg, union gk_value value)
{
    if (code->count == code->capacity) {
        code->full = true;
        return code->count - 1; /* a place to patch in code that nobody will run */
    }
    code->ins[code->count] = (struct expr_ins){.op = (uint16_t)op, .arg = arg, .value = value};
    return code->count++;
}

static uint32_t emit_plain(struct expr_code *code, enum expr_op op)
{
    return emit(code, op, 0, (union gk_value){0});
}

static void push(struct expr_code *code, enum expr_op op, uint32_t arg, union gk_value value)
{
    emit(code, op, arg, value);
    code->height++;
    if (code->height > code->height_max) {
        code->height_max = code->height;
    }
}

static bool is_leaf(const struct expr_node *node)
{
    return node->kind == NODE_CONST || node->kind == NODE_NAME;
}

/* The same operation with sides exchanged, or OP_END if there is none. */
static enum expr_op mirrored(enum expr_op op)
{
    switch (op) {
    case OP_I_ADD:
    case OP_I_MUL:
    case OP_I_AND:
    case OP_I_OR:
    case OP_I_XOR:
    case OP_I_EQ:
    case OP_I_NE:
    case OP_I_MIN:
    case OP_I_MAX:
    case OP_R_ADD:
    case OP_R_MUL:
    case OP_R_EQ:
    case OP_R_NE:
        return op;
    case OP_I_LT:
        return OP_I_GT;
    case OP_I_GT:
        return OP_I_LT;
    case OP_I_LE:
        return OP_I_GE;
    case OP_I_GE:
        return OP_I_LE;
    case OP_R_LT:
        return OP_R_GT;
    case OP_R_GT:
        return OP_R_LT;
    case OP_R_LE:
        return OP_R_GE;
    case OP_R_GE:
        return OP_R_LE;
    default: /* min and max of reals too: -0.0 and 0.0 tell the sides apart */
        return OP_END;
    }
}

static void emit_binary(struct expr_code *code, const struct expr_node *nodes,
                        const struct expr_node *node)
{
    enum expr_op op = node->op;
    int32_t a = node->a, b = node->b;
    /* 4 * (BM + BN): exchanged, the number rides in the instruction. Nothing has side effects, so
     * the order of evaluation is ours. */
    if (is_leaf(&nodes[a]) && !is_leaf(&nodes[b]) && mirrored(op) != OP_END) {
        op = mirrored(op);
        a = node->b;
        b = node->a;
    }
    expr_emit(code, nodes, a);
    if (nodes[b].kind == NODE_CONST) {
        emit(code, op + 2, 0, nodes[b].value);
    } else if (nodes[b].kind == NODE_NAME) {
        emit(code, op + 1, nodes[b].slot, (union gk_value){0});
    } else {
        expr_emit(code, nodes, b);
        emit_plain(code, op);
        code->height--;
    }
}

static void emit_logic(struct expr_code *code, const struct expr_node *nodes,
                       const struct expr_node *node)
{
    expr_emit(code, nodes, node->a);
    uint32_t skip = emit_plain(code, node->kind == NODE_AND ? OP_AND_THEN : OP_OR_ELSE);
    code->height--;
    expr_emit(code, nodes, node->b);
    if (!nodes[node->b].truth) {
        emit_plain(code, OP_TRUTH);
    }
    code->ins[skip].arg = code->count;
}

static void emit_cond(struct expr_code *code, const struct expr_node *nodes,
                      const struct expr_node *node)
{
    expr_emit(code, nodes, node->a);
    uint32_t to_else = emit_plain(code, OP_JUMP_ZERO);
    code->height--;
    expr_emit(code, nodes, node->b);
    uint32_t to_end = emit_plain(code, OP_JUMP);
    code->ins[to_else].arg = code->count;
    code->height--; /* one of the two values will be there, not both */
    expr_emit(code, nodes, node->c);
    code->ins[to_end].arg = code->count;
}

void expr_emit(struct expr_code *code, const struct expr_node *nodes, int32_t index)
{
    const struct expr_node *node = &nodes[index];
    switch (node->kind) {
    case NODE_CONST:
        push(code, OP_CONST, 0, node->value);
        break;
    case NODE_NAME:
        push(code, OP_SLOT, node->slot, (union gk_value){0});
        break;
    case NODE_UNARY:
        expr_emit(code, nodes, node->a);
        emit_plain(code, node->op);
        break;
    case NODE_BINARY:
        emit_binary(code, nodes, node);
        break;
    case NODE_AND:
    case NODE_OR:
        emit_logic(code, nodes, node);
        break;
    case NODE_COND:
        emit_cond(code, nodes, node);
        break;
    case NODE_SERIES:
        if (node->a >= 0) {
            expr_emit(code, nodes, node->a);
            emit(code, node->op, node->slot, node->value);
        } else {
            push(code, node->op, node->slot, (union gk_value){0});
        }
        break;
    case NODE_ENUM:
        gk_panic(__FILE__, __LINE__, "every enum value was resolved by the parser");
        break;
    }
}

/* ------------------------------------------------------------------ compile */

static enum gk_status generate(struct gk_expr *expr, struct gk_err *err)
{
    struct expr_ins *ins = calloc(GK_EXPR_CODE_MAX, sizeof *ins);
    if (!ins) {
        return gk_fail(err, GK_NOMEM, "out of memory compiling an expression");
    }
    struct expr_code code = {.ins = ins, .capacity = GK_EXPR_CODE_MAX};
    expr_emit(&code, expr->nodes, expr->root);
    emit_plain(&code, OP_END);
    enum gk_status status = GK_OK;
    if (code.full) {
        status = gk_fail(err, GK_LIMIT, "expression '%.60s...': longer than %d instructions",
                         expr->text, GK_EXPR_CODE_MAX);
    } else if (code.height_max > GK_EXPR_STACK_MAX) {
        status = gk_fail(err, GK_LIMIT, "expression '%.60s...': more than %d operands at once",
                         expr->text, GK_EXPR_STACK_MAX);
    } else {
        expr->code = malloc(code.count * sizeof *ins);
        if (expr->code) {
            memcpy(expr->code, ins, code.count * sizeof *ins);
            expr->code_count = code.count;
        } else {
            status = gk_fail(err, GK_NOMEM, "out of memory compiling an expression");
        }
    }
    free(ins);
    return status;
}

static enum gk_status compile(const char *text, const struct gk_scope *scope,
                              const struct expr_enum *wanted, struct gk_expr **expr_out,
                              struct gk_err *err)
{
    size_t size = strnlen(text, GK_EXPR_TEXT_MAX + 1);
    if (size > GK_EXPR_TEXT_MAX) {
        return gk_fail(err, GK_LIMIT, "expression '%.60s...': longer than %d bytes", text,
                       GK_EXPR_TEXT_MAX);
    }
    struct gk_expr *expr = calloc(1, sizeof *expr);
    if (!expr) {
        return gk_fail(err, GK_NOMEM, "out of memory compiling an expression");
    }
    expr->slot_max = -1;
    expr->text = gk_strdup(text);
    enum gk_status status =
        expr->text ? expr_parse(expr, scope, wanted, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) {
        status = generate(expr, err);
    }
    if (status == GK_OK) {
        *expr_out = expr;
        expr = NULL;
    }
    gk_expr_destroy(expr);
    return status;
}

enum gk_status gk_expr_compile(const char *text, const struct gk_scope *scope,
                               struct gk_expr **expr_out, struct gk_err *err)
{
    return compile(text, scope, NULL, expr_out, err);
}

enum gk_status gk_expr_compile_enum(const char *text, const struct gk_scope *scope,
                                    const char *const *values, uint32_t value_count,
                                    struct gk_expr **expr_out, struct gk_err *err)
{
    struct expr_enum wanted = {.values = values, .count = value_count};
    return compile(text, scope, &wanted, expr_out, err);
}

void gk_expr_destroy(struct gk_expr *expr)
{
    if (!expr) {
        return;
    }
    free(expr->text);
    free(expr->nodes);
    free(expr->code);
    free(expr->uses);
    free(expr);
}

const char *gk_expr_text(const struct gk_expr *expr)
{
    return expr->text;
}

enum gk_value_type gk_expr_type(const struct gk_expr *expr)
{
    return expr->nodes[expr->root].type;
}

bool gk_expr_uses(const struct gk_expr *expr, uint32_t slot)
{
    return slot < GK_SCOPE_SYMBOLS_MAX && (expr->used[slot / 64] >> (slot % 64) & 1);
}

int64_t gk_expr_slot_max(const struct gk_expr *expr)
{
    return expr->slot_max;
}
