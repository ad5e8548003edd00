/*
 * Parser of expressions: text to typed nodes. See expr_internal.h.
 *
 * Precedence climbing over C's table. Types are settled while the tree grows: an integer met by a real
 * gets a conversion node, 'bf16' becomes an index as soon as it meets the name it is compared with, and
 * a node over constants alone is folded by running its code, so that folding and evaluation cannot
 * disagree. A constant that faults (1 / 0) stays: it may stand on a side that is never taken.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/expr_internal.h"

enum token_kind { TOKEN_END, TOKEN_INT, TOKEN_REAL, TOKEN_NAME, TOKEN_TEXT, TOKEN_SIGN };

struct token {
    enum token_kind kind;
    uint32_t column; /* 1-based */
    uint32_t length; /* bytes of the token; of TOKEN_TEXT those between the quotes */
    const char *start;
    char sign[3]; /* TOKEN_SIGN */
    union gk_value value;
};

struct parser {
    const char *text;
    const char *at;
    struct token token; /* the one not yet consumed */
    uint32_t depth;     /* nested parse_cond and parse_unary calls */
    struct gk_expr *expr;
    uint32_t node_capacity;
    uint32_t use_capacity;
    const struct gk_scope *scope;
    const struct expr_enum *wanted;
    struct gk_err *err;
    enum gk_status status; /* of the first error; nothing is parsed after it */
};

#define NO_NODE (-1)

static int32_t fail_at(struct parser *p, enum gk_status status, uint32_t column, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

static int32_t fail_at(struct parser *p, enum gk_status status, uint32_t column, const char *format,
                       ...)
{
    if (p->status == GK_OK) {
        va_list ap;
        va_start(ap, format);
        p->status = gk_vfail(p->err, status, format, ap);
        va_end(ap);
        bool cut = strlen(p->text) > 400; /* leaves room for the reason in struct gk_err */
        p->status = p->err ? gk_fail_in(p->err, status, "expression '%.400s%s', column %" PRIu32,
                                        p->text, cut ? "..." : "", column)
                           : status;
    }
    return NO_NODE;
}

/* ------------------------------------------------------------------ tokens */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void scan_real(struct parser *p)
{
    struct token *t = &p->token;
    const char *end = t->start;
    bool good = true;
    while (is_digit(*end)) {
        end++;
    }
    if (*end == '.') {
        good = is_digit(*++end);
        while (is_digit(*end)) {
            end++;
        }
    }
    if (*end == 'e' || *end == 'E') {
        end += end[1] == '+' || end[1] == '-' ? 2 : 1;
        good = good && is_digit(*end);
        while (is_digit(*end)) {
            end++;
        }
    }
    t->kind = TOKEN_REAL;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    if (!good || is_word(*end) || *end == '.') {
        fail_at(p, GK_PARSE, t->column, "'%.*s' is not a number", (int)t->length + 1, t->start);
        return;
    }
    t->value.r = strtod(t->start, NULL);
    if (!isfinite(t->value.r)) {
        fail_at(p, GK_PARSE, t->column, "%.*s is over the largest real", (int)t->length, t->start);
    }
}

static void scan_number(struct parser *p)
{
    struct token *t = &p->token;
    bool hex = t->start[0] == '0' && (t->start[1] == 'x' || t->start[1] == 'X');
    const char *end = t->start;
    while (is_word(*end)) {
        end++;
    }
    size_t digits = strspn(t->start, "0123456789");
    char after = t->start[digits];
    if (!hex && (after == '.' || after == 'e' || after == 'E')) {
        scan_real(p);
        return;
    }
    t->kind = TOKEN_INT;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    char *stop = NULL;
    errno = 0;
    t->value.i = strtoll(t->start, &stop, hex ? 16 : 10);
    if (stop != end) {
        fail_at(p, GK_PARSE, t->column, "'%.*s' is not a number", (int)t->length, t->start);
    } else if (errno == ERANGE) {
        fail_at(p, GK_PARSE, t->column, "%.*s does not fit a 64-bit integer", (int)t->length,
                t->start);
    } else if (!hex && t->length > 1 && t->start[0] == '0') {
        fail_at(p, GK_PARSE, t->column, "'%.*s' begins with 0, which C would read as octal",
                (int)t->length, t->start);
    }
}

static void scan_name(struct parser *p)
{
    struct token *t = &p->token;
    const char *end = t->start;
    while (is_word(*end)) {
        end++;
    }
    if (*end == '.' && is_word(end[1]) && !is_digit(end[1])) {
        end++;
        while (is_word(*end)) {
            end++;
        }
    }
    t->kind = TOKEN_NAME;
    t->length = (uint32_t)(end - t->start);
    p->at = end;
    if (t->length >= GK_NAME_MAX) {
        fail_at(p, GK_LIMIT, t->column, "a name of %" PRIu32 " bytes; at most %d are allowed",
                t->length, GK_NAME_MAX - 1);
    }
}

static void scan_text(struct parser *p)
{
    struct token *t = &p->token;
    const char *end = strchr(t->start + 1, '\'');
    if (!end) {
        p->at = t->start + strlen(t->start);
        fail_at(p, GK_PARSE, t->column, "the closing ' is missing");
        return;
    }
    t->kind = TOKEN_TEXT;
    t->start++;
    t->length = (uint32_t)(end - t->start);
    p->at = end + 1;
}

static void scan_sign(struct parser *p)
{
    static const char *const twos[] = {"||", "&&", "==", "!=", "<=", ">=", "<<", ">>"};
    struct token *t = &p->token;
    t->kind = TOKEN_SIGN;
    t->length = 1;
    for (size_t i = 0; i < GK_ARRAY_COUNT(twos); i++) {
        if (strncmp(t->start, twos[i], 2) == 0) {
            t->length = 2;
        }
    }
    memcpy(t->sign, t->start, t->length);
    t->sign[t->length] = '\0';
    p->at = t->start + t->length;
    if (t->length == 1 && !strchr("?:|^&<>+-*/%!~(),", t->start[0])) {
        unsigned c = (unsigned char)t->start[0];
        if (c > ' ' && c < 0x7F) {
            fail_at(p, GK_PARSE, t->column, "'%c' means nothing here", (int)c);
        } else {
            fail_at(p, GK_PARSE, t->column, "the byte 0x%02X means nothing here", c);
        }
    }
}

static void advance(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') {
        p->at++;
    }
    p->token = (struct token){.start = p->at, .column = (uint32_t)(p->at - p->text) + 1};
    if (*p->at == '\0' || p->status != GK_OK) {
        p->token.kind = TOKEN_END;
    } else if (is_digit(*p->at)) {
        scan_number(p);
    } else if (is_word(*p->at)) {
        scan_name(p);
    } else if (*p->at == '\'') {
        scan_text(p);
    } else {
        scan_sign(p);
    }
}

