/*
 * Operands: parsing them, and binding them to registers, constants and addresses as a row's operand
 * codes ask. Codes are explained in ptx_table.h.
 */
#include "worker/emu/ptx_decode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

static const struct {
    const char *name;
    enum ptx_special special;
} SPECIALS[] = {
    {"%tid.x", PTX_SP_TID_X},
    {"%tid.y", PTX_SP_TID_Y},
    {"%tid.z", PTX_SP_TID_Z},
    {"%ntid.x", PTX_SP_NTID_X},
    {"%ntid.y", PTX_SP_NTID_Y},
    {"%ntid.z", PTX_SP_NTID_Z},
    {"%ctaid.x", PTX_SP_CTAID_X},
    {"%ctaid.y", PTX_SP_CTAID_Y},
    {"%ctaid.z", PTX_SP_CTAID_Z},
    {"%nctaid.x", PTX_SP_NCTAID_X},
    {"%nctaid.y", PTX_SP_NCTAID_Y},
    {"%nctaid.z", PTX_SP_NCTAID_Z},
    {"%laneid", PTX_SP_LANEID},
    {"%warpid", PTX_SP_WARPID},
    {"%nwarpid", PTX_SP_NWARPID},
    {"%smid", PTX_SP_SMID},
    {"%nsmid", PTX_SP_NSMID},
    {"%gridid", PTX_SP_GRIDID},
    {"%lanemask_eq", PTX_SP_LANEMASK_EQ},
    {"%lanemask_le", PTX_SP_LANEMASK_LE},
    {"%lanemask_lt", PTX_SP_LANEMASK_LT},
    {"%lanemask_ge", PTX_SP_LANEMASK_GE},
    {"%lanemask_gt", PTX_SP_LANEMASK_GT},
    {"%dynamic_smem_size", PTX_SP_DYNAMIC_SMEM},
    {"%total_smem_size", PTX_SP_TOTAL_SMEM},
    /* Without clusters each block is a cluster of its own. Clusters lie along x. */
    {"%cluster_ctaid.x", PTX_SP_CLUSTER_RANK},
    {"%cluster_ctaid.y", PTX_SP_ZERO},
    {"%cluster_ctaid.z", PTX_SP_ZERO},
    {"%cluster_ctarank", PTX_SP_CLUSTER_RANK},
    {"%cluster_nctaid.x", PTX_SP_CLUSTER_SIZE},
    {"%cluster_nctaid.y", PTX_SP_ONE},
    {"%cluster_nctaid.z", PTX_SP_ONE},
    {"%cluster_nctarank", PTX_SP_CLUSTER_SIZE},
    {"%clusterid.x", PTX_SP_CLUSTER_ID},
    {"%clusterid.y", PTX_SP_CTAID_Y},
    {"%clusterid.z", PTX_SP_CTAID_Z},
    {"%nclusterid.x", PTX_SP_CLUSTERS},
    {"%nclusterid.y", PTX_SP_NCTAID_Y},
    {"%nclusterid.z", PTX_SP_NCTAID_Z},
};

static const struct {
    const char *name;
    enum ptx_clock clock;
} CLOCKS[] = {
    {"%clock", PTX_CLOCK_LO},
    {"%clock_hi", PTX_CLOCK_HI},
    {"%clock64", PTX_CLOCK_64},
    {"%globaltimer", PTX_GLOBALTIMER},
    {"%globaltimer_lo", PTX_GLOBALTIMER_LO},
    {"%globaltimer_hi", PTX_GLOBALTIMER_HI},
};

/* ------------------------------------------------------------------ parsing */

void ptx_operand_fini(struct ptx_operand *operand)
{
    free(operand->name);
    free(operand->pair);
    for (uint32_t i = 0; operand->elements && i < operand->count; i++) {
        ptx_operand_fini(&operand->elements[i]);
    }
    free(operand->elements);
    *operand = (struct ptx_operand){0};
}

/* Sums of signed integers behind a name: "+ 8", "+-4", "- 4". */
static enum gk_status parse_offset(struct ptx_parser *parser, uint64_t *value)
{
    enum gk_status status = GK_OK;

