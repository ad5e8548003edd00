/*
 * The grammar of expressions: precedence climbing over C's table, functions, aggregates of lists,
 * and whole expressions. See expr_internal.h.
 */
#include <inttypes.h>
#include <string.h>

#include "core/expr_internal.h"

static int32_t parse_cond(struct expr_parser *p);

static bool descend(struct expr_parser *p)
{
    if (++p->depth > GK_EXPR_DEPTH_MAX) {
        expr_fail_at(p, GK_LIMIT, p->token.column, "nested deeper than %d levels",
                     GK_EXPR_DEPTH_MAX);
        return false;
    }
    return true;
}

enum shape { SHAPE_INT1, SHAPE_ANY1, SHAPE_INT2, SHAPE_ANY_MANY, SHAPE_TO_REAL };

struct function {
    const char *name;
    enum shape shape;
    enum expr_op int_op, real_op;
};

static const struct function functions[] = {
    {"min", SHAPE_ANY_MANY, OP_I_MIN, OP_R_MIN},
    {"max", SHAPE_ANY_MANY, OP_I_MAX, OP_R_MAX},
    {"ceil_div", SHAPE_INT2, OP_I_CEIL_DIV, OP_END},
    {"align_up", SHAPE_INT2, OP_I_ALIGN_UP, OP_END},
    {"log2", SHAPE_INT1, OP_I_LOG2, OP_END},
    {"is_pow2", SHAPE_INT1, OP_I_IS_POW2, OP_END},
    {"abs", SHAPE_ANY1, OP_I_ABS, OP_R_ABS},
    {"sqrt", SHAPE_TO_REAL, OP_END, OP_R_SQRT},
    {"real", SHAPE_TO_REAL, OP_END, OP_TO_REAL},
};

static int32_t add_unary(struct expr_parser *p, enum expr_op op, enum gk_value_type type, int32_t a,
                         uint32_t column)
{
    return expr_add_folded(p, (struct expr_node){.kind = NODE_UNARY,
                                                 .type = type,
                                                 .op = op,
                                                 .a = a,
                                                 .b = NO_NODE,
                                                 .c = NO_NODE,
                                                 .column = column,
                                                 .truth = op == OP_I_NOT || op == OP_I_IS_POW2});
}

static int32_t apply_function(struct expr_parser *p, const struct function *f, const int32_t *args,
                              uint32_t count, uint32_t column)
{
    uint32_t need = f->shape == SHAPE_INT2 ? 2 : 1;
    if (f->shape == SHAPE_ANY_MANY ? count < 2 : count != need) {
        return expr_fail_at(p, GK_PARSE, column, "%s takes %s, not %" PRIu32, f->name,
                            f->shape == SHAPE_ANY_MANY ? "two or more arguments"
                            : need == 2                ? "2 arguments"
                                                       : "1 argument",
                            count);
    }
    bool wants_int = f->shape == SHAPE_INT1 || f->shape == SHAPE_INT2;
    for (uint32_t i = 0; i < count; i++) {
        if (wants_int ? !expr_is_int(p, args[i], f->name) : !expr_is_value(p, args[i])) {
            return NO_NODE;
        }
    }
    int32_t result = args[0];
    if (f->shape == SHAPE_TO_REAL) {
        result = expr_to_real(p, result);
        return f->real_op == OP_TO_REAL || result == NO_NODE
                   ? result
                   : add_unary(p, f->real_op, GK_VALUE_REAL, result, column);
    }
    if (count == 1) {
        bool real = expr_node_at(p, result)->type == GK_VALUE_REAL;
        return add_unary(p, real ? f->real_op : f->int_op, real ? GK_VALUE_REAL : GK_VALUE_INT,
                         result, column);
    }
    for (uint32_t i = 1; i < count && result != NO_NODE; i++) {
        int32_t b = args[i];
        bool real = false;
        if (!expr_unify(p, &result, &b, &real)) {
            return NO_NODE;
        }
        result = expr_add_folded(p, (struct expr_node){.kind = NODE_BINARY,
                                                       .type = real ? GK_VALUE_REAL : GK_VALUE_INT,
                                                       .op = real ? f->real_op : f->int_op,
                                                       .a = result,
                                                       .b = b,
                                                       .c = NO_NODE,
                                                       .column = column});
    }
    return result;
}

