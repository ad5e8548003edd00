/*
 * Bodies: statements become instructions. An entry and every function that it reaches form one
 * kernel with code, registers, shared and local memory of its own.
 *
 * Each function has one block of registers, so a lane has at most one frame a function: enough
 * without recursion, which is reported when it is met. Two groups of lanes in the same function
 * share the block but never a lane.
 */
#include "worker/emu/ptx_decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

#define POOL_SLOTS 8192u
/* Registers of a warp: 64 MB would be 500 000 32-bit registers, more than NVRTC ever names. */
#define REGISTER_BYTES_MAX (64u << 20)

enum gk_status ptx_body_fail(struct ptx_body *body, enum gk_status status, const char *format, ...)
{
    const struct gk_emu_module *module = body->parser->module;
    char message[300];
    const char *text = "";
    size_t size = 0;
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    if (body->line && body->line <= module->line_count) {
        text = module->lines[body->line - 1];
        text += strspn(text, " \t");
        size = strcspn(text, "\r\n");
    }
    return gk_fail(body->err, status, "PTX line %u: %s: `%.*s`", body->line, message,
                   (int)(size > 300 ? 300 : size), text);
}

/* ------------------------------------------------------------------ symbols and scopes */

enum gk_status ptx_symbol_add(struct ptx_body *body, struct ptx_symbol symbol)
{
    enum gk_status status = ptx_grow(&body->symbols, body->symbol_count, &body->symbol_capacity,
                                     sizeof(*body->symbols), body->err);
    uint32_t count = symbol.count ? symbol.count : 1;

    if (status == GK_OK && symbol.kind == PTX_SYMBOL_REGS) {
        symbol.offsets = malloc(count * sizeof(*symbol.offsets));
        if (!symbol.offsets) {
            status = gk_fail(body->err, GK_NOMEM, "registers %s<%u>", symbol.name, count);
        }
        for (uint32_t i = 0; symbol.offsets && i < count; i++) {
            symbol.offsets[i] = -1;
        }
    }
    if (status != GK_OK) {
        free(symbol.name);
        return status;
    }
    symbol.scope = body->scope;
    body->symbols[body->symbol_count++] = symbol;
    return GK_OK;
}

static void symbols_drop(struct ptx_body *body, uint32_t first)
{
    while (body->symbol_count > first) {
        struct ptx_symbol *symbol = &body->symbols[--body->symbol_count];

        free(symbol->name);
        free(symbol->offsets);
    }
}

/* "%r12" is number 12 of "%r<100>", unless "%r12" itself was declared. Inner scopes come first:
 * they are at the end of the list, and dropped when they close. */
struct ptx_symbol *ptx_symbol_find(struct ptx_body *body, const char *name, uint32_t *index_out)
{
    size_t size = strlen(name), stem = size;
    unsigned long number;

    while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9') {
        stem--;
    }
    number = stem < size && size - stem < 9 ? strtoul(name + stem, NULL, 10) : 0;
    for (uint32_t i = body->symbol_count; i-- > 0;) {
        struct ptx_symbol *symbol = &body->symbols[i];

        if (symbol->count) {
            if (stem < size && number < symbol->count && strncmp(symbol->name, name, stem) == 0 &&
                symbol->name[stem] == 0) {
                *index_out = (uint32_t)number;
                return symbol;
            }
        } else if (strcmp(symbol->name, name) == 0) {
            *index_out = 0;
            return symbol;
        }
    }
    return NULL;
}

static enum gk_status scope_open(struct ptx_body *body)
{
    enum gk_status status = ptx_grow(&body->scope_parent, body->scope_count, &body->scope_capacity,
                                     sizeof(*body->scope_parent), body->err);

    if (status == GK_OK) {
        body->scope_parent[body->scope_count] = body->scope;
        body->scope = body->scope_count++;
    }
    return status;
}

static void scope_close(struct ptx_body *body)
{
    uint32_t first = body->symbol_count;

    while (first && body->symbols[first - 1].scope == body->scope) {
        first--;
    }
    symbols_drop(body, first);
    body->scope = body->scope_parent[body->scope];
}

static enum gk_status label_add(struct ptx_body *body, char *name)
{
    enum gk_status status = ptx_grow(&body->labels, body->label_count, &body->label_capacity,
                                     sizeof(*body->labels), body->err);