    while (status == GK_OK) {
        uint64_t part = 0;

        if (ptx_accept(parser, "+", &status)) {
            status = status == GK_OK ? ptx_take_int(parser, &part) : status;
        } else if (ptx_token_is(&parser->lexer.token, "-")) {
            status = ptx_take_int(parser, &part);
        } else {
            break;
        }
        *value += part;
    }
    return status;
}

/* Elements up to the closing brace, into those of `out`. */
static enum gk_status parse_vector(struct ptx_body *body, struct ptx_operand *out)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    out->elements = calloc(PTX_VECTOR_MAX, sizeof(*out->elements));
    if (!out->elements) {
        return gk_fail(body->err, GK_NOMEM, "PTX vector");
    }
    while (status == GK_OK && !ptx_accept(parser, "}", &status)) {
        if (ptx_accept(parser, ",", &status)) {
            continue;
        }
        if (out->count == PTX_VECTOR_MAX) {
            return ptx_body_fail(body, GK_UNSUPPORTED, "a vector of more than %d elements",
                                 PTX_VECTOR_MAX);
        }
        status = ptx_operand_parse(body, &out->elements[out->count++]);
    }
    return status;
}

static enum gk_status parse_address(struct ptx_body *body, struct ptx_operand *out)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    out->kind = PTX_OPERAND_ADDRESS;
    if (parser->lexer.token.kind == PTX_TOKEN_WORD) {
        status = ptx_take_name(parser, &out->name);
    } else {
        status = ptx_take_int(parser, &out->value);
    }
    status = status == GK_OK ? parse_offset(parser, &out->value) : status;
    if (ptx_accept(parser, ",", &status)) { /* coordinates of a tensor */
        status = status == GK_OK ? ptx_want(parser, "{") : status;
        status = status == GK_OK ? parse_vector(body, out) : status;
    }
    return status == GK_OK ? ptx_want(parser, "]") : status;
}

enum gk_status ptx_operand_parse(struct ptx_body *body, struct ptx_operand *out)
{
    struct ptx_parser *parser = body->parser;
    const struct ptx_token *token = &parser->lexer.token;
    enum gk_status status = GK_OK;
    bool negative;

    *out = (struct ptx_operand){0};
    if (ptx_accept(parser, "{", &status)) {
        out->kind = PTX_OPERAND_VECTOR;
        return status == GK_OK ? parse_vector(body, out) : status;
    }
    if (ptx_accept(parser, "[", &status)) {
        return status == GK_OK ? parse_address(body, out) : status;
    }
    out->negated = ptx_accept(parser, "!", &status);
    negative = ptx_accept(parser, "-", &status);
    if (status != GK_OK) {
        return status;
    }
    if (token->kind == PTX_TOKEN_WORD) {
        status = ptx_take_name(parser, &out->name);
        if (ptx_accept(parser, "|", &status)) {
            status = status == GK_OK ? ptx_take_name(parser, &out->pair) : status;
        } else if (status == GK_OK) {
            status = parse_offset(parser, &out->value);
        }
        return status;
    }
    out->value = token->value;
    if (token->kind == PTX_TOKEN_INT) {
        out->kind = PTX_OPERAND_INT;
        out->value = negative ? 0 - out->value : out->value;
    } else if (token->kind == PTX_TOKEN_F32 || token->kind == PTX_TOKEN_F64) {
        out->kind = token->kind == PTX_TOKEN_F32 ? PTX_OPERAND_F32 : PTX_OPERAND_F64;
        out->value ^= negative ? (token->kind == PTX_TOKEN_F32 ? 1ull << 31 : 1ull << 63) : 0;
    } else {
        return ptx_unexpected(parser, "an operand");
    }
    return ptx_next(parser);
}

/* ------------------------------------------------------------------ registers and constants */

int32_t ptx_registers_reserve(struct ptx_body *body, uint32_t bytes)
{
    uint32_t offset = (body->kernel->register_bytes + 63u) & ~63u;

    body->kernel->register_bytes = offset + bytes;
    return (int32_t)offset;
}

static int32_t register_offset(struct ptx_body *body, struct ptx_symbol *symbol, uint32_t index)
{
    int32_t *offset = &symbol->offsets[index];

    if (*offset < 0 && symbol->lane_bytes) {
        *offset = ptx_registers_reserve(body, symbol->lane_bytes * EMU_LANES);
    } else if (*offset < 0) {
        *offset = (int32_t)body->kernel->register_bytes; /* always a multiple of 4 */
        body->kernel->register_bytes += 4;
    }
    return *offset;
}