/* At '(': reads arguments up to ')'. */
static bool parse_args(struct expr_parser *p, int32_t *args, uint32_t max, uint32_t *count_out)
{
    uint32_t count = 0;
    if (!expr_demand(p, "(")) {
        return false;
    }
    if (!expr_is_sign(p, ")")) {
        do {
            if (count == max) {
                expr_fail_at(p, GK_LIMIT, p->token.column, "more than %" PRIu32 " arguments", max);
                return false;
            }
            args[count] = parse_cond(p);
            if (args[count++] == NO_NODE) {
                return false;
            }
        } while (expr_take(p, ","));
    }
    *count_out = count;
    return expr_demand(p, ")");
}

static int32_t parse_call(struct expr_parser *p, const char *name, uint32_t column)
{
    int32_t args[16];
    uint32_t count = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(functions); i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return parse_args(p, args, GK_ARRAY_COUNT(args), &count)
                       ? apply_function(p, &functions[i], args, count, column)
                       : NO_NODE;
        }
    }
    struct gk_buf all = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(functions); i++) {
        gk_buf_printf(&all, "%s%s", i ? ", " : "", functions[i].name);
    }
    (void)expr_fail_at(p, GK_NOT_FOUND, column,
                       "there is no function '%s'; there are %s, and on lists "
                       ".max .min .sum .count .blocks(n) .ramp(list, n)",
                       name, gk_buf_text(&all)); /* NO_NODE */
    gk_buf_fini(&all);
    return NO_NODE;
}

/* The arguments of q_len.ramp(kv_len, shift): another list and an integer. */
static bool parse_ramp(struct expr_parser *p, const struct gk_symbol *symbol, uint32_t *other_out,
                       int32_t *shift_out, uint32_t column)
{
    char name[GK_NAME_MAX] = "";
    if (!expr_demand(p, "(")) {
        return false;
    }
    if (p->token.kind == TOKEN_NAME) {
        memcpy(name, p->token.start, p->token.length);
    }
    const struct gk_symbol *other = gk_scope_find(p->scope, name);
    if (!other || other->type != GK_VALUE_SERIES) {
        expr_fail_at(p, GK_PARSE, column, "%s.ramp takes another list and an integer",
                     symbol->name);
        return false;
    }
    expr_advance(p);
    if (!expr_note_use(p, other) || !expr_demand(p, ",")) {
        return false;
    }
    *shift_out = parse_cond(p);
    *other_out = other->slot;
    return expr_is_int(p, *shift_out, "ramp") && expr_demand(p, ")");
}

/* kv_len.max and its sisters; `symbol` is the list, `which` the word after the dot. */
static int32_t parse_series(struct expr_parser *p, const struct gk_symbol *symbol,
                            const char *which, uint32_t column)
{
    static const struct {
        const char *name;
        enum expr_op op;
    } aggregates[] = {{"max", OP_S_MAX},     {"min", OP_S_MIN},       {"sum", OP_S_SUM},
                      {"count", OP_S_COUNT}, {"blocks", OP_S_BLOCKS}, {"ramp", OP_S_RAMP}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(aggregates); i++) {
        if (strcmp(aggregates[i].name, which) != 0) {
            continue;
        }
        int32_t arg[1] = {NO_NODE};
        uint32_t count = 0, other = 0;
        if (aggregates[i].op == OP_S_RAMP && !parse_ramp(p, symbol, &other, arg, column)) {
            return NO_NODE;
        }
        if (aggregates[i].op == OP_S_BLOCKS) {
            if (!parse_args(p, arg, 1, &count)) {
                return NO_NODE;
            }
            if (count != 1) {
                return expr_fail_at(p, GK_PARSE, column, "%s.blocks takes 1 argument, not 0",
                                    symbol->name);
            }
            if (!expr_is_int(p, arg[0], "blocks")) {
                return NO_NODE;
            }
        }
        if (!expr_note_use(p, symbol)) {
            return NO_NODE;
        }
        return expr_add_node(p, (struct expr_node){.kind = NODE_SERIES,
                                                   .type = GK_VALUE_INT,
                                                   .op = aggregates[i].op,
                                                   .a = arg[0],
                                                   .b = NO_NODE,
                                                   .c = NO_NODE,
                                                   .slot = symbol->slot,
                                                   .column = column,
                                                   .value = {.i = other}});
    }
    return expr_fail_at(
        p, GK_NOT_FOUND, column,
        "'%s' is a list and has no '%s'; it has .max .min .sum .count .blocks(n) .ramp(list, n)",
        symbol->name, which);
}