    if (status != GK_OK) {
        free(name);
        return status;
    }
    body->labels[body->label_count++] =
        (struct ptx_label){.name = name, .scope = body->scope, .at = body->kernel->code_count};
    return GK_OK;
}

enum gk_status ptx_jump_add(struct ptx_body *body, const char *name, uint32_t insn, int32_t table,
                            int32_t entry)
{
    enum gk_status status = ptx_grow(&body->jumps, body->jump_count, &body->jump_capacity,
                                     sizeof(*body->jumps), body->err);
    char *copy = status == GK_OK ? gk_strdup(name) : NULL;

    if (!copy) {
        return status == GK_OK ? gk_fail(body->err, GK_NOMEM, "a PTX jump") : status;
    }
    body->jumps[body->jump_count++] = (struct ptx_jump){.name = copy,
                                                        .scope = body->scope,
                                                        .insn = insn,
                                                        .line = body->line,
                                                        .table = table,
                                                        .entry = entry};
    return GK_OK;
}

static enum gk_status jumps_resolve(struct ptx_body *body)
{
    for (uint32_t i = 0; i < body->jump_count; i++) {
        const struct ptx_jump *jump = &body->jumps[i];
        uint32_t scope = jump->scope, at = UINT32_MAX;

        for (;;) {
            for (uint32_t l = 0; at == UINT32_MAX && l < body->label_count; l++) {
                if (body->labels[l].scope == scope &&
                    strcmp(body->labels[l].name, jump->name) == 0) {
                    at = body->labels[l].at;
                }
            }
            if (at != UINT32_MAX || scope == 0) {
                break;
            }
            scope = body->scope_parent[scope];
        }
        if (at == UINT32_MAX) {
            body->line = jump->line;
            return ptx_body_fail(body, GK_PARSE, "there is no label '%s'", jump->name);
        }
        if (jump->table >= 0) {
            body->kernel->tables[jump->table].targets[jump->entry] = at;
        } else {
            body->kernel->code[jump->insn].imm = at;
        }
    }
    return GK_OK;
}

static void function_state_drop(struct ptx_body *body)
{
    symbols_drop(body, 0);
    for (uint32_t i = 0; i < body->label_count; i++) {
        free(body->labels[i].name);
    }
    for (uint32_t i = 0; i < body->jump_count; i++) {
        free(body->jumps[i].name);
    }
    body->label_count = body->jump_count = 0;
    body->scope_count = 0;
    body->scope = 0;
}

/* ------------------------------------------------------------------ declarations in bodies */

static enum gk_status declare_registers(struct ptx_body *body)
{
    struct ptx_parser *parser = body->parser;
    uint8_t type = ptx_type_of(&parser->lexer.token);
    uint32_t bytes = ptx_type_bytes(type);
    enum gk_status status;

    if (!type || ptx_token_is(&parser->lexer.token, ".b128")) {
        return ptx_body_fail(body, GK_UNSUPPORTED, "registers of this type");
    }
    status = ptx_next(parser);
    do {
        struct ptx_symbol symbol = {.kind = PTX_SYMBOL_REGS};
        uint64_t count = 0;

        symbol.lane_bytes = (uint8_t)(type == PTX_PRED ? 0 : bytes < 2 ? 2 : bytes);
        status = status == GK_OK ? ptx_take_name(parser, &symbol.name) : status;
        if (ptx_accept(parser, "<", &status)) {
            status = status == GK_OK ? ptx_take_int(parser, &count) : status;
            status = status == GK_OK ? ptx_want(parser, ">") : status;
        }
        if (status == GK_OK && count > 1000000) {
            status =
                ptx_body_fail(body, GK_LIMIT, "more than 1000000 registers in one declaration");
        }
        if (status != GK_OK) {
            free(symbol.name);
            return status;
        }
        symbol.count = (uint32_t)count;
        status = ptx_symbol_add(body, symbol);
    } while (ptx_accept(parser, ",", &status));
    return status == GK_OK ? ptx_want(parser, ";") : status;
}

static uint32_t place(uint32_t *used, uint32_t bytes, uint32_t align)
{
    uint32_t offset;

    align = align ? align : 1;
    offset = (*used + align - 1) / align * align;
    *used = offset + bytes;
    return offset;
}