static uint64_t mix(uint64_t bits, uint32_t lane_bytes)
{
    bits = (bits ^ (uint64_t)lane_bytes << 56) * 0x9e3779b97f4a7c15ull;
    return bits ^ bits >> 29;
}

static void pool_fill(unsigned char *at, uint64_t bits, uint32_t lane_bytes)
{
    for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
        memcpy(at + lane * lane_bytes, &bits, lane_bytes);
    }
}

static enum gk_status pool_room(struct ptx_body *body, uint32_t bytes)
{
    struct gk_emu_kernel *kernel = body->kernel;

    if (kernel->pool_bytes + bytes > kernel->pool_capacity) {
        uint32_t capacity = kernel->pool_capacity ? kernel->pool_capacity * 2 : 16384;
        unsigned char *grown = aligned_alloc(64, capacity);

        if (!grown) {
            return gk_fail(body->err, GK_NOMEM, "constants of a kernel");
        }
        if (kernel->pool) {
            memcpy(grown, kernel->pool, kernel->pool_bytes);
        }
        free(kernel->pool);
        kernel->pool = grown;
        kernel->pool_capacity = capacity;
    }
    return GK_OK;
}

enum gk_status ptx_pool_add(struct ptx_body *body, uint64_t bits, uint32_t lane_bytes,
                            int32_t *offset_out)
{
    struct gk_emu_kernel *kernel = body->kernel;
    uint32_t bytes = lane_bytes * EMU_LANES, at;
    enum gk_status status;

    bits = lane_bytes == 8 ? bits : bits & ((1ull << lane_bytes * 8) - 1);
    at = (uint32_t)mix(bits, lane_bytes) & (body->pool_slots - 1);
    while (body->pool_hash[at * 2]) {
        uint32_t offset = body->pool_hash[at * 2] - 1;
        uint64_t held = 0;

        memcpy(&held, kernel->pool + offset, lane_bytes);
        if (body->pool_hash[at * 2 + 1] == lane_bytes && held == bits) {
            *offset_out = (int32_t)(offset | 1u);
            return GK_OK;
        }
        at = (at + 1) & (body->pool_slots - 1);
    }
    status = pool_room(body, bytes);
    if (status != GK_OK) {
        return status;
    }
    pool_fill(kernel->pool + kernel->pool_bytes, bits, lane_bytes);
    /* A full hash would loop for ever: beyond three quarters constants are simply not shared. */
    if (kernel->pool_bytes / 64 < body->pool_slots / 4 * 3) {
        body->pool_hash[at * 2] = kernel->pool_bytes + 1;
        body->pool_hash[at * 2 + 1] = lane_bytes;
    }
    *offset_out = (int32_t)(kernel->pool_bytes | 1u);
    kernel->pool_bytes += bytes;
    return GK_OK;
}

/* ------------------------------------------------------------------ binding */

static enum gk_status special_offset(struct ptx_body *body, struct emu_insn *insn, const char *name,
                                     int32_t *offset_out, uint32_t *width_out)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(SPECIALS); i++) {
        if (strcmp(SPECIALS[i].name, name) == 0) {
            *offset_out = (int32_t)SPECIALS[i].special * EMU_LANES * 4;
            *width_out = 4;
            return GK_OK;
        }
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(CLOCKS); i++) {
        if (strcmp(CLOCKS[i].name, name) == 0 && strcmp(body->opcode, "mov") == 0) {
            bool wide = CLOCKS[i].clock == PTX_CLOCK_64 || CLOCKS[i].clock == PTX_GLOBALTIMER;

            insn->exec = emu_exec_clock;
            insn->sub = (uint8_t)CLOCKS[i].clock;
            *width_out = wide ? 8 : 4;
            return ptx_pool_add(body, 0, *width_out, offset_out);
        }
    }
    return ptx_body_fail(body, GK_UNSUPPORTED, "special register or name '%s'", name);
}