static int32_t parse_name(struct expr_parser *p)
{
    char name[GK_NAME_MAX];
    uint32_t column = p->token.column;
    memcpy(name, p->token.start, p->token.length);
    name[p->token.length] = '\0';
    expr_advance(p);
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
        return expr_add_const(p, column, GK_VALUE_INT, (union gk_value){.i = name[0] == 't'});
    }
    const struct gk_symbol *symbol = gk_scope_find(p->scope, name);
    char *dot = strchr(name, '.');
    if (!symbol && dot) {
        *dot = '\0';
        const struct gk_symbol *series = gk_scope_find(p->scope, name);
        if (series && series->type == GK_VALUE_SERIES) {
            return parse_series(p, series, dot + 1, column);
        }
        *dot = '.';
    }
    if (!symbol && expr_is_sign(p, "(")) {
        return parse_call(p, name, column);
    }
    if (!symbol) {
        struct gk_buf near = {0};
        expr_near_names(p->scope, name, &near);
        (void)expr_fail_at(p, GK_NOT_FOUND, column, "there is no name '%s'%s", name,
                           gk_buf_text(&near)); /* NO_NODE */
        gk_buf_fini(&near);
        return NO_NODE;
    }
    if (symbol->type == GK_VALUE_SERIES) {
        return expr_fail_at(
            p, GK_PARSE, column,
            "'%s' is a list: use %s.max .min .sum .count .blocks(n) or .ramp(list, n)", name, name);
    }
    if (!expr_note_use(p, symbol)) {
        return NO_NODE;
    }
    return expr_add_node(p, (struct expr_node){.kind = NODE_NAME,
                                               .type = symbol->type,
                                               .a = NO_NODE,
                                               .b = NO_NODE,
                                               .c = NO_NODE,
                                               .slot = symbol->slot,
                                               .column = column});
}

static int32_t parse_primary(struct expr_parser *p)
{
    struct expr_token token = p->token;
    int32_t index = NO_NODE;
    if (p->status != GK_OK) {
        return NO_NODE;
    }
    switch (token.kind) {
    case TOKEN_INT:
    case TOKEN_REAL:
        expr_advance(p);
        return expr_add_const(p, token.column,
                              token.kind == TOKEN_INT ? GK_VALUE_INT : GK_VALUE_REAL, token.value);
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_TEXT:
        expr_advance(p);
        return expr_add_node(p, (struct expr_node){.kind = NODE_ENUM,
                                                   .type = GK_VALUE_INT,
                                                   .a = NO_NODE,
                                                   .b = NO_NODE,
                                                   .c = NO_NODE,
                                                   .column = token.column,
                                                   .length = token.length,
                                                   .enum_text = true});
    case TOKEN_END:
        return expr_fail_at(p, GK_PARSE, token.column, "ends where a value is needed");
    case TOKEN_SIGN:
        break;
    }
    if (!expr_take(p, "(")) {
        return expr_fail_at(p, GK_PARSE, token.column, "'%s' where a value is needed", token.sign);
    }
    index = parse_cond(p);
    return index != NO_NODE && expr_demand(p, ")") ? index : NO_NODE;
}