static enum gk_status declare_memory(struct ptx_body *body, enum ptx_symbol_kind kind)
{
    struct ptx_parser *parser = body->parser;
    struct ptx_variable variable = {0};
    struct ptx_symbol symbol = {.kind = kind};
    enum gk_status status = ptx_take_declarator(parser, &variable);

    if (status == GK_OK && variable.bytes > (1u << 24)) {
        status = ptx_body_fail(body, GK_LIMIT, "a variable of more than 16 MB in a body");
    }
    if (status != GK_OK) {
        free(variable.name);
        return status;
    }
    symbol.name = variable.name;
    symbol.bytes = (uint32_t)variable.bytes;
    if (kind == PTX_SYMBOL_SHARED) {
        symbol.offset = place(&body->kernel->static_smem_bytes, symbol.bytes, variable.align);
    } else if (kind == PTX_SYMBOL_LOCAL) {
        symbol.offset = place(&body->kernel->local_bytes, symbol.bytes, variable.align);
    } else {
        symbol.offset = ptx_registers_reserve(body, symbol.bytes * EMU_LANES);
    }
    status = ptx_symbol_add(body, symbol);
    return status == GK_OK ? ptx_want(parser, ";") : status;
}

#define LOC_DISTANCE_MAX 8192u /* a search without an end would be quadratic */

/* The place that an inlined_at means: NVRTC names it by its numbers alone, behind a .loc of its
 * own. A call that was inlined several times is met in each of them: the last is meant. */
static uint32_t place_before(const struct gk_emu_module *module, uint32_t file, uint32_t line,
                             uint32_t column)
{
    uint32_t end = module->loc_count > LOC_DISTANCE_MAX ? module->loc_count - LOC_DISTANCE_MAX : 1;

    for (uint32_t i = module->loc_count; i-- > end;) {
        const struct emu_loc *loc = &module->locs[i];

        if (loc->line == line && loc->column == column && loc->file == file) {
            return i;
        }
    }
    return 0;
}

/* .loc file line column [, function_name label[+n], inlined_at file line column] */
static enum gk_status take_loc(struct ptx_body *body)
{
    struct ptx_parser *parser = body->parser;
    struct gk_emu_module *module = parser->module;
    struct emu_loc loc = {0};
    uint64_t file = 0, line = 0, column = 0;
    enum gk_status status = ptx_take_int(parser, &file);

    status = status == GK_OK ? ptx_take_int(parser, &line) : status;
    status = status == GK_OK ? ptx_take_int(parser, &column) : status;
    loc.file = (uint32_t)file;
    loc.line = (uint32_t)line;
    loc.column = (uint32_t)column;
    while (ptx_accept(parser, ",", &status)) {
        if (ptx_accept(parser, "function_name", &status)) {
            status = status == GK_OK ? ptx_next(parser) : status;
            if (ptx_accept(parser, "+", &status)) {
                status = ptx_next(parser);
            }
        } else if (ptx_accept(parser, "inlined_at", &status)) {
            status = status == GK_OK ? ptx_take_int(parser, &file) : status;
            status = status == GK_OK ? ptx_take_int(parser, &line) : status;
            status = status == GK_OK ? ptx_take_int(parser, &column) : status;
            loc.outer_file = (uint32_t)file;
            loc.outer_line = (uint32_t)line;
            loc.parent = place_before(module, loc.outer_file, loc.outer_line, (uint32_t)column);
        }
    }
    status = status == GK_OK ? ptx_grow(&module->locs, module->loc_count, &module->loc_capacity,
                                        sizeof(*module->locs), body->err)
                             : status;
    if (status == GK_OK) {
        body->loc = module->loc_count;
        module->locs[module->loc_count++] = loc;
    }
    return status;
}

static enum gk_status take_branch_targets(struct ptx_body *body, char *name)
{
    struct ptx_parser *parser = body->parser;
    struct gk_emu_kernel *kernel = body->kernel;
    struct ptx_symbol symbol = {
        .kind = PTX_SYMBOL_TABLE, .name = name, .offset = kernel->table_count};
    enum gk_status status = ptx_symbol_add(body, symbol);
    uint32_t capacity = 0;
    struct emu_table *table;

