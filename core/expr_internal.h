/*
 * What the parts of the expression module share; nobody outside core/expr*.c includes this.
 *
 *   expr_scope.c   names and slots
 *   expr_token.c   text -> words
 *   expr_node.c    nodes, their types, enum values, folding of constants
 *   expr_parse.c   words -> nodes by the grammar of C
 *   expr_code.c    nodes -> instructions; compile and destroy
 *   expr_eval.c    the machine, and what is said when it stops
 *   expr_render.c  nodes -> C text
 *
 * Nodes stay after compiling because rendering needs the tree; evaluation touches only the code.
 */
#ifndef GK_CORE_EXPR_INTERNAL_H
#define GK_CORE_EXPR_INTERNAL_H

#include "core/expr.h"

/* Levels of the tree. A sum of 500 terms is 500 levels deep though the parser never nests: this
 * bounds the recursion of what walks the tree. */
#define EXPR_TREE_DEPTH_MAX 512

/* Binary operations. Each has three opcodes: both operands on the stack, or the right one read from
 * a slot, or from the instruction: most right operands are a name or a number, and an instruction
 * less is the cheapest speed-up there is. */
#define EXPR_BINARY_MAP(X)                                                                         \
    X(I_ADD)                                                                                       \
    X(I_SUB)                                                                                       \
    X(I_MUL)                                                                                       \
    X(I_DIV)                                                                                       \
    X(I_MOD)                                                                                       \
    X(I_SHL)                                                                                       \
    X(I_SHR) X(I_AND) X(I_OR) X(I_XOR) X(I_LT) X(I_LE) X(I_GT) X(I_GE) X(I_EQ) X(I_NE) X(I_MIN)    \
        X(I_MAX) X(I_CEIL_DIV) X(I_ALIGN_UP) X(R_ADD) X(R_SUB) X(R_MUL) X(R_DIV) X(R_LT) X(R_LE)   \
            X(R_GT) X(R_GE) X(R_EQ) X(R_NE) X(R_MIN) X(R_MAX)

enum expr_op {
    OP_END,
    OP_SLOT,      /* push slots[arg] */
    OP_CONST,     /* push value */
    OP_JUMP,      /* go to arg */
    OP_JUMP_ZERO, /* pop; go to arg if it is zero */
    OP_AND_THEN,  /* zero: leave 0 and go to arg; else pop */
    OP_OR_ELSE,   /* not zero: leave 1 and go to arg; else pop */
    OP_TRUTH,     /* top = top != 0 */
    OP_TO_REAL,
    OP_I_NEG,
    OP_I_NOT,
    OP_I_INVERT,
    OP_I_LOG2,
    OP_I_IS_POW2,
    OP_I_ABS,
    OP_R_NEG,
    OP_R_ABS,
    OP_R_SQRT,
    OP_S_MAX, /* push an aggregate of series slots[arg] */
    OP_S_MIN,
    OP_S_SUM,
    OP_S_COUNT,
    OP_S_BLOCKS, /* top = sum of ceil_div(value, top) */
    OP_S_RAMP,   /* top = ramp of series slots[arg] and slots[value.i], shifted by top */
#define EXPR_OP_ENUM(name) OP_##name, OP_##name##_SLOT, OP_##name##_CONST,
    EXPR_BINARY_MAP(EXPR_OP_ENUM)
#undef EXPR_OP_ENUM
};

struct expr_ins {
    uint16_t op;          /* enum expr_op */
    uint32_t arg;         /* slot or target */
    union gk_value value; /* of OP_CONST, OP_S_RAMP and the _CONST opcodes */
};

/* Why the machine stopped. */
enum expr_fault {
    FAULT_NONE,
    FAULT_OVERFLOW,
    FAULT_DIVIDE,
    FAULT_MODULO,
    FAULT_CEIL_DIV,
    FAULT_ALIGN_UP,
    FAULT_LOG2,
    FAULT_SHIFT,
    FAULT_NOT_FINITE,
    FAULT_EMPTY,
    FAULT_BLOCKS,
    FAULT_RAMP
};

enum expr_kind {
    NODE_CONST,
    NODE_NAME,   /* slot */
    NODE_ENUM,   /* 'text' not yet compared with a name: never survives parsing */
    NODE_UNARY,  /* op, a */
    NODE_BINARY, /* op, a, b */
    NODE_AND,    /* a, b */
    NODE_OR,     /* a, b */
    NODE_COND,   /* a ? b : c */
    NODE_SERIES  /* op, slot; a is the argument of .blocks or the last of .ramp, else -1;
                    value.i the other series of .ramp */
};

struct expr_node {
    enum expr_kind kind;
    enum gk_value_type type;
    enum expr_op op;
    bool truth;     /* always 0 or 1 */
    bool enum_text; /* a NODE_ENUM, or ?: with one: a value only for resolve_result() */
    uint16_t depth; /* levels below and with this node */
    int32_t a, b, c;
    uint32_t slot;
    uint32_t column; /* where it began: 1-based bytes */
    uint32_t length; /* NODE_ENUM: bytes of the text at column */
    union gk_value value;
};