static bool is_sign(const struct parser *p, const char *sign)
{
    return p->token.kind == TOKEN_SIGN && strcmp(p->token.sign, sign) == 0;
}

static bool take(struct parser *p, const char *sign)
{
    if (p->status != GK_OK || !is_sign(p, sign)) {
        return false;
    }
    advance(p);
    return true;
}

static bool demand(struct parser *p, const char *sign)
{
    if (take(p, sign)) {
        return true;
    }
    if (p->token.kind == TOKEN_END) {
        fail_at(p, GK_PARSE, p->token.column, "'%s' is missing at the end", sign);
    } else {
        fail_at(p, GK_PARSE, p->token.column, "'%s' is needed before '%.*s'", sign,
                (int)p->token.length, p->token.start);
    }
    return false;
}

/* ------------------------------------------------------------------ nodes */

static struct expr_node *node_at(struct parser *p, int32_t index)
{
    return &p->expr->nodes[index];
}

static int32_t add_node(struct parser *p, struct expr_node node)
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
        return fail_at(p, GK_LIMIT, node.column, "more than %d operators in one chain",
                       EXPR_TREE_DEPTH_MAX);
    }
    node.depth = (uint16_t)(depth + 1);
    if (expr->node_count == p->node_capacity) {
        uint32_t capacity = p->node_capacity ? 2 * p->node_capacity : 16;
        struct expr_node *nodes = realloc(expr->nodes, capacity * sizeof *nodes);
        if (!nodes) {
            return fail_at(p, GK_NOMEM, node.column, "out of memory");
        }
        expr->nodes = nodes;
        p->node_capacity = capacity;
    }
    expr->nodes[expr->node_count] = node;
    return (int32_t)expr->node_count++;
}