    status = status == GK_OK ? ptx_grow(&kernel->tables, kernel->table_count, &body->table_capacity,
                                        sizeof(*kernel->tables), body->err)
                             : status;
    if (status != GK_OK) {
        return status;
    }
    table = &kernel->tables[kernel->table_count++];
    do {
        char *label = NULL;

        status = ptx_take_name(parser, &label);
        status = status == GK_OK ? ptx_grow(&table->targets, table->count, &capacity,
                                            sizeof(*table->targets), body->err)
                                 : status;
        if (status == GK_OK) {
            status = ptx_jump_add(body, label, 0, (int32_t)kernel->table_count - 1,
                                  (int32_t)table->count);
            table->count++;
        }
        free(label);
    } while (ptx_accept(parser, ",", &status));
    return status == GK_OK ? ptx_want(parser, ";") : status;
}

/* ------------------------------------------------------------------ instructions */

#define MODIFIERS_MAX 24

/* Splits "ld.global.v4.u32" in place; "shared::cta" and "L1::no_allocate" keep their colons. */
static uint32_t split_opcode(char *text, char **modifiers)
{
    uint32_t count = 0;

    for (char *at = strchr(text, '.'); at; at = strchr(at, '.')) {
        *at++ = 0;
        if (count < MODIFIERS_MAX) {
            modifiers[count++] = at;
        }
    }
    return count;
}

static enum gk_status take_guard(struct ptx_body *body, struct emu_insn *insn)
{
    struct ptx_parser *parser = body->parser;
    struct ptx_operand operand = {0};
    enum gk_status status = GK_OK;

    insn->guard = -1;
    if (!ptx_accept(parser, "@", &status)) {
        return status;
    }
    status = status == GK_OK ? ptx_operand_parse(body, &operand) : status;
    insn->guard_negated = operand.negated;
    status = status == GK_OK ? ptx_bind_pred(body, &operand, &insn->guard) : status;
    ptx_operand_fini(&operand);
    return status;
}

static enum gk_status push_insn(struct ptx_body *body, const struct emu_insn *insn)
{
    struct gk_emu_kernel *kernel = body->kernel;
    enum gk_status status = ptx_grow(&kernel->code, kernel->code_count, &kernel->code_capacity,
                                     sizeof(*kernel->code), body->err);

    if (status == GK_OK) {
        kernel->code[kernel->code_count++] = *insn;
    }
    return status;
}

static enum gk_status take_operands(struct ptx_body *body, struct ptx_operand *operands,
                                    uint32_t *count)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    while (status == GK_OK && !ptx_accept(parser, ";", &status)) {
        if (ptx_accept(parser, ",", &status)) {
            continue;
        }
        if (*count == PTX_RAW_MAX) {
            return ptx_body_fail(body, GK_UNSUPPORTED, "more than %d operands", PTX_RAW_MAX);
        }
        status = ptx_operand_parse(body, &operands[(*count)++]);
    }
    return status;
}

#define WGMMA_ROWS 64u /* wgmma alone has so many, and four warps share them */

/* Shape of a matrix instruction: a warp's floating-point operations, and m, n, k themselves in
 * imm2, a byte each, for those that need them (wmma has no second address). */
static void take_shape(struct emu_insn *insn, char *const *modifiers, uint32_t count)
{
    unsigned m = 0, n = 0, k = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (sscanf(modifiers[i], "m%un%uk%u", &m, &n, &k) == 3) {
            unsigned rows = m == WGMMA_ROWS ? m / 4 : m;

            insn->work = insn->class == EMU_CLASS_TENSOR ? 2 * rows * n * k : 0;
            insn->imm2 = (int64_t)(m & 255) << 16 | (n & 255) << 8 | (k & 255);
        }
    }
}

/* Whether a conversion from integer to integer has a register that is wider than its type, which
 * PTX allows and the rows of the vector loops do not take. */