/* A name that the expression reads, for messages. */
struct expr_use {
    uint32_t slot;
    enum gk_value_type type;
    const char *const *enum_values; /* of the symbol; NULL: it is no enum */
    uint32_t enum_count;
    char name[GK_NAME_MAX];
};

struct gk_expr {
    char *text;
    struct expr_node *nodes;
    uint32_t node_count;
    int32_t root;
    struct expr_ins *code;
    uint32_t code_count;
    struct expr_use *uses;
    uint32_t use_count;
    uint64_t used[GK_SCOPE_SYMBOLS_MAX / 64]; /* bit per slot */
    int64_t slot_max;
};

/* Enum values that the result must be one of; NULL for a plain expression. */
struct expr_enum {
    const char *const *values;
    uint32_t count;
};

#define NO_NODE (-1)

enum expr_token_kind { TOKEN_END, TOKEN_INT, TOKEN_REAL, TOKEN_NAME, TOKEN_TEXT, TOKEN_SIGN };

struct expr_token {
    enum expr_token_kind kind;
    uint32_t column; /* 1-based */
    uint32_t length; /* bytes of the token; of TOKEN_TEXT those between the quotes */
    const char *start;
    char sign[3]; /* TOKEN_SIGN */
    union gk_value value;
};

struct expr_parser {
    const char *text;
    const char *at;
    struct expr_token token; /* the one not yet consumed */
    uint32_t depth;          /* nested parse_cond and parse_unary calls */
    struct gk_expr *expr;
    uint32_t node_capacity;
    uint32_t use_capacity;
    const struct gk_scope *scope;
    const struct expr_enum *wanted;
    struct gk_err *err;
    enum gk_status status; /* of the first error; nothing is parsed after it */
};

/* Tells the first error, with the expression and the column; always NO_NODE. */
int32_t expr_fail_at(struct expr_parser *p, enum gk_status status, uint32_t column,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Reads the next token into p->token; TOKEN_END at the end and after an error. */
void expr_advance(struct expr_parser *p);
bool expr_is_sign(const struct expr_parser *p, const char *sign);
bool expr_take(struct expr_parser *p, const char *sign);   /* consumes it if it is there */
bool expr_demand(struct expr_parser *p, const char *sign); /* an error if it is not */

/* Nodes. All give NO_NODE (or false) after an error, and take NO_NODE for an error told before. */
struct expr_node *expr_node_at(struct expr_parser *p, int32_t index); /* until the next add */
int32_t expr_add_node(struct expr_parser *p, struct expr_node node);
int32_t expr_add_const(struct expr_parser *p, uint32_t column, enum gk_value_type type,
                       union gk_value value);
/* Adds an operator node; if all its operands are constants and do not fault, adds its value. */
int32_t expr_add_folded(struct expr_parser *p, struct expr_node node);
bool expr_note_use(struct expr_parser *p, const struct gk_symbol *symbol);
/* True if the node is a value and not a bare enum text; an error else. */
bool expr_is_value(struct expr_parser *p, int32_t index);
bool expr_is_int(struct expr_parser *p, int32_t index, const char *who);
int32_t expr_to_real(struct expr_parser *p, int32_t index);
/* Makes two values one type; *real_out tells which. */
bool expr_unify(struct expr_parser *p, int32_t *a, int32_t *b, bool *real_out);
/* The enum that a node names, or NULL. */
const struct gk_symbol *expr_enum_symbol(struct expr_parser *p, int32_t index);
/* A constant for the enum text at `index`: its index in the list; an error names the list. */
int32_t expr_resolve_text(struct expr_parser *p, int32_t index, const char *const *values,
                          uint32_t count, const char *name);
/* True if `whole` starts with the values of `part`: their common indices mean the same. */
bool expr_is_prefix(const char *const *part, uint32_t part_count, const char *const *whole,
                    uint32_t whole_count);
/* Before == or !=: gives enum texts their index and refuses to compare indices of unlike enums. */
bool expr_resolve_enums(struct expr_parser *p, int32_t *a, int32_t *b);

/* Fills nodes, root, uses, used and slot_max of an expression whose text is set. */
enum gk_status expr_parse(struct gk_expr *expr, const struct gk_scope *scope,
                          const struct expr_enum *wanted, struct gk_err *err);

/* Appends the code of a node (without OP_END) to code[0 .. GK_EXPR_CODE_MAX). */
struct expr_code {
    struct expr_ins *ins;
    uint32_t count;
    uint32_t capacity;
    uint32_t height; /* operands on the stack here */
    uint32_t height_max;
    bool full; /* over capacity: the code is not whole */
};
void expr_emit(struct expr_code *code, const struct expr_node *nodes, int32_t index);

/* Runs code up to OP_END. The code must come from expr_emit and need at most GK_EXPR_STACK_MAX
 * operands. */
enum expr_fault expr_run(const struct expr_ins *code, const union gk_value *slots,
                         union gk_value *value_out);

/* The names of a scope that look like `name`, as ": did you mean a, b?", or a list of a few. */
void expr_near_names(const struct gk_scope *scope, const char *name, struct gk_buf *buf);

#endif
