/*
 * Between the module parser (ptx_module.c), which reads declarations, and the body decoder
 * (ptx_decode.c, ptx_operand.c), which turns one function's statements into instructions.
 */
#ifndef GK_WORKER_EMU_PTX_DECODE_H
#define GK_WORKER_EMU_PTX_DECODE_H

#include "worker/emu/ptx_lexer.h"
#include "worker/emu/ptx_table.h"

struct ptx_param_decl {
    char *name;
    uint32_t bytes, align;
};

struct ptx_function {
    char *name;
    bool entry, has_body, has_ret;
    struct ptx_lexer body; /* stands at the '{' */
    struct ptx_param_decl *params;
    uint32_t param_count;
    struct ptx_param_decl ret;
    uint32_t maxntid[3], reqntid[3], minnctapersm[3], maxnreg[3]; /* [0] alone of the last two */
};

struct ptx_variable {
    char *name;
    enum emu_space space;
    uint64_t bytes;
    uint32_t align;
    bool external; /* extern .shared: the dynamic memory */
    struct emu_alloc *alloc;
};

/* An address inside an initialiser, known when all variables have theirs. */
struct ptx_fixup {
    struct emu_alloc *alloc;
    uint64_t offset;
    char *name;
    uint64_t addend;
    uint32_t line;
};

struct ptx_parser {
    struct gk_emu_module *module;
    struct ptx_lexer lexer;
    struct ptx_function *functions;
    uint32_t function_count, function_capacity;
    struct ptx_variable *variables;
    uint32_t variable_count, variable_capacity;
    struct ptx_fixup *fixups;
    uint32_t fixup_count, fixup_capacity;
    struct gk_err *err;
};

enum gk_status ptx_next(struct ptx_parser *parser);
/* Takes the token if it is `text`; ptx_want fails when it is not. */
bool ptx_accept(struct ptx_parser *parser, const char *text, enum gk_status *status);
enum gk_status ptx_want(struct ptx_parser *parser, const char *text);
enum gk_status ptx_unexpected(struct ptx_parser *parser, const char *wanted);
/* A copy of the current word, then moves on. */
enum gk_status ptx_take_name(struct ptx_parser *parser, char **name_out);
enum gk_status ptx_take_int(struct ptx_parser *parser, uint64_t *value_out);
/* "[.align n] .type name[dims]" behind the state space. count and name are set. */
enum gk_status ptx_take_declarator(struct ptx_parser *parser, struct ptx_variable *out);
enum gk_status ptx_grow(void *array_pointer, uint32_t count, uint32_t *capacity, size_t size,
                        struct gk_err *err);
uint8_t ptx_type_of(const struct ptx_token *token); /* ".f32" -> PTX_F32, PTX_NONE if no type */

const struct ptx_function *ptx_function_find(const struct ptx_parser *parser, const char *name);
const struct ptx_variable *ptx_variable_find(const struct ptx_parser *parser, const char *name);

/* Decodes an entry and everything it calls into a new kernel of the module. */
enum gk_status ptx_kernel_decode(struct ptx_parser *parser, const struct ptx_function *entry,
                                 struct gk_emu_kernel **kernel_out);
void ptx_kernel_destroy(struct gk_emu_kernel *kernel);

/* ------------------------------------------------------------------ the body decoder's state */

enum ptx_operand_kind {
    PTX_OPERAND_WORD, /* name [ + value ] */
    PTX_OPERAND_INT,
    PTX_OPERAND_F32,
    PTX_OPERAND_F64,
    PTX_OPERAND_ADDRESS, /* [name + value] or [value]; name NULL then */
    PTX_OPERAND_VECTOR
};

#define PTX_VECTOR_MAX 128
#define PTX_RAW_MAX    16

struct ptx_operand {
    enum ptx_operand_kind kind;
    char *name;
    char *pair;   /* q of "p|q" */
    bool negated; /* '!' */
    uint64_t value;
    struct ptx_operand *elements; /* of a vector, PTX_VECTOR_MAX allocated */
    uint32_t count;
};

enum ptx_symbol_kind {
    PTX_SYMBOL_REGS, /* name or name<count> */
    PTX_SYMBOL_SHARED,
    PTX_SYMBOL_LOCAL,
    PTX_SYMBOL_KERNEL_PARAM,
    PTX_SYMBOL_LANE_PARAM, /* .param of a device function, or declared in a body */
    PTX_SYMBOL_TABLE       /* .branchtargets */
};