static bool is_wide_cvt(struct ptx_body *body, const struct emu_insn *insn, const char *opcode,
                        const struct ptx_operand *operands, uint32_t count)
{
    const uint8_t types[] = {insn->type, insn->type2};
    bool wide = false;

    if (strcmp(opcode, "cvt") != 0 || count != GK_ARRAY_COUNT(types)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = 0;
        const struct ptx_symbol *symbol = operands[i].kind == PTX_OPERAND_WORD
                                              ? ptx_symbol_find(body, operands[i].name, &index)
                                              : NULL;
        bool integer = ptx_type_is_signed(types[i]) || types[i] == PTX_U8 || types[i] == PTX_U16 ||
                       types[i] == PTX_U32 || types[i] == PTX_U64;

        if (!integer) {
            return false;
        }
        wide = wide || (symbol && symbol->kind == PTX_SYMBOL_REGS &&
                        symbol->lane_bytes > ptx_type_bytes(types[i]) && symbol->lane_bytes > 2);
    }
    return wide;
}

static enum gk_status bind_instruction(struct ptx_body *body, struct emu_insn *insn, char *opcode,
                                       struct ptx_operand *operands, uint32_t count)
{
    char *modifiers[MODIFIERS_MAX];
    char whole[200];
    const struct ptx_row *row;
    bool known = false, done = false;
    uint32_t modifier_count;
    enum gk_status status;

    (void)snprintf(whole, sizeof(whole), "%s", opcode);
    modifier_count = split_opcode(opcode, modifiers);
    for (uint32_t i = 0; i < modifier_count; i++) {
        ptx_modifier_apply(insn, opcode, modifiers[i]);
    }
    if (strcmp(opcode, "atom") == 0 || strcmp(opcode, "red") == 0) {
        insn->sem = insn->sem ? insn->sem : PTX_SEM_RELAXED;
    }
    insn->scope = insn->sem && !insn->scope ? EMU_SCOPE_GPU : insn->scope;
    body->opcode = opcode;
    status = ptx_special_decode(body, insn, whole, operands, count, &done);
    if (status != GK_OK || done) {
        return status;
    }
    row = ptx_index_find(body->parser->module->emu->index, opcode, modifiers, modifier_count, count,
                         &known);
    if (!row) {
        return ptx_body_fail(body, GK_UNSUPPORTED,
                             known ? "this form of instruction '%s' is not in the table"
                                   : "instruction '%s' is not in the table",
                             whole);
    }
    if (is_wide_cvt(body, insn, opcode, operands, count)) {
        const struct ptx_row *wide =
            ptx_index_find_wide(body->parser->module->emu->index, modifiers, modifier_count);

        row = wide ? wide : row;
    }
    insn->exec = row->exec;
    insn->class = row->class;
    insn->sub = row->sub;
    take_shape(insn, modifiers, modifier_count);
    return ptx_operands_bind(body, insn, row->operands, operands, count);
}

static enum gk_status take_instruction(struct ptx_body *body)
{
    struct ptx_parser *parser = body->parser;
    struct ptx_operand operands[PTX_RAW_MAX];
    struct emu_insn insn = {
        .loc = body->loc, .line = body->line, .address = -1, .address2 = -1, .address3 = -1};
    uint32_t count = 0;
    char *opcode = NULL;
    enum gk_status status = take_guard(body, &insn);

    memset(operands, 0, sizeof(operands));
    insn.line = body->line = parser->lexer.token.line;
    status = status == GK_OK ? ptx_take_name(parser, &opcode) : status;
    if (status == GK_OK && (strcmp(opcode, "call") == 0 || strcmp(opcode, "call.uni") == 0)) {
        status = ptx_call_decode(body, &insn);
    } else if (status == GK_OK) {
        status = take_operands(body, operands, &count);
        status = status == GK_OK ? bind_instruction(body, &insn, opcode, operands, count) : status;
    }
    if (status == GK_OK) {
        status = push_insn(body, &insn);
    }
    for (uint32_t i = 0; i < count; i++) {
        ptx_operand_fini(&operands[i]);
    }
    free(opcode);
    return status;
}

static enum gk_status take_labelled(struct ptx_body *body)
{
    struct ptx_parser *parser = body->parser;
    struct ptx_lexer probe = parser->lexer;
    char *name = NULL;
    enum gk_status status = ptx_lexer_next(&probe, body->err);