static int32_t add_const(struct parser *p, uint32_t column, enum gk_value_type type,
                         union gk_value value)
{
    bool truth = type == GK_VALUE_INT && (value.i == 0 || value.i == 1);
    return add_node(p, (struct expr_node){.kind = NODE_CONST, .type = type, .truth = truth,
                                          .a = NO_NODE, .b = NO_NODE, .c = NO_NODE,
                                          .column = column, .value = value});
}

/* Adds an operator node; if all its operands are constants, adds its value instead. */
static int32_t add_folded(struct parser *p, struct expr_node node)
{
    int32_t index = add_node(p, node);
    if (index == NO_NODE) {
        return NO_NODE;
    }
    const int32_t children[] = {node.a, node.b, node.c};
    for (size_t i = 0; i < GK_ARRAY_COUNT(children); i++) {
        if (children[i] >= 0 && node_at(p, children[i])->kind != NODE_CONST) {
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
    return add_const(p, node.column, node.type, value);
}

static bool note_use(struct parser *p, const struct gk_symbol *symbol)
{
    struct gk_expr *expr = p->expr;
    if (gk_expr_uses(expr, symbol->slot)) {
        return true;
    }
    if (expr->use_count == p->use_capacity) {
        uint32_t capacity = p->use_capacity ? 2 * p->use_capacity : 8;
        struct expr_use *uses = realloc(expr->uses, capacity * sizeof *uses);
        if (!uses) {
            fail_at(p, GK_NOMEM, p->token.column, "out of memory");
            return false;
        }
        expr->uses = uses;
        p->use_capacity = capacity;
    }
    struct expr_use *use = &expr->uses[expr->use_count++];
    use->slot = symbol->slot;
    use->type = symbol->type;
    memcpy(use->name, symbol->name, sizeof use->name);
    expr->used[symbol->slot / 64] |= UINT64_C(1) << (symbol->slot % 64);
    expr->slot_max = symbol->slot > expr->slot_max ? (int64_t)symbol->slot : expr->slot_max;
    return true;
}

/* ------------------------------------------------------------------ types */

/* True if the node is a value and not a bare enum text. */
static bool is_value(struct parser *p, int32_t index)
{
    if (index == NO_NODE) {
        return false;
    }
    const struct expr_node *node = node_at(p, index);
    if (node->kind == NODE_ENUM) {
        fail_at(p, GK_PARSE, node->column,
                "'%.*s' is a value of an enum: it stands only beside == or != with the enum's name",
                (int)node->length, p->text + node->column);
    } else if (node->enum_text) {
        fail_at(p, GK_PARSE, node->column, "a choice of enum values can only be the whole result");
    }
    return p->status == GK_OK;
}

static bool is_int(struct parser *p, int32_t index, const char *who)
{
    if (!is_value(p, index)) {
        return false;
    }
    if (node_at(p, index)->type != GK_VALUE_INT) {
        fail_at(p, GK_PARSE, node_at(p, index)->column, "%s needs integers; this is a real", who);
        return false;
    }
    return true;
}

static int32_t to_real(struct parser *p, int32_t index)
{
    if (index == NO_NODE || node_at(p, index)->type == GK_VALUE_REAL) {
        return index;
    }
    return add_folded(p, (struct expr_node){.kind = NODE_UNARY, .type = GK_VALUE_REAL,
                                            .op = OP_TO_REAL, .a = index, .b = NO_NODE,
                                            .c = NO_NODE, .column = node_at(p, index)->column});
}

/* Makes two values one type. *real_out tells which. */
static bool unify(struct parser *p, int32_t *a, int32_t *b, bool *real_out)
{
    if (!is_value(p, *a) || !is_value(p, *b)) {
        return false;
    }
    *real_out = node_at(p, *a)->type == GK_VALUE_REAL || node_at(p, *b)->type == GK_VALUE_REAL;
    if (*real_out) {
        *a = to_real(p, *a);
        *b = to_real(p, *b);
    }
    return *a != NO_NODE && *b != NO_NODE;
}

static const struct gk_symbol *enum_symbol(struct parser *p, int32_t index)
{
    const struct expr_node *node = node_at(p, index);
    const struct gk_symbol *symbol =
        node->kind == NODE_NAME ? gk_scope_at(p->scope, node->slot) : NULL;
    return symbol && symbol->enum_values ? symbol : NULL;
}

/* Turns the enum text at `index` into the index of the value in the list. */
static int32_t resolve_text(struct parser *p, int32_t index, const char *const *values,
                            uint32_t count, const char *name)
{
    struct expr_node node = *node_at(p, index);
    const char *text = p->text + node.column; /* the byte after the quote */
    struct gk_buf allowed = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (strlen(values[i]) == node.length && strncmp(values[i], text, node.length) == 0) {
            gk_buf_fini(&allowed);
            return add_const(p, node.column, GK_VALUE_INT, (union gk_value){.i = i});
        }
        gk_buf_printf(&allowed, "%s%s", i ? ", " : "", values[i]);
    }
    (void)fail_at(p, GK_NOT_FOUND, node.column, "'%.*s' is not a value of %s; allowed: %s",
                  (int)node.length, text, name, gk_buf_text(&allowed)); /* returns NO_NODE */
    gk_buf_fini(&allowed);
    return NO_NODE;
}

/* True if `whole` starts with the values of `part`: their common indices mean the same. */
static bool is_prefix(const char *const *part, uint32_t part_count, const char *const *whole,
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
static bool resolve_enums(struct parser *p, int32_t *a, int32_t *b)
{
    if (*a == NO_NODE || *b == NO_NODE) {
        return false;
    }
    const struct gk_symbol *left = enum_symbol(p, *a), *right = enum_symbol(p, *b);
    if (right && node_at(p, *a)->kind == NODE_ENUM) {
        *a = resolve_text(p, *a, right->enum_values, right->enum_count, right->name);
    } else if (left && node_at(p, *b)->kind == NODE_ENUM) {
        *b = resolve_text(p, *b, left->enum_values, left->enum_count, left->name);
    } else if (left && right &&
               !is_prefix(left->enum_values, left->enum_count, right->enum_values,
                          right->enum_count) &&
               !is_prefix(right->enum_values, right->enum_count, left->enum_values,
                          left->enum_count)) {
        fail_at(p, GK_PARSE, node_at(p, *a)->column,
                "%s and %s are enums with different values and cannot be compared", left->name,
                right->name);
        return false;
    }
    return *a != NO_NODE && *b != NO_NODE;
}

/* ------------------------------------------------------------------ grammar */

static int32_t parse_cond(struct parser *p);

static bool descend(struct parser *p)
{
    if (++p->depth > GK_EXPR_DEPTH_MAX) {
        fail_at(p, GK_LIMIT, p->token.column, "nested deeper than %d levels", GK_EXPR_DEPTH_MAX);
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

static int32_t add_unary(struct parser *p, enum expr_op op, enum gk_value_type type, int32_t a,
                         uint32_t column)
{
    return add_folded(p, (struct expr_node){.kind = NODE_UNARY, .type = type, .op = op, .a = a,
                                            .b = NO_NODE, .c = NO_NODE, .column = column,
                                            .truth = op == OP_I_NOT || op == OP_I_IS_POW2});
}

static int32_t apply_function(struct parser *p, const struct function *f, const int32_t *args,
                              uint32_t count, uint32_t column)
{
    uint32_t need = f->shape == SHAPE_INT2 ? 2 : 1;
    if (f->shape == SHAPE_ANY_MANY ? count < 2 : count != need) {
        return fail_at(p, GK_PARSE, column, "%s takes %s, not %" PRIu32, f->name,
                       f->shape == SHAPE_ANY_MANY ? "two or more arguments"
                       : need == 2                ? "2 arguments"
                                                  : "1 argument",
                       count);
    }
    bool wants_int = f->shape == SHAPE_INT1 || f->shape == SHAPE_INT2;
    for (uint32_t i = 0; i < count; i++) {
        if (wants_int ? !is_int(p, args[i], f->name) : !is_value(p, args[i])) {
            return NO_NODE;
        }
    }
    int32_t result = args[0];
    if (f->shape == SHAPE_TO_REAL) {
        result = to_real(p, result);
        return f->real_op == OP_TO_REAL || result == NO_NODE
                   ? result
                   : add_unary(p, f->real_op, GK_VALUE_REAL, result, column);
    }
    if (count == 1) {
        bool real = node_at(p, result)->type == GK_VALUE_REAL;
        return add_unary(p, real ? f->real_op : f->int_op, real ? GK_VALUE_REAL : GK_VALUE_INT,
                         result, column);
    }
    for (uint32_t i = 1; i < count && result != NO_NODE; i++) {
        int32_t b = args[i];
        bool real = false;
        if (!unify(p, &result, &b, &real)) {
            return NO_NODE;
        }
        result = add_folded(p, (struct expr_node){.kind = NODE_BINARY,
                                                  .type = real ? GK_VALUE_REAL : GK_VALUE_INT,
                                                  .op = real ? f->real_op : f->int_op, .a = result,
                                                  .b = b, .c = NO_NODE, .column = column});
    }
    return result;
}

/* At '(': reads arguments up to ')'. */
static bool parse_args(struct parser *p, int32_t *args, uint32_t max, uint32_t *count_out)
{
    uint32_t count = 0;
    if (!demand(p, "(")) {
        return false;
    }
    if (!is_sign(p, ")")) {
        do {
            if (count == max) {
                fail_at(p, GK_LIMIT, p->token.column, "more than %" PRIu32 " arguments", max);
                return false;
            }
            args[count] = parse_cond(p);
            if (args[count++] == NO_NODE) {
                return false;
            }
        } while (take(p, ","));
    }
    *count_out = count;
    return demand(p, ")");
}

static int32_t parse_call(struct parser *p, const char *name, uint32_t column)
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
    (void)fail_at(p, GK_NOT_FOUND, column, "there is no function '%s'; there are %s, and on lists "
                  ".max .min .sum .count .blocks(n)", name, gk_buf_text(&all)); /* NO_NODE */
    gk_buf_fini(&all);
    return NO_NODE;
}

/* kv_len.max and its sisters; `symbol` is the list, `which` the word after the dot. */
static int32_t parse_series(struct parser *p, const struct gk_symbol *symbol, const char *which,
                            uint32_t column)
{
    static const struct {
        const char *name;
        enum expr_op op;
    } aggregates[] = {{"max", OP_S_MAX},
                      {"min", OP_S_MIN},
                      {"sum", OP_S_SUM},
                      {"count", OP_S_COUNT},
                      {"blocks", OP_S_BLOCKS}};
    for (size_t i = 0; i < GK_ARRAY_COUNT(aggregates); i++) {
        if (strcmp(aggregates[i].name, which) != 0) {
            continue;
        }
        int32_t arg[1] = {NO_NODE};
        uint32_t count = 0;
        if (aggregates[i].op == OP_S_BLOCKS) {
            if (!parse_args(p, arg, 1, &count)) {
                return NO_NODE;
            }
            if (count != 1) {
                return fail_at(p, GK_PARSE, column, "%s.blocks takes 1 argument, not 0",
                               symbol->name);
            }
            if (!is_int(p, arg[0], "blocks")) {
                return NO_NODE;
            }
        }
        if (!note_use(p, symbol)) {
            return NO_NODE;
        }
        return add_node(p, (struct expr_node){.kind = NODE_SERIES, .type = GK_VALUE_INT,
                                              .op = aggregates[i].op, .a = arg[0], .b = NO_NODE,
                                              .c = NO_NODE, .slot = symbol->slot,
                                              .column = column});
    }
    return fail_at(p, GK_NOT_FOUND, column,
                   "'%s' is a list and has no '%s'; it has .max .min .sum .count .blocks(n)",
                   symbol->name, which);
}

static int32_t parse_name(struct parser *p)
{
    char name[GK_NAME_MAX];
    uint32_t column = p->token.column;
    memcpy(name, p->token.start, p->token.length);
    name[p->token.length] = '\0';
    advance(p);
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
        return add_const(p, column, GK_VALUE_INT, (union gk_value){.i = name[0] == 't'});
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
    if (!symbol && is_sign(p, "(")) {
        return parse_call(p, name, column);
    }
    if (!symbol) {
        struct gk_buf near = {0};
        expr_near_names(p->scope, name, &near);
        (void)fail_at(p, GK_NOT_FOUND, column, "there is no name '%s'%s", name,
                      gk_buf_text(&near)); /* NO_NODE */
        gk_buf_fini(&near);
        return NO_NODE;
    }
    if (symbol->type == GK_VALUE_SERIES) {
        return fail_at(p, GK_PARSE, column,
                       "'%s' is a list: use %s.max .min .sum .count or .blocks(n)", name, name);
    }
    if (!note_use(p, symbol)) {
        return NO_NODE;
    }
    return add_node(p, (struct expr_node){.kind = NODE_NAME, .type = symbol->type, .a = NO_NODE,
                                          .b = NO_NODE, .c = NO_NODE, .slot = symbol->slot,
                                          .column = column});
}

static int32_t parse_primary(struct parser *p)
{
    struct token token = p->token;
    int32_t index = NO_NODE;
    if (p->status != GK_OK) {
        return NO_NODE;
    }
    switch (token.kind) {
    case TOKEN_INT:
    case TOKEN_REAL:
        advance(p);
        return add_const(p, token.column,
                         token.kind == TOKEN_INT ? GK_VALUE_INT : GK_VALUE_REAL, token.value);
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_TEXT:
        advance(p);
        return add_node(p, (struct expr_node){.kind = NODE_ENUM, .type = GK_VALUE_INT, .a = NO_NODE,
                                              .b = NO_NODE, .c = NO_NODE, .column = token.column,
                                              .length = token.length, .enum_text = true});
    case TOKEN_END:
        return fail_at(p, GK_PARSE, token.column, "ends where a value is needed");
    case TOKEN_SIGN:
        break;
    }
    if (!take(p, "(")) {
        return fail_at(p, GK_PARSE, token.column, "'%s' where a value is needed", token.sign);
    }
    index = parse_cond(p);
    return index != NO_NODE && demand(p, ")") ? index : NO_NODE;
}

static int32_t parse_unary(struct parser *p)
{
    uint32_t column = p->token.column;
    bool minus = is_sign(p, "-"), invert = is_sign(p, "~");
    if (!minus && !invert && !is_sign(p, "!")) {
        return parse_primary(p);
    }
    if (!descend(p)) {
        return NO_NODE;
    }
    advance(p);
    int32_t a = parse_unary(p);
    p->depth--;
    if (minus ? !is_value(p, a) : !is_int(p, a, invert ? "~" : "!")) {
        return NO_NODE;
    }
    bool real = node_at(p, a)->type == GK_VALUE_REAL;
    enum expr_op op = !minus ? (invert ? OP_I_INVERT : OP_I_NOT) : real ? OP_R_NEG : OP_I_NEG;
    return add_unary(p, op, real ? GK_VALUE_REAL : GK_VALUE_INT, a, column);
}

struct binary {
    const char *sign;
    int precedence; /* higher binds tighter */
    enum expr_op int_op, real_op; /* OP_END: none */
};

static const struct binary binaries[] = {
    {"||", 1, OP_END, OP_END},         {"&&", 2, OP_END, OP_END},
    {"|", 3, OP_I_OR, OP_END},         {"^", 4, OP_I_XOR, OP_END},
    {"&", 5, OP_I_AND, OP_END},        {"==", 6, OP_I_EQ, OP_R_EQ},
    {"!=", 6, OP_I_NE, OP_R_NE},       {"<", 7, OP_I_LT, OP_R_LT},
    {"<=", 7, OP_I_LE, OP_R_LE},       {">", 7, OP_I_GT, OP_R_GT},
    {">=", 7, OP_I_GE, OP_R_GE},       {"<<", 8, OP_I_SHL, OP_END},
    {">>", 8, OP_I_SHR, OP_END},       {"+", 9, OP_I_ADD, OP_R_ADD},
    {"-", 9, OP_I_SUB, OP_R_SUB},      {"*", 10, OP_I_MUL, OP_R_MUL},
    {"/", 10, OP_I_DIV, OP_R_DIV},     {"%", 10, OP_I_MOD, OP_END},
};

static const struct binary *binary_at(const struct parser *p)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(binaries); i++) {
        if (is_sign(p, binaries[i].sign)) {
            return &binaries[i];
        }
    }
    return NULL;
}

static int32_t add_binary(struct parser *p, const struct binary *binary, int32_t a, int32_t b,
                          uint32_t column)
{
    bool compare = binary->precedence == 6 || binary->precedence == 7;
    if (binary->precedence == 6 && !resolve_enums(p, &a, &b)) {
        return NO_NODE;
    }
    if (binary->real_op == OP_END &&
        (!is_int(p, a, binary->sign) || !is_int(p, b, binary->sign))) {
        return NO_NODE;
    }
    struct expr_node node = {.kind = NODE_BINARY, .type = GK_VALUE_INT, .a = a, .b = b,
                             .c = NO_NODE, .column = column};
    if (binary->int_op == OP_END) {
        node.kind = binary->precedence == 2 ? NODE_AND : NODE_OR;
        node.truth = true;
        return add_folded(p, node);
    }
    bool real = false;
    if (!unify(p, &node.a, &node.b, &real)) {
        return NO_NODE;
    }
    node.op = real ? binary->real_op : binary->int_op;
    node.type = real && !compare ? GK_VALUE_REAL : GK_VALUE_INT;
    node.truth = compare;
    return add_folded(p, node);
}

static int32_t parse_binary(struct parser *p, int precedence_min)
{
    int32_t a = parse_unary(p);
    while (a != NO_NODE && p->status == GK_OK) {
        const struct binary *binary = binary_at(p);
        if (!binary || binary->precedence < precedence_min) {
            break;
        }
        uint32_t column = p->token.column;
        advance(p);
        int32_t b = parse_binary(p, binary->precedence + 1); /* at most 11 calls deep */
        a = b == NO_NODE ? NO_NODE : add_binary(p, binary, a, b, column);
    }
    return p->status == GK_OK ? a : NO_NODE;
}

static int32_t parse_cond(struct parser *p)
{
    if (!descend(p)) {
        return NO_NODE;
    }
    int32_t a = parse_binary(p, 1);
    uint32_t column = p->token.column;
    if (a != NO_NODE && take(p, "?")) {
        if (!is_int(p, a, "?:")) {
            return NO_NODE;
        }
        int32_t b = parse_cond(p);
        if (b == NO_NODE || !demand(p, ":")) {
            return NO_NODE;
        }
        int32_t c = parse_cond(p);
        bool real = false;
        if (c == NO_NODE) {
            return NO_NODE;
        }
        /* Where an enum is wanted, 'a' : 'b' waits for resolve_result(). */
        bool texts = p->wanted && (node_at(p, b)->enum_text || node_at(p, c)->enum_text);
        if (texts ? node_at(p, b)->type != node_at(p, c)->type : !unify(p, &b, &c, &real)) {
            return fail_at(p, GK_PARSE, column, "?: gives an enum value or a real");
        }
        struct expr_node node = {.kind = NODE_COND, .type = real ? GK_VALUE_REAL : GK_VALUE_INT,
                                 .a = a, .b = b, .c = c, .column = column, .enum_text = texts};
        a = texts ? add_node(p, node) : add_folded(p, node);
    }
    p->depth--;
    return p->status == GK_OK ? a : NO_NODE;
}

/* ------------------------------------------------------------------ whole expressions */

/* The result of an expression that must give a value of the wanted enum: its texts get their index, names
 * must be enums whose values start the wanted list (then the index means the same), ?: is walked. */
static int32_t resolve_result(struct parser *p, int32_t index)
{
    const struct expr_enum *wanted = p->wanted;
    if (index == NO_NODE) {
        return NO_NODE;
    }
    struct expr_node node = *node_at(p, index);
    if (node.kind == NODE_ENUM) {
        return resolve_text(p, index, wanted->values, wanted->count, "the enum");
    }
    if (node.kind == NODE_COND) {
        int32_t b = resolve_result(p, node.b);
        int32_t c = resolve_result(p, node.c);
        node_at(p, index)->b = b;
        node_at(p, index)->c = c;
        node_at(p, index)->enum_text = false;
        return p->status == GK_OK ? index : NO_NODE;
    }
    const struct gk_symbol *symbol = enum_symbol(p, index);
    if (!symbol) {
        return fail_at(p, GK_PARSE, node.column, "gives a number where an enum value is needed");
    }
    if (!is_prefix(symbol->enum_values, symbol->enum_count, wanted->values, wanted->count)) {
        return fail_at(p, GK_PARSE, node.column,
                       "the values of '%s' are not those of the enum that is needed; choose with "
                       "%s == '...' ? '...' : '...'", symbol->name, symbol->name);
    }
    return index;
}

enum gk_status expr_parse(struct gk_expr *expr, const struct gk_scope *scope,
                          const struct expr_enum *wanted, struct gk_err *err)
{
    struct parser p = {.text = expr->text, .at = expr->text, .expr = expr, .scope = scope,
                       .wanted = wanted, .err = err, .status = GK_OK};
    advance(&p);
    int32_t root = parse_cond(&p);
    if (root != NO_NODE && p.token.kind != TOKEN_END) {
        root = fail_at(&p, GK_PARSE, p.token.column, "'%.*s' after the end of the expression",
                       (int)p.token.length, p.token.start);
    }
    if (wanted) {
        root = resolve_result(&p, root);
    } else if (!is_value(&p, root)) {
        root = NO_NODE;
    }
    expr->root = root;
    GK_ASSERT(p.status != GK_OK || root != NO_NODE);
    return p.status;
}