static int32_t parse_unary(struct expr_parser *p)
{
    uint32_t column = p->token.column;
    bool minus = expr_is_sign(p, "-"), invert = expr_is_sign(p, "~");
    if (!minus && !invert && !expr_is_sign(p, "!")) {
        return parse_primary(p);
    }
    if (!descend(p)) {
        return NO_NODE;
    }
    expr_advance(p);
    int32_t a = parse_unary(p);
    p->depth--;
    if (minus ? !expr_is_value(p, a) : !expr_is_int(p, a, invert ? "~" : "!")) {
        return NO_NODE;
    }
    bool real = expr_node_at(p, a)->type == GK_VALUE_REAL;
    enum expr_op op = !minus ? (invert ? OP_I_INVERT : OP_I_NOT) : real ? OP_R_NEG : OP_I_NEG;
    return add_unary(p, op, real ? GK_VALUE_REAL : GK_VALUE_INT, a, column);
}

struct binary {
    const char *sign;
    int precedence;               /* higher binds tighter */
    enum expr_op int_op, real_op; /* OP_END: none */
};

static const struct binary binaries[] = {
    {"||", 1, OP_END, OP_END},     {"&&", 2, OP_END, OP_END},     {"|", 3, OP_I_OR, OP_END},
    {"^", 4, OP_I_XOR, OP_END},    {"&", 5, OP_I_AND, OP_END},    {"==", 6, OP_I_EQ, OP_R_EQ},
    {"!=", 6, OP_I_NE, OP_R_NE},   {"<", 7, OP_I_LT, OP_R_LT},    {"<=", 7, OP_I_LE, OP_R_LE},
    {">", 7, OP_I_GT, OP_R_GT},    {">=", 7, OP_I_GE, OP_R_GE},   {"<<", 8, OP_I_SHL, OP_END},
    {">>", 8, OP_I_SHR, OP_END},   {"+", 9, OP_I_ADD, OP_R_ADD},  {"-", 9, OP_I_SUB, OP_R_SUB},
    {"*", 10, OP_I_MUL, OP_R_MUL}, {"/", 10, OP_I_DIV, OP_R_DIV}, {"%", 10, OP_I_MOD, OP_END},
};

static const struct binary *binary_at(const struct expr_parser *p)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(binaries); i++) {
        if (expr_is_sign(p, binaries[i].sign)) {
            return &binaries[i];
        }
    }
    return NULL;
}

static int32_t add_binary(struct expr_parser *p, const struct binary *binary, int32_t a, int32_t b,
                          uint32_t column)
{
    bool compare = binary->precedence == 6 || binary->precedence == 7;
    if (binary->precedence == 6 && !expr_resolve_enums(p, &a, &b)) {
        return NO_NODE;
    }
    if (binary->real_op == OP_END &&
        (!expr_is_int(p, a, binary->sign) || !expr_is_int(p, b, binary->sign))) {
        return NO_NODE;
    }
    struct expr_node node = {
        .kind = NODE_BINARY, .type = GK_VALUE_INT, .a = a, .b = b, .c = NO_NODE, .column = column};
    if (binary->int_op == OP_END) {
        node.kind = binary->precedence == 2 ? NODE_AND : NODE_OR;
        node.truth = true;
        return expr_add_folded(p, node);
    }
    bool real = false;
    if (!expr_unify(p, &node.a, &node.b, &real)) {
        return NO_NODE;
    }
    node.op = real ? binary->real_op : binary->int_op;
    node.type = real && !compare ? GK_VALUE_REAL : GK_VALUE_INT;
    node.truth = compare;
    return expr_add_folded(p, node);
}

static int32_t parse_binary(struct expr_parser *p, int precedence_min)
{
    int32_t a = parse_unary(p);
    while (a != NO_NODE && p->status == GK_OK) {
        const struct binary *binary = binary_at(p);
        if (!binary || binary->precedence < precedence_min) {
            break;
        }
        uint32_t column = p->token.column;
        expr_advance(p);
        int32_t b = parse_binary(p, binary->precedence + 1); /* at most 11 calls deep */
        a = b == NO_NODE ? NO_NODE : add_binary(p, binary, a, b, column);
    }
    return p->status == GK_OK ? a : NO_NODE;
}

