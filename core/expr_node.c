/*
 * Nodes of expressions while they are parsed: types, conversions, enum values, folding. See
 * expr_internal.h.
 *
 * An integer met by a real gets a conversion node; 'bf16' becomes an index as soon as it meets the
 * name it is compared with; a node over constants alone is folded by running its code, so that
 * folding and evaluation cannot disagree. A constant that faults (1 / 0) stays: it may stand on a
 * side that is never taken.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"

struct expr_node *expr_node_at(struct expr_parser *p, int32_t index)
{
    return &p->expr->nodes[index];
}

int32_t expr_add_node(struct expr_parser *p, struct expr_node node)
{
    struct gk_expr *expr = p->expr;
    if (p->status != GK_OK) {
        return NO_NODE;
    }
    const int32_t children[] = {node.a, node.b, node.c};
    uint16_t depth = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(children); i++) {
        if (children[i] >= 0 && expr->nodes[children[i]].depth > depth) {
            depth = expr->nodes[children[i]].depth;
        }
    }
    if (depth >= EXPR_TREE_DEPTH_MAX) {
        return expr_fail_at(p, GK_LIMIT, node.column, "more than %d operators in one chain",
                            EXPR_TREE_DEPTH_MAX);
    }
    node.depth = (uint16_t)(depth + 1);
    if (expr->node_count == p->node_capacity) {
        uint32_t capacity = p->node_capacity ? 2 * p->node_capacity : 16;
        struct expr_node *nodes = realloc(expr->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            return expr_fail_at(p, GK_NOMEM, node.column, "out of memory");
        }
        expr->nodes = nodes;
        p->node_capacity = capacity;
    }
    expr->nodes[expr->node_count] = node;
    return (int32_t)expr->node_count++;
}

int32_t expr_add_const(struct expr_parser *p, uint32_t column, enum gk_value_type type,
                       union gk_value value)
{
    bool truth = type == GK_VALUE_INT && (value.i == 0 || value.i == 1);
    return expr_add_node(p, (struct expr_node){.kind = NODE_CONST,
                                               .type = type,
                                               .truth = truth,
                                               .a = NO_NODE,
                                               .b = NO_NODE,
                                               .c = NO_NODE,
                                               .column = column,
                                               .value = value});
}

/* Adds an operator node; if all its operands are constants, adds its value instead. */
int32_t expr_add_folded(struct expr_parser *p, struct expr_node node)
{
    int32_t index = expr_add_node(p, node);
    if (index == NO_NODE) {
        return NO_NODE;
    }
    const int32_t children[] = {node.a, node.b, node.c};
    for (size_t i = 0; i < GK_ARRAY_COUNT(children); i++) {
        if (children[i] >= 0 && expr_node_at(p, children[i])->kind != NODE_CONST) {
            return index;
        }
    }
    struct expr_ins ins[8]; /* three constants, two jumps, a truth and the end */
    struct expr_code code = {.ins = ins, .capacity = GK_ARRAY_COUNT(ins) - 1};
    expr_emit(&code, p->expr->nodes, index);
    GK_ASSERT(!code.full);
    ins[code.count] = (struct expr_ins){.op = OP_END};
    union gk_value value;
    if (expr_run(ins, NULL, &value) != FAULT_NONE) {
        return index;
    }
    return expr_add_const(p, node.column, node.type, value);
}

bool expr_note_use(struct expr_parser *p, const struct gk_symbol *symbol)
{
    struct gk_expr *expr = p->expr;
    if (gk_expr_uses(expr, symbol->slot)) {
        return true;
    }
    if (expr->use_count == p->use_capacity) {
        uint32_t capacity = p->use_capacity ? 2 * p->use_capacity : 8;
        struct expr_use *uses = realloc(expr->uses, capacity * sizeof *uses);
        if (!uses) {
            expr_fail_at(p, GK_NOMEM, p->token.column, "out of memory");
            return false;
        }
        expr->uses = uses;
        p->use_capacity = capacity;
    }
    struct expr_use *use = &expr->uses[expr->use_count++];
    use->slot = symbol->slot;
    use->type = symbol->type;
    use->enum_values = symbol->enum_values;
    use->enum_count = symbol->enum_count;
    memcpy(use->name, symbol->name, sizeof use->name);
    expr->used[symbol->slot / 64] |= UINT64_C(1) << (symbol->slot % 64);
    expr->slot_max = symbol->slot > expr->slot_max ? (int64_t)symbol->slot : expr->slot_max;
    return true;
}