/* Where a variable stands in its own state space. */
static enum gk_status variable_address(struct ptx_body *body, const struct ptx_variable *variable,
                                       uint64_t *value_out)
{
    struct gk_emu_kernel *kernel = body->kernel;
    enum gk_status status;
    uint32_t align = variable->align ? variable->align : 1, offset;

    if (variable->space != EMU_SHARED) {
        *value_out = variable->alloc->address;
        return GK_OK;
    }
    if (variable->external) {
        /* The dynamic memory begins behind all static variables, which are known only when the
         * whole kernel was read: ptx_kernel_decode then reads it a second time. */
        body->dynamic_align = align > body->dynamic_align ? align : body->dynamic_align;
        body->dynamic_used = true;
        *value_out = body->dynamic_base;
        return GK_OK;
    }
    for (uint32_t i = 0; i < body->shared_count; i++) {
        if (body->shared[i].variable == variable) {
            *value_out = body->shared[i].offset;
            return GK_OK;
        }
    }
    status = ptx_grow(&body->shared, body->shared_count, &body->shared_capacity,
                      sizeof(*body->shared), body->err);
    if (status == GK_OK) {
        offset = (kernel->static_smem_bytes + align - 1) / align * align;
        body->shared[body->shared_count++] = (struct ptx_shared){variable, offset};
        kernel->static_smem_bytes = offset + (uint32_t)variable->bytes;
        *value_out = offset;
    }
    return status;
}

/* Value of a name that is not a register: the address of a variable. found_out false: no such. */
static enum gk_status name_value(struct ptx_body *body, const char *name, uint64_t *value_out,
                                 uint8_t *space_out, bool *found_out)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol = ptx_symbol_find(body, name, &index);
    const struct ptx_variable *variable;

    *found_out = true;
    if (symbol && symbol->kind != PTX_SYMBOL_REGS) {
        *value_out = (uint64_t)symbol->offset;
        *space_out = symbol->kind == PTX_SYMBOL_SHARED         ? EMU_SHARED
                     : symbol->kind == PTX_SYMBOL_LOCAL        ? EMU_LOCAL
                     : symbol->kind == PTX_SYMBOL_KERNEL_PARAM ? EMU_PARAM
                                                               : EMU_PARAM_LOCAL;
        return GK_OK;
    }
    variable = symbol ? NULL : ptx_variable_find(body->parser, name);
    if (variable) {
        *space_out = (uint8_t)variable->space;
        return variable_address(body, variable, value_out);
    }
    if (strcmp(name, "WARP_SZ") == 0) {
        *value_out = EMU_LANES;
        *space_out = EMU_GENERIC;
        return GK_OK;
    }
    *found_out = false;
    return GK_OK;
}

static uint64_t literal_bits(const struct ptx_operand *operand, uint32_t lane_bytes, uint8_t type)
{
    if (operand->kind == PTX_OPERAND_F64 && lane_bytes == 4) {
        double wide;
        float narrow;
        uint32_t bits;

        memcpy(&wide, &operand->value, sizeof(wide));
        narrow = (float)wide;
        memcpy(&bits, &narrow, sizeof(bits));
        return bits;
    }
    if (operand->kind == PTX_OPERAND_F32 && lane_bytes == 8 && type == PTX_F64) {
        uint32_t bits = (uint32_t)operand->value;
        float narrow;
        double wide;
        uint64_t out;

        memcpy(&narrow, &bits, sizeof(narrow));
        wide = (double)narrow;
        memcpy(&out, &wide, sizeof(out));
        return out;
    }
    return operand->value;
}