static int32_t parse_cond(struct expr_parser *p)
{
    if (!descend(p)) {
        return NO_NODE;
    }
    int32_t a = parse_binary(p, 1);
    uint32_t column = p->token.column;
    if (a != NO_NODE && expr_take(p, "?")) {
        if (!expr_is_int(p, a, "?:")) {
            return NO_NODE;
        }
        int32_t b = parse_cond(p);
        if (b == NO_NODE || !expr_demand(p, ":")) {
            return NO_NODE;
        }
        int32_t c = parse_cond(p);
        bool real = false;
        if (c == NO_NODE) {
            return NO_NODE;
        }
        /* Where an enum is wanted, 'a' : 'b' waits for resolve_result(). */
        bool texts = p->wanted && (expr_node_at(p, b)->enum_text || expr_node_at(p, c)->enum_text);
        if (texts ? expr_node_at(p, b)->type != expr_node_at(p, c)->type
                  : !expr_unify(p, &b, &c, &real)) {
            return expr_fail_at(p, GK_PARSE, column, "?: gives an enum value or a real");
        }
        struct expr_node node = {.kind = NODE_COND,
                                 .type = real ? GK_VALUE_REAL : GK_VALUE_INT,
                                 .a = a,
                                 .b = b,
                                 .c = c,
                                 .column = column,
                                 .enum_text = texts};
        a = texts ? expr_add_node(p, node) : expr_add_folded(p, node);
    }
    p->depth--;
    return p->status == GK_OK ? a : NO_NODE;
}

/* ------------------------------------------------------------------ whole expressions */

/* The result of an expression that must give a value of the wanted enum: its texts get their index,
 * names must be enums whose values start the wanted list (then the index means the same), ?: is
 * walked. */
static int32_t resolve_result(struct expr_parser *p, int32_t index)
{
    const struct expr_enum *wanted = p->wanted;
    if (index == NO_NODE) {
        return NO_NODE;
    }
    struct expr_node node = *expr_node_at(p, index);
    if (node.kind == NODE_ENUM) {
        return expr_resolve_text(p, index, wanted->values, wanted->count, "the enum");
    }
    if (node.kind == NODE_COND) {
        int32_t b = resolve_result(p, node.b);
        int32_t c = resolve_result(p, node.c);
        expr_node_at(p, index)->b = b;
        expr_node_at(p, index)->c = c;
        expr_node_at(p, index)->enum_text = false;
        return p->status == GK_OK ? index : NO_NODE;
    }
    const struct gk_symbol *symbol = expr_enum_symbol(p, index);
    if (!symbol) {
        return expr_fail_at(p, GK_PARSE, node.column,
                            "gives a number where an enum value is needed");
    }
    if (!expr_is_prefix(symbol->enum_values, symbol->enum_count, wanted->values, wanted->count)) {
        return expr_fail_at(
            p, GK_PARSE, node.column,
            "the values of '%s' are not those of the enum that is needed; choose with "
            "%s == '...' ? '...' : '...'",
            symbol->name, symbol->name);
    }
    return index;
}

enum gk_status expr_parse(struct gk_expr *expr, const struct gk_scope *scope,
                          const struct expr_enum *wanted, struct gk_err *err)
{
    struct expr_parser p = {.text = expr->text,
                            .at = expr->text,
                            .expr = expr,
                            .scope = scope,
                            .wanted = wanted,
                            .err = err,
                            .status = GK_OK};
    expr_advance(&p);
    int32_t root = parse_cond(&p);
    if (root != NO_NODE && p.token.kind != TOKEN_END) {
        root = expr_fail_at(&p, GK_PARSE, p.token.column, "'%.*s' after the end of the expression",
                            (int)p.token.length, p.token.start);
    }
    if (wanted) {
        root = resolve_result(&p, root);
    } else if (!expr_is_value(&p, root)) {
        root = NO_NODE;
    }
    expr->root = root;
    GK_ASSERT(p.status != GK_OK || root != NO_NODE);
    return p.status;
}