    if (status != GK_OK || !ptx_token_is(&probe.token, ":")) {
        return status == GK_OK ? take_instruction(body) : status;
    }
    status = ptx_take_name(parser, &name);
    status = status == GK_OK ? ptx_next(parser) : status; /* the colon */
    if (status != GK_OK) {
        free(name);
        return status;
    }
    if (ptx_accept(parser, ".branchtargets", &status)) {
        return take_branch_targets(body, name);
    }
    if (ptx_accept(parser, ".callprototype", &status) ||
        ptx_accept(parser, ".calltargets", &status)) {
        while (status == GK_OK && !ptx_accept(parser, ";", &status)) {
            status = ptx_next(parser);
        }
        free(name);
        return status;
    }
    return label_add(body, name);
}

static enum gk_status take_statement(struct ptx_body *body)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    body->line = parser->lexer.token.line;
    if (ptx_accept(parser, ".loc", &status)) {
        return status == GK_OK ? take_loc(body) : status;
    }
    if (ptx_accept(parser, ".reg", &status)) {
        return status == GK_OK ? declare_registers(body) : status;
    }
    if (ptx_accept(parser, ".local", &status)) {
        return status == GK_OK ? declare_memory(body, PTX_SYMBOL_LOCAL) : status;
    }
    if (ptx_accept(parser, ".shared", &status)) {
        return status == GK_OK ? declare_memory(body, PTX_SYMBOL_SHARED) : status;
    }
    if (ptx_accept(parser, ".param", &status)) {
        return status == GK_OK ? declare_memory(body, PTX_SYMBOL_LANE_PARAM) : status;
    }
    if (ptx_accept(parser, ".pragma", &status)) { /* "nounroll" and the like: for ptxas */
        status = status == GK_OK ? ptx_next(parser) : status;
        return status == GK_OK ? ptx_want(parser, ";") : status;
    }
    if (ptx_accept(parser, "{", &status)) {
        return status == GK_OK ? scope_open(body) : status;
    }
    if (ptx_accept(parser, ";", &status)) {
        return status;
    }
    if (ptx_token_is(&parser->lexer.token, "@")) {
        return take_instruction(body);
    }
    if (parser->lexer.token.kind == PTX_TOKEN_WORD && parser->lexer.token.text[0] != '.') {
        return take_labelled(body);
    }
    return status != GK_OK ? status : ptx_unexpected(parser, "a PTX statement");
}

/* ------------------------------------------------------------------ functions and kernels */

enum gk_status ptx_function_reach(struct ptx_body *body, const struct ptx_function *function,
                                  uint32_t *index_out)
{
    uint32_t capacity = body->reached_capacity;
    int64_t *offsets;
    enum gk_status status;

    for (uint32_t i = 0; i < body->reached_count; i++) {
        if (body->reached[i] == function) {
            *index_out = i;
            return GK_OK;
        }
    }
    status =
        ptx_grow(&body->reached, body->reached_count, &capacity, sizeof(*body->reached), body->err);
    status = status == GK_OK
                 ? ptx_grow(&body->param_offsets, body->reached_count, &body->reached_capacity,
                            sizeof(*body->param_offsets), body->err)
                 : status;
    if (status != GK_OK) {
        return status;
    }
    offsets = calloc(function->param_count + 1, sizeof(*offsets));
    if (!offsets) {
        return gk_fail(body->err, GK_NOMEM, "parameters of function %s", function->name);
    }
    for (uint32_t i = 0; !function->entry && i < function->param_count; i++) {
        offsets[i] = ptx_registers_reserve(body, function->params[i].bytes * EMU_LANES);
    }
    if (function->has_ret) {
        offsets[function->param_count] =
            ptx_registers_reserve(body, function->ret.bytes * EMU_LANES);
    }
    body->reached[body->reached_count] = function;
    body->param_offsets[body->reached_count] = offsets;
    *index_out = body->reached_count++;
    return GK_OK;
}

static enum gk_status declare_params(struct ptx_body *body, uint32_t index)
{
    const struct ptx_function *function = body->reached[index];
    struct gk_emu_kernel *kernel = body->kernel;
    enum gk_status status = GK_OK;