enum gk_status ptx_bind_source(struct ptx_body *body, struct emu_insn *insn,
                               const struct ptx_operand *operand, uint32_t lane_bytes, uint8_t type,
                               int32_t *offset_out, uint32_t *width_out)
{
    uint32_t literal = lane_bytes, index = 0;
    struct ptx_symbol *symbol;
    uint64_t value = 0;
    uint8_t space = 0;
    bool found = false;
    enum gk_status status;

    if (!literal) {
        literal = ptx_type_bytes(type) < 2 ? 2 : ptx_type_bytes(type);
    }
    if (operand->kind == PTX_OPERAND_INT || operand->kind == PTX_OPERAND_F32 ||
        operand->kind == PTX_OPERAND_F64) {
        *width_out = literal;
        return ptx_pool_add(body, literal_bits(operand, literal, type), literal, offset_out);
    }
    if (operand->kind != PTX_OPERAND_WORD || operand->negated || operand->pair) {
        return ptx_body_fail(body, GK_PARSE, "a register or constant is expected");
    }
    symbol = ptx_symbol_find(body, operand->name, &index);
    if (symbol && symbol->kind == PTX_SYMBOL_REGS) {
        *width_out = symbol->lane_bytes;
        *offset_out = register_offset(body, symbol, index);
        if (!symbol->lane_bytes || (lane_bytes && symbol->lane_bytes != lane_bytes)) {
            return ptx_body_fail(body, GK_PARSE, "register '%s' has %u bits, %u are expected",
                                 operand->name, symbol->lane_bytes * 8u, lane_bytes * 8u);
        }
        return GK_OK;
    }
    status = name_value(body, operand->name, &value, &space, &found);
    if (status != GK_OK) {
        return status;
    }
    if (found) {
        if (space == EMU_PARAM_LOCAL) {
            return ptx_body_fail(body, GK_UNSUPPORTED,
                                 "the address of parameter '%s' of a device "
                                 "function",
                                 operand->name);
        }
        *width_out = literal;
        return ptx_pool_add(body, value + operand->value, literal, offset_out);
    }
    status = special_offset(body, insn, operand->name, offset_out, width_out);
    if (status == GK_OK && lane_bytes && *width_out != lane_bytes) {
        return ptx_body_fail(body, GK_PARSE, "special register '%s' has %u bits, %u are expected",
                             operand->name, *width_out * 8u, lane_bytes * 8u);
    }
    return status;
}

enum gk_status ptx_bind_dest(struct ptx_body *body, const struct ptx_operand *operand,
                             uint32_t lane_bytes, int32_t *offset_out, uint32_t *width_out)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol;

    if (operand->kind != PTX_OPERAND_WORD || operand->negated || operand->value) {
        return ptx_body_fail(body, GK_PARSE, "a destination register is expected");
    }
    if (strcmp(operand->name, "_") == 0) {
        *offset_out = body->sink;
        *width_out = lane_bytes;
        return GK_OK;
    }
    symbol = ptx_symbol_find(body, operand->name, &index);
    if (!symbol || symbol->kind != PTX_SYMBOL_REGS) {
        return ptx_body_fail(body, GK_PARSE, "'%s' is not a register", operand->name);
    }
    if (!symbol->lane_bytes || (lane_bytes && symbol->lane_bytes != lane_bytes)) {
        return ptx_body_fail(body, GK_PARSE, "register '%s' has %u bits, %u are expected",
                             operand->name, symbol->lane_bytes * 8u, lane_bytes * 8u);
    }
    *offset_out = register_offset(body, symbol, index);
    *width_out = symbol->lane_bytes;
    return GK_OK;
}

static enum gk_status bind_pred_name(struct ptx_body *body, const char *name, int32_t *offset_out)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol;

    if (strcmp(name, "_") == 0) {
        *offset_out = body->sink;
        return GK_OK;
    }
    symbol = ptx_symbol_find(body, name, &index);
    if (!symbol || symbol->kind != PTX_SYMBOL_REGS || symbol->lane_bytes) {
        return ptx_body_fail(body, GK_PARSE, "'%s' is not a predicate register", name);
    }
    *offset_out = register_offset(body, symbol, index);
    return GK_OK;
}

enum gk_status ptx_bind_pred(struct ptx_body *body, const struct ptx_operand *operand,
                             int32_t *offset_out)
{
    if (operand->kind == PTX_OPERAND_INT) {
        return ptx_pool_add(body, operand->value ? EMU_FULL : 0, 4, offset_out);
    }
    if (operand->kind != PTX_OPERAND_WORD) {
        return ptx_body_fail(body, GK_PARSE, "a predicate is expected");
    }
    return bind_pred_name(body, operand->name, offset_out);
}

static uint32_t code_width(const struct emu_insn *insn, char code)
{
    uint32_t bytes = ptx_type_bytes(insn->type);

    switch (code) {
    case 'u':
        bytes = ptx_type_bytes(insn->type2);
        break;
    case 'v':
        bytes = ptx_type_bytes(insn->type3);
        break;
    case '2':
        bytes *= 2;
        break;
    case 'h':
        return 2;
    case 'w':
        return 4;
    case 'd':
        return 8;
    case 'r':
    case 'x':
        return 0;
    default:
        break;
    }
    return bytes < 2 ? 2 : bytes;
}