struct ptx_symbol {
    enum ptx_symbol_kind kind;
    char *name;
    uint8_t lane_bytes; /* registers: 0 is a predicate */
    uint32_t count;     /* registers: 0 is a plain name */
    int32_t *offsets;   /* registers: given out at first use, -1 before */
    int64_t offset;     /* others: in their space, or in the register block */
    uint32_t bytes;
    uint32_t scope;
};

struct ptx_label {
    char *name;
    uint32_t scope, at;
};

struct ptx_jump { /* a branch or table entry whose label may come later */
    char *name;
    uint32_t scope, insn, line;
    int32_t table, entry; /* -1: insn->imm is set */
};

struct ptx_shared { /* static shared variables already placed */
    const struct ptx_variable *variable;
    uint32_t offset;
};

struct ptx_body {
    struct ptx_parser *parser;
    struct gk_emu_kernel *kernel;
    const struct ptx_function **reached; /* by function index of the kernel */
    int64_t **param_offsets; /* lane-private parameter arrays of each reached function */
    uint32_t reached_count, reached_capacity;
    struct ptx_symbol *symbols;
    uint32_t symbol_count, symbol_capacity;
    uint32_t *scope_parent;
    uint32_t scope_count, scope_capacity, scope;
    struct ptx_label *labels;
    uint32_t label_count, label_capacity;
    struct ptx_jump *jumps;
    uint32_t jump_count, jump_capacity;
    struct ptx_shared *shared;
    uint32_t shared_count, shared_capacity;
    uint32_t call_capacity, table_capacity;
    uint32_t dynamic_align, dynamic_base;
    bool dynamic_used;
    uint32_t loc;
    uint32_t line;                   /* of the statement being decoded */
    uint32_t pool_slots, *pool_hash; /* open addressing over pool offsets + 1 */
    int32_t sink;                    /* register offset for "_" */
    uint32_t last_width;             /* bytes of a lane of the operand bound last */
    const char *opcode;
    struct gk_err *err;
};

void ptx_operand_fini(struct ptx_operand *operand);
enum gk_status ptx_operand_parse(struct ptx_body *body, struct ptx_operand *out);
/* Applies the row's operand codes to the parsed operands. */
enum gk_status ptx_operands_bind(struct ptx_body *body, struct emu_insn *insn, const char *codes,
                                 struct ptx_operand *operands, uint32_t count);
struct ptx_symbol *ptx_symbol_find(struct ptx_body *body, const char *name, uint32_t *index_out);
enum gk_status ptx_symbol_add(struct ptx_body *body, struct ptx_symbol symbol);
int32_t ptx_registers_reserve(struct ptx_body *body, uint32_t bytes);
enum gk_status ptx_pool_add(struct ptx_body *body, uint64_t bits, uint32_t lane_bytes,
                            int32_t *offset_out);
enum gk_status ptx_bind_source(struct ptx_body *body, struct emu_insn *insn,
                               const struct ptx_operand *operand, uint32_t lane_bytes, uint8_t type,
                               int32_t *offset_out, uint32_t *width_out);
enum gk_status ptx_bind_dest(struct ptx_body *body, const struct ptx_operand *operand,
                             uint32_t lane_bytes, int32_t *offset_out, uint32_t *width_out);
enum gk_status ptx_bind_pred(struct ptx_body *body, const struct ptx_operand *operand,
                             int32_t *offset_out);
enum gk_status ptx_body_fail(struct ptx_body *body, enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum gk_status ptx_jump_add(struct ptx_body *body, const char *name, uint32_t insn, int32_t table,
                            int32_t entry);
/* Index of the function in the kernel; places its parameters when it is new. */
enum gk_status ptx_function_reach(struct ptx_body *body, const struct ptx_function *function,
                                  uint32_t *index_out);

/* Opcodes whose operands decide what they do (mov, bra, brx, call, ret): *done_out is false for
 * all others (ptx_special_ops.c). */
enum gk_status ptx_special_decode(struct ptx_body *body, struct emu_insn *insn, const char *opcode,
                                  struct ptx_operand *operands, uint32_t count, bool *done_out);
enum gk_status ptx_call_decode(struct ptx_body *body, struct emu_insn *insn);

/* Handlers that only the decoder refers to (emu_exec_control.c). */
emu_exec emu_exec_mov_16, emu_exec_mov_32, emu_exec_mov_64, emu_exec_mov_pred, emu_exec_pack,
    emu_exec_unpack, emu_exec_clock, emu_exec_bra, emu_exec_brx, emu_exec_call, emu_exec_ret,
    emu_exec_exit, emu_exec_assert_fail, emu_exec_printf;

#endif