    if (function->param_count > GK_EMU_PARAMS_MAX) {
        return gk_fail(body->err, GK_LIMIT,
                       "function %s has %u parameters, at most %d are supported", function->name,
                       function->param_count, GK_EMU_PARAMS_MAX);
    }
    for (uint32_t i = 0; status == GK_OK && i < function->param_count + 1; i++) {
        bool ret = i == function->param_count;
        const struct ptx_param_decl *decl = ret ? &function->ret : &function->params[i];
        struct ptx_symbol symbol = {.kind = PTX_SYMBOL_LANE_PARAM,
                                    .bytes = decl->bytes,
                                    .offset = body->param_offsets[index][i]};

        if (ret && !function->has_ret) {
            break;
        }
        if (function->entry) {
            symbol.kind = PTX_SYMBOL_KERNEL_PARAM;
            symbol.offset = place(&kernel->params_size, decl->bytes, decl->align);
            kernel->params[i] =
                (struct gk_emu_param){(uint32_t)symbol.offset, decl->bytes, decl->align};
            kernel->param_count = i + 1;
        }
        symbol.name = gk_strdup(decl->name);
        status = symbol.name ? ptx_symbol_add(body, symbol)
                             : gk_fail(body->err, GK_NOMEM, "a parameter");
    }
    return status;
}

static enum gk_status decode_function(struct ptx_body *body, uint32_t index)
{
    const struct ptx_function *function = body->reached[index];
    struct ptx_parser *parser = body->parser;
    struct gk_emu_kernel *kernel = body->kernel;
    struct emu_insn end = {.exec = function->entry ? emu_exec_exit : emu_exec_ret,
                           .guard = -1,
                           .class = EMU_CLASS_CONTROL,
                           .address = -1,
                           .address2 = -1};
    enum gk_status status;
    bool closed = false;

    parser->lexer = function->body;
    body->loc = 0;
    kernel->function_entry[index] = kernel->code_count;
    kernel->function_name[index] = gk_strdup(function->name);
    status = scope_open(body); /* number 0: the function's own */
    status = status == GK_OK ? declare_params(body, index) : status;
    status = status == GK_OK ? ptx_next(parser) : status; /* the '{' */
    while (status == GK_OK && !closed) {
        if (ptx_token_is(&parser->lexer.token, "}")) {
            end.line = parser->lexer.token.line;
            closed = body->scope == 0;
            status = ptx_next(parser);
            if (!closed) {
                scope_close(body);
            }
        } else {
            status = take_statement(body);
        }
        if (status == GK_OK && kernel->register_bytes > REGISTER_BYTES_MAX) {
            status = ptx_body_fail(body, GK_LIMIT, "more than %u MB of registers a warp",
                                   REGISTER_BYTES_MAX >> 20);
        }
    }
    end.loc = body->loc;
    status = status == GK_OK ? push_insn(body, &end) : status;
    status = status == GK_OK ? jumps_resolve(body) : status;
    function_state_drop(body);
    return status;
}

static void body_fini(struct ptx_body *body)
{
    function_state_drop(body);
    for (uint32_t i = 0; i < body->reached_count; i++) {
        free(body->param_offsets[i]);
    }
    free(body->reached);
    free(body->param_offsets);
    free(body->symbols);
    free(body->scope_parent);
    free(body->labels);
    free(body->jumps);
    free(body->shared);
    free(body->pool_hash);
}

static enum gk_status decode_reached(struct ptx_body *body, const struct ptx_function *entry)
{
    struct gk_emu_kernel *kernel = body->kernel;
    uint32_t index = 0, functions = body->parser->function_count + 1;
    enum gk_status status;

    kernel->name = gk_strdup(entry->name);
    kernel->function_entry = calloc(functions, sizeof(*kernel->function_entry));
    kernel->function_name = calloc(functions, sizeof(*kernel->function_name));
    body->pool_slots = POOL_SLOTS;
    body->pool_hash = calloc(POOL_SLOTS * 2, sizeof(*body->pool_hash));
    if (!kernel->name || !kernel->function_entry || !kernel->function_name || !body->pool_hash) {
        return gk_fail(body->err, GK_NOMEM, "kernel %s", entry->name);
    }
    memcpy(kernel->maxntid, entry->maxntid, sizeof(kernel->maxntid));
    memcpy(kernel->reqntid, entry->reqntid, sizeof(kernel->reqntid));
    kernel->maxnreg = entry->maxnreg[0];
    kernel->minnctapersm = entry->minnctapersm[0];
    kernel->register_bytes = PTX_SPECIAL_BYTES;
    body->sink = kernel->sink = ptx_registers_reserve(body, 8 * EMU_LANES);
    status = ptx_function_reach(body, entry, &index);
    for (uint32_t i = 0; status == GK_OK && i < body->reached_count; i++) {
        status = decode_function(body, i); /* may reach more */
    }
    kernel->function_count = body->reached_count;
    for (uint32_t i = 0; status == GK_OK && i < kernel->call_count; i++) {
        kernel->calls[i].target = kernel->function_entry[kernel->calls[i].function];
    }
    kernel->register_bytes = (kernel->register_bytes + 63u) & ~63u;
    return status;
}