static enum gk_status push(struct ptx_body *body, struct emu_insn *insn, int32_t offset,
                           uint32_t width)
{
    if (insn->op_count == EMU_OPERANDS_MAX) {
        return ptx_body_fail(body, GK_INTERNAL, "more than %d operands", EMU_OPERANDS_MAX);
    }
    if (insn->op_count < 4) {
        insn->width[insn->op_count] = (uint8_t)width;
    }
    insn->op[insn->op_count++] = offset;
    return GK_OK;
}

static enum gk_status bind_register(struct ptx_body *body, struct emu_insn *insn, bool dest,
                                    const struct ptx_operand *operand, char code)
{
    uint32_t width = code_width(insn, code), bytes = ptx_type_bytes(insn->type);
    int32_t offset = -1;
    enum gk_status status =
        dest ? ptx_bind_dest(body, operand, width, &offset, &width)
             : ptx_bind_source(body, insn, operand, width, code == 'u' ? insn->type2 : insn->type,
                               &offset, &width);

    if (!dest && insn->type2) {
        bytes = ptx_type_bytes(insn->type2); /* cvt */
    }
    if (status == GK_OK && code == 'r' && dest && offset == body->sink && !width) {
        width = bytes < 2 ? 2 : bytes;
    }
    if (status == GK_OK && code == 'r' && width < bytes) {
        return ptx_body_fail(body, GK_PARSE, "register '%s' has %u bits, the type has %u",
                             operand->name ? operand->name : "", width * 8u, bytes * 8u);
    }
    body->last_width = width;
    return status == GK_OK ? push(body, insn, offset, width) : status;
}

static enum gk_status bind_vector(struct ptx_body *body, struct emu_insn *insn, bool dest,
                                  const struct ptx_operand *operand, uint32_t count, char code)
{
    enum gk_status status = GK_OK;
    uint32_t width = 0;

    if (operand->kind != PTX_OPERAND_VECTOR) {
        return count == 1
                   ? bind_register(body, insn, dest, operand, code)
                   : ptx_body_fail(body, GK_PARSE, "{} with %u registers is expected", count);
    }
    if (operand->count != count) {
        return ptx_body_fail(body, GK_PARSE, "{} holds %u registers, %u are expected",
                             operand->count, count);
    }
    for (uint32_t i = 0; status == GK_OK && i < count; i++) {
        status = bind_register(body, insn, dest, &operand->elements[i], code);
        width = i ? width : body->last_width;
        if (status == GK_OK && body->last_width != width) {
            return ptx_body_fail(body, GK_UNSUPPORTED, "registers of two widths in one vector");
        }
    }
    return status;
}

static enum gk_status bind_address(struct ptx_body *body, struct emu_insn *insn,
                                   const struct ptx_operand *operand)
{
    bool second = insn->address >= 0, third = insn->address2 >= 0, found = false;
    uint32_t width = 8, index = 0;
    int32_t offset = -1;
    uint64_t value = 0;
    uint8_t space = EMU_GENERIC;
    struct ptx_symbol *symbol;
    enum gk_status status;

    if (operand->kind != PTX_OPERAND_ADDRESS) {
        return ptx_body_fail(body, GK_PARSE, "an address in brackets is expected");
    }
    symbol = operand->name ? ptx_symbol_find(body, operand->name, &index) : NULL;
    if (symbol && symbol->kind == PTX_SYMBOL_REGS) {
        offset = register_offset(body, symbol, index);
        width = symbol->lane_bytes;
        if (width != 4 && width != 8) {
            return ptx_body_fail(body, GK_PARSE, "address register '%s' has %u bits", operand->name,
                                 width * 8u);
        }
        status = GK_OK;
    } else {
        status = operand->name ? name_value(body, operand->name, &value, &space, &found) : GK_OK;
        if (status == GK_OK && operand->name && !found) {
            return ptx_body_fail(body, GK_PARSE, "nothing named '%s' is known", operand->name);
        }
        status = status == GK_OK ? ptx_pool_add(body, 0, 8, &offset) : status;
        if (status == GK_OK && space == EMU_PARAM_LOCAL) {
            insn->space = EMU_PARAM_LOCAL;
            insn->imm2 = symbol->bytes;
            if (operand->value > symbol->bytes ||
                symbol->bytes - operand->value <
                    ptx_type_bytes(insn->type) * (insn->vec ? insn->vec : 1u)) {
                return ptx_body_fail(body, GK_PARSE, "offset %llu is outside parameter '%s'",
                                     (unsigned long long)operand->value, operand->name);
            }
        }
        /* A name without a state space in the opcode is a generic address. */
        if (insn->space == EMU_GENERIC && space == EMU_SHARED) {
            value += EMU_SHARED_BASE;
        } else if (insn->space == EMU_GENERIC && space == EMU_LOCAL) {
            value += EMU_LOCAL_BASE;
        }
    }
    if (status == GK_OK && third) {
        insn->address3 = insn->op_count;
        insn->address3_width = (uint8_t)width;
        insn->imm3 = (int64_t)(value + operand->value);
    } else if (status == GK_OK && second) {
        insn->address2 = insn->op_count;
        insn->address2_width = (uint8_t)width;
        insn->imm2 = (int64_t)(value + operand->value);
    } else if (status == GK_OK) {
        insn->address = insn->op_count;
        insn->address_width = (uint8_t)width;
        insn->imm = (int64_t)(value + operand->value);
    }
    return status == GK_OK ? push(body, insn, offset, width) : status;
}