/* True if the node is a value and not a bare enum text. */
bool expr_is_value(struct expr_parser *p, int32_t index)
{
    if (index == NO_NODE) {
        return false;
    }
    const struct expr_node *node = expr_node_at(p, index);
    if (node->kind == NODE_ENUM) {
        expr_fail_at(
            p, GK_PARSE, node->column,
            "'%.*s' is a value of an enum: it stands only beside == or != with the enum's name",
            (int)node->length, p->text + node->column);
    } else if (node->enum_text) {
        expr_fail_at(p, GK_PARSE, node->column,
                     "a choice of enum values can only be the whole result");
    }
    return p->status == GK_OK;
}

bool expr_is_int(struct expr_parser *p, int32_t index, const char *who)
{
    if (!expr_is_value(p, index)) {
        return false;
    }
    if (expr_node_at(p, index)->type != GK_VALUE_INT) {
        expr_fail_at(p, GK_PARSE, expr_node_at(p, index)->column,
                     "%s needs integers; this is a real", who);
        return false;
    }
    return true;
}

int32_t expr_to_real(struct expr_parser *p, int32_t index)
{
    if (index == NO_NODE || expr_node_at(p, index)->type == GK_VALUE_REAL) {
        return index;
    }
    return expr_add_folded(p, (struct expr_node){.kind = NODE_UNARY,
                                                 .type = GK_VALUE_REAL,
                                                 .op = OP_TO_REAL,
                                                 .a = index,
                                                 .b = NO_NODE,
                                                 .c = NO_NODE,
                                                 .column = expr_node_at(p, index)->column});
}

/* Makes two values one type. *real_out tells which. */
bool expr_unify(struct expr_parser *p, int32_t *a, int32_t *b, bool *real_out)
{
    if (!expr_is_value(p, *a) || !expr_is_value(p, *b)) {
        return false;
    }
    *real_out =
        expr_node_at(p, *a)->type == GK_VALUE_REAL || expr_node_at(p, *b)->type == GK_VALUE_REAL;
    if (*real_out) {
        *a = expr_to_real(p, *a);
        *b = expr_to_real(p, *b);
    }
    return *a != NO_NODE && *b != NO_NODE;
}

const struct gk_symbol *expr_enum_symbol(struct expr_parser *p, int32_t index)
{
    const struct expr_node *node = expr_node_at(p, index);
    const struct gk_symbol *symbol =
        node->kind == NODE_NAME ? gk_scope_at(p->scope, node->slot) : NULL;
    return symbol && symbol->enum_values ? symbol : NULL;
}

/* Turns the enum text at `index` into the index of the value in the list. */
int32_t expr_resolve_text(struct expr_parser *p, int32_t index, const char *const *values,
                          uint32_t count, const char *name)
{
    struct expr_node node = *expr_node_at(p, index);
    const char *text = p->text + node.column; /* the byte after the quote */
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(values[i]) == node.length && strncmp(values[i], text, node.length) == 0) {
            return expr_add_const(p, node.column, GK_VALUE_INT, (union gk_value){.i = i});
        }
    }
    struct gk_buf allowed = {0};
    for (uint32_t i = 0; i < count; i++) {
        gk_buf_printf(&allowed, "%s%s", i ? ", " : "", values[i]);
    }
    (void)expr_fail_at(p, GK_NOT_FOUND, node.column, "'%.*s' is not a value of %s; allowed: %s",
                       (int)node.length, text, name, gk_buf_text(&allowed)); /* returns NO_NODE */
    gk_buf_fini(&allowed);
    return NO_NODE;
}

/* True if `whole` starts with the values of `part`: their common indices mean the same. */
bool expr_is_prefix(const char *const *part, uint32_t part_count, const char *const *whole,
                    uint32_t whole_count)
{
    for (uint32_t i = 0; i < part_count; i++) {
        if (i >= whole_count || strcmp(part[i], whole[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Before == or !=: gives enum texts their index and refuses to compare indices of unlike enums. */
bool expr_resolve_enums(struct expr_parser *p, int32_t *a, int32_t *b)
{
    if (*a == NO_NODE || *b == NO_NODE) {
        return false;
    }
    const struct gk_symbol *left = expr_enum_symbol(p, *a), *right = expr_enum_symbol(p, *b);
    if (right && expr_node_at(p, *a)->kind == NODE_ENUM) {
        *a = expr_resolve_text(p, *a, right->enum_values, right->enum_count, right->name);
    } else if (left && expr_node_at(p, *b)->kind == NODE_ENUM) {
        *b = expr_resolve_text(p, *b, left->enum_values, left->enum_count, left->name);
    } else if (left && right &&
               !expr_is_prefix(left->enum_values, left->enum_count, right->enum_values,
                               right->enum_count) &&
               !expr_is_prefix(right->enum_values, right->enum_count, left->enum_values,
                               left->enum_count)) {
        expr_fail_at(p, GK_PARSE, expr_node_at(p, *a)->column,
                     "%s and %s are enums with different values and cannot be compared", left->name,
                     right->name);
        return false;
    }
    return *a != NO_NODE && *b != NO_NODE;
}