/* Only products of warpgroups keep their sums in kernel->wide. */
static bool is_wgmma(const struct emu_insn *insn)
{
    return insn->class == EMU_CLASS_TENSOR && insn->is_wide;
}

/* Instructions that name registers of some wgmma are watched when they run. */
static enum gk_status guard_registers(struct gk_emu_kernel *kernel, struct gk_err *err)
{
    unsigned char *used;

    if (!kernel->wide_count) {
        return GK_OK;
    }
    used = calloc(1, kernel->register_bytes / 64 + 1);
    if (!used) {
        return gk_fail(err, GK_NOMEM, "registers of kernel %s", kernel->name);
    }
    for (uint32_t i = 0; i < kernel->wide_count; i++) {
        used[kernel->wide[i] / 64] = 1;
    }
    for (uint32_t i = 0; i < kernel->code_count; i++) {
        struct emu_insn *insn = &kernel->code[i];

        for (unsigned a = 0; is_wgmma(insn) && a < 4; a++) {
            if (insn->op[1] >= 0 && !(insn->op[a] & 1)) {
                used[insn->op[a] / 64] = 1;
            }
        }
    }
    for (uint32_t i = 0; i < kernel->code_count; i++) {
        struct emu_insn *insn = &kernel->code[i];

        for (unsigned o = 0; !is_wgmma(insn) && !insn->inner && o < insn->op_count; o++) {
            if (insn->op[o] >= 0 && !(insn->op[o] & 1) && used[insn->op[o] / 64]) {
                insn->inner = insn->exec;
                insn->exec = emu_exec_guarded;
            }
        }
    }
    free(used);
    return GK_OK;
}

enum gk_status ptx_kernel_decode(struct ptx_parser *parser, const struct ptx_function *entry,
                                 struct gk_emu_kernel **kernel_out)
{
    uint32_t dynamic_base = 0, align, end;
    enum gk_status status;

    for (;;) {
        struct ptx_body body = {.parser = parser,
                                .err = parser->err,
                                .dynamic_align = 16,
                                .dynamic_base = dynamic_base};

        body.kernel = calloc(1, sizeof(*body.kernel));
        if (!body.kernel) {
            return gk_fail(parser->err, GK_NOMEM, "kernel %s", entry->name);
        }
        body.kernel->module = parser->module;
        status = decode_reached(&body, entry);
        align = body.dynamic_align;
        end = (body.kernel->static_smem_bytes + align - 1) / align * align;
        body_fini(&body);
        if (status == GK_OK && (!body.dynamic_used || end == dynamic_base)) {
            body.kernel->static_smem_bytes = end;
            status = guard_registers(body.kernel, parser->err);
            if (status != GK_OK) {
                ptx_kernel_destroy(body.kernel);
                return status;
            }
            *kernel_out = body.kernel;
            return GK_OK;
        }
        ptx_kernel_destroy(body.kernel);
        if (status != GK_OK) {
            return status;
        }
        dynamic_base = end; /* once more, now that the end of the static memory is known */
    }
}

void ptx_kernel_destroy(struct gk_emu_kernel *kernel)
{
    if (!kernel) {
        return;
    }
    for (uint32_t i = 0; i < kernel->call_count; i++) {
        free(kernel->calls[i].in);
    }
    for (uint32_t i = 0; i < kernel->table_count; i++) {
        free(kernel->tables[i].targets);
    }
    for (uint32_t i = 0; kernel->function_name && i < kernel->function_count; i++) {
        free(kernel->function_name[i]);
    }
    free(kernel->function_name);
    free(kernel->function_entry);
    free(kernel->calls);
    free(kernel->tables);
    free(kernel->code);
    free(kernel->pool);
    free(kernel->wide);
    free(kernel->name);
    free(kernel);
}