static enum gk_status bind_predicates(struct ptx_body *body, struct emu_insn *insn, char code,
                                      const struct ptx_operand *operand)
{
    int32_t offset = -1;
    enum gk_status status = GK_OK;

    if (code == 'G') {
        status = ptx_bind_pred(body, operand, &offset);
        insn->sub = (uint8_t)(insn->sub | (operand->negated ? PTX_SUB_NEGATED : 0));
        return status == GK_OK ? push(body, insn, offset, 0) : status;
    }
    if (operand->kind != PTX_OPERAND_WORD || operand->negated) {
        return ptx_body_fail(body, GK_PARSE, "a destination predicate is expected");
    }
    status = bind_pred_name(body, operand->name, &offset);
    status = status == GK_OK ? push(body, insn, offset, 0) : status;
    if (status == GK_OK && code == 'Q') {
        offset = body->sink;
        status = operand->pair ? bind_pred_name(body, operand->pair, &offset) : GK_OK;
        status = status == GK_OK ? push(body, insn, offset, 0) : status;
    }
    return status;
}

/* D with an optional "|p" behind it (shfl, match.all): the predicate is pushed as well. */
static enum gk_status bind_dest_pair(struct ptx_body *body, struct emu_insn *insn,
                                     const struct ptx_operand *operand, char code)
{
    struct ptx_operand plain = *operand;
    int32_t offset = body->sink;
    enum gk_status status;

    plain.pair = NULL;
    status = bind_register(body, insn, true, &plain, code);
    if (status == GK_OK && operand->pair) {
        status = bind_pred_name(body, operand->pair, &offset);
    }
    return status == GK_OK ? push(body, insn, offset, 0) : status;
}

/* cp.async: a 32-bit source size (sub bit 0), a predicate "ignore the source" (sub bit 1), or, when
 * neither is given, already the cache policy. */
static enum gk_status bind_size_or_predicate(struct ptx_body *body, struct emu_insn *insn,
                                             const struct ptx_operand *operand)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol =
        operand->kind == PTX_OPERAND_WORD ? ptx_symbol_find(body, operand->name, &index) : NULL;

    if (symbol && symbol->kind == PTX_SYMBOL_REGS && symbol->lane_bytes == 0) {
        insn->sub |= 2;
        return bind_predicates(body, insn, 'G', operand);
    }
    if (symbol && symbol->kind == PTX_SYMBOL_REGS && symbol->lane_bytes == 8) {
        return push(body, insn, -1, 0);
    }
    insn->sub |= 1;
    return bind_register(body, insn, false, operand, 'w');
}

static enum gk_status bind_tensor(struct ptx_body *body, struct emu_insn *insn,
                                  const struct ptx_operand *operand)
{
    enum gk_status status = bind_address(body, insn, operand);

    if (status == GK_OK && (operand->count < 1 || operand->count > 5)) {
        return ptx_body_fail(body, GK_PARSE,
                             "a tensor address with 1 to 5 coordinates is expected");
    }
    insn->vec = (uint8_t)operand->count;
    for (uint32_t i = 0; status == GK_OK && i < operand->count; i++) {
        status = bind_register(body, insn, false, &operand->elements[i], 'w');
    }
    return status;
}

static enum gk_status bind_wide(struct ptx_body *body, struct emu_insn *insn,
                                const struct ptx_operand *operand)
{
    struct gk_emu_kernel *kernel = body->kernel;
    enum gk_status status = GK_OK;
    uint32_t width = 4;

    if (operand->kind != PTX_OPERAND_VECTOR) {
        return ptx_body_fail(body, GK_PARSE, "{} with registers is expected");
    }
    insn->is_wide = true;
    insn->imm = kernel->wide_count;
    insn->vec = (uint8_t)operand->count;
    for (uint32_t i = 0; status == GK_OK && i < operand->count; i++) {
        status = ptx_grow(&kernel->wide, kernel->wide_count, &kernel->wide_capacity,
                          sizeof(*kernel->wide), body->err);
        status = status == GK_OK ? ptx_bind_dest(body, &operand->elements[i], 4,
                                                 &kernel->wide[kernel->wide_count], &width)
                                 : status;
        kernel->wide_count += status == GK_OK;
    }
    return status;
}

static enum gk_status bind_a(struct ptx_body *body, struct emu_insn *insn,
                             const struct ptx_operand *operand)
{
    enum gk_status status;

    if (operand->kind == PTX_OPERAND_VECTOR) {
        return bind_vector(body, insn, false, operand, 4, 'w');
    }
    status = bind_register(body, insn, false, operand, 'd');
    for (unsigned i = 0; status == GK_OK && i < 3; i++) {
        status = push(body, insn, -1, 0);
    }
    return status;
}

static enum gk_status bind_one(struct ptx_body *body, struct emu_insn *insn, const char *code,
                               const struct ptx_operand *operand)
{
    switch (code[0]) {
    case 'D':
        return bind_register(body, insn, true, operand, code[1]);
    case 'S':
        return bind_register(body, insn, false, operand, code[1]);
    case 'R':
        return bind_dest_pair(body, insn, operand, code[1]);
    case 'P':
    case 'Q':
    case 'G':
        return bind_predicates(body, insn, code[0], operand);
    case 'A':
        return bind_address(body, insn, operand);
    case 'V':
    case 'W':
        return bind_vector(body, insn, code[0] == 'V', operand, insn->vec ? insn->vec : 1, code[1]);
    case 'M':
    case 'N':
        return bind_vector(body, insn, code[0] == 'M', operand, (uint32_t)(code[1] - '0'), code[2]);
    case 'T':
        return bind_tensor(body, insn, operand);
    case 'Z':
        return bind_wide(body, insn, operand);
    case 'E':
        return bind_a(body, insn, operand);
    case 'I':
        if (operand->kind != PTX_OPERAND_INT) {
            return ptx_body_fail(body, GK_PARSE, "a constant integer is expected");
        }
        insn->imm = (int64_t)operand->value;
        return GK_OK;
    case 'C':
        if (operand->kind != PTX_OPERAND_INT || operand->value > 255) {
            return ptx_body_fail(body, GK_PARSE, "a constant integer up to 255 is expected");
        }
        insn->vec = (uint8_t)operand->value;
        return GK_OK;
    case 'X':
        return bind_size_or_predicate(body, insn, operand);
    default:
        return ptx_body_fail(body, GK_INTERNAL, "operand code '%s' of the table", code);
    }
}

enum gk_status ptx_operands_bind(struct ptx_body *body, struct emu_insn *insn, const char *codes,
                                 struct ptx_operand *operands, uint32_t count)
{
    enum gk_status status = GK_OK;
    uint32_t next = 0;

    while (status == GK_OK && *codes) {
        size_t size = strcspn(codes, " ");
        bool optional = codes[size - 1] == '?';

        if (next < count) {
            status = bind_one(body, insn, codes, &operands[next++]);
        } else if (optional) {
            status = push(body, insn, -1, 0);
        } else {
            status = ptx_body_fail(body, GK_PARSE, "only %u operands, more are expected", count);
        }
        codes += size;
        codes += strspn(codes, " ");
    }
    if (status == GK_OK && next < count) {
        status = ptx_body_fail(body, GK_PARSE, "%u operands, only %u are expected", count, next);
    }
    return status;
}
