/*
 * Instructions that a pattern cannot describe: moves that pack and unpack, branches to labels, and
 * calls.
 */
#include "worker/emu/ptx_decode.h"

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"

static enum gk_status decode_pack(struct ptx_body *body, struct emu_insn *insn,
                                  const struct ptx_operand *wide, const struct ptx_operand *parts,
                                  bool pack)
{
    uint32_t bytes = ptx_type_bytes(insn->type), width = 0;
    int32_t offset = -1;
    enum gk_status status;

    if (parts->count < 2 || bytes % parts->count || bytes / parts->count < 2) {
        return ptx_body_fail(body, GK_UNSUPPORTED, "a move of %u parts to or from %u bits",
                             parts->count, bytes * 8);
    }
    insn->vec = (uint8_t)parts->count;
    insn->sub = (uint8_t)bytes;
    insn->exec = pack ? emu_exec_pack : emu_exec_unpack;
    insn->class = EMU_CLASS_INT;
    status = pack ? ptx_bind_dest(body, wide, bytes, &offset, &width)
                  : ptx_bind_source(body, insn, wide, bytes, insn->type, &offset, &width);
    insn->op[insn->op_count++] = offset;
    for (uint32_t i = 0; status == GK_OK && i < parts->count; i++) {
        uint32_t part = bytes / parts->count;

        status =
            pack ? ptx_bind_source(body, insn, &parts->elements[i], part, PTX_B16, &offset, &width)
                 : ptx_bind_dest(body, &parts->elements[i], part, &offset, &width);
        insn->op[insn->op_count++] = offset;
    }
    return status;
}

static enum gk_status decode_mov(struct ptx_body *body, struct emu_insn *insn,
                                 struct ptx_operand *operands, uint32_t count)
{
    uint32_t bytes = ptx_type_bytes(insn->type);

    if (count != 2) {
        return ptx_body_fail(body, GK_PARSE, "mov with %u operands", count);
    }
    if (operands[0].kind == PTX_OPERAND_VECTOR || operands[1].kind == PTX_OPERAND_VECTOR) {
        bool pack = operands[1].kind == PTX_OPERAND_VECTOR;

        return decode_pack(body, insn, &operands[pack ? 0 : 1], &operands[pack ? 1 : 0], pack);
    }
    insn->class = EMU_CLASS_INT;
    if (insn->type == PTX_PRED) {
        insn->exec = emu_exec_mov_pred;
        return ptx_operands_bind(body, insn, "P G", operands, count);
    }
    insn->exec = bytes == 2 ? emu_exec_mov_16 : bytes == 4 ? emu_exec_mov_32 : emu_exec_mov_64;
    return ptx_operands_bind(body, insn, "Dt St", operands, count);
}

static enum gk_status decode_brx(struct ptx_body *body, struct emu_insn *insn,
                                 struct ptx_operand *operands, uint32_t count)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol =
        count == 2 && operands[1].name ? ptx_symbol_find(body, operands[1].name, &index) : NULL;

    if (!symbol || symbol->kind != PTX_SYMBOL_TABLE) {
        return ptx_body_fail(body, GK_PARSE, "brx.idx needs an index and a .branchtargets list");
    }
    insn->exec = emu_exec_brx;
    insn->class = EMU_CLASS_CONTROL;
    insn->imm = symbol->offset;
    return ptx_operands_bind(body, insn, "Sw", operands, 1);
}

enum gk_status ptx_special_decode(struct ptx_body *body, struct emu_insn *insn, const char *opcode,
                                  struct ptx_operand *operands, uint32_t count, bool *done_out)
{
    *done_out = true;
    if (strncmp(opcode, "mov.", 4) == 0 && insn->type && !strchr(opcode + 4, '.')) {
        return decode_mov(body, insn, operands, count);
    }
    if (strcmp(opcode, "bra") == 0 || strcmp(opcode, "bra.uni") == 0) {
        if (count != 1 || operands[0].kind != PTX_OPERAND_WORD) {
            return ptx_body_fail(body, GK_PARSE, "bra needs a label");
        }
        insn->exec = emu_exec_bra;
        insn->class = EMU_CLASS_CONTROL;
        return ptx_jump_add(body, operands[0].name, body->kernel->code_count, -1, -1);
    }
    if (strcmp(opcode, "brx.idx") == 0 || strcmp(opcode, "brx.idx.uni") == 0) {
        return decode_brx(body, insn, operands, count);
    }
    *done_out = false;
    return GK_OK;
}

/* ------------------------------------------------------------------ calls */

struct call_text {
    char *ret, *function;
    char *args[GK_EMU_PARAMS_MAX];
    uint32_t arg_count;
};

static void call_text_fini(struct call_text *text)
{
    free(text->ret);
    free(text->function);
    for (uint32_t i = 0; i < text->arg_count; i++) {
        free(text->args[i]);
    }
}

static enum gk_status parse_arguments(struct ptx_body *body, struct call_text *text)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    while (status == GK_OK && !ptx_accept(parser, ")", &status)) {
        if (ptx_accept(parser, ",", &status)) {
            continue;
        }
        if (text->arg_count == GK_EMU_PARAMS_MAX) {
            return ptx_body_fail(body, GK_LIMIT, "more than %d arguments", GK_EMU_PARAMS_MAX);
        }
        status = ptx_take_name(parser, &text->args[text->arg_count]);
        text->arg_count += status == GK_OK;
    }
    return status;
}

/* (ret), function, (args); each part in brackets may be absent. */
static enum gk_status parse_call(struct ptx_body *body, struct call_text *text)
{
    struct ptx_parser *parser = body->parser;
    enum gk_status status = GK_OK;

    if (ptx_accept(parser, "(", &status)) {
        status = status == GK_OK ? ptx_take_name(parser, &text->ret) : status;
        status = status == GK_OK ? ptx_want(parser, ")") : status;
        status = status == GK_OK ? ptx_want(parser, ",") : status;
    }
    status = status == GK_OK ? ptx_take_name(parser, &text->function) : status;
    if (status == GK_OK && text->function[0] == '%') {
        return ptx_body_fail(body, GK_UNSUPPORTED, "calls through a function pointer");
    }
    if (ptx_accept(parser, ",", &status) && ptx_accept(parser, "(", &status)) {
        status = status == GK_OK ? parse_arguments(body, text) : status;
    }
    return status == GK_OK ? ptx_want(parser, ";") : status;
}

static enum gk_status lane_param(struct ptx_body *body, const char *name, uint32_t bytes,
                                 int32_t *offset_out)
{
    uint32_t index = 0;
    struct ptx_symbol *symbol = ptx_symbol_find(body, name, &index);

    if (!symbol || symbol->kind != PTX_SYMBOL_LANE_PARAM) {
        return ptx_body_fail(body, GK_UNSUPPORTED, "'%s' is not a .param variable", name);
    }
    if (bytes && symbol->bytes != bytes) {
        return ptx_body_fail(body, GK_PARSE, "'%s' has %u bytes, the function's parameter has %u",
                             name, symbol->bytes, bytes);
    }
    *offset_out = (int32_t)symbol->offset;
    return GK_OK;
}

static enum gk_status fill_call(struct ptx_body *body, const struct call_text *text,
                                const struct ptx_function *function, struct emu_call *call)
{
    enum gk_status status = ptx_function_reach(body, function, &call->function);

    if (status == GK_OK && text->arg_count != function->param_count) {
        status = ptx_body_fail(body, GK_PARSE, "function '%s' takes %u arguments, %u are given",
                               function->name, function->param_count, text->arg_count);
    }
    if (status == GK_OK && (text->ret != NULL) != function->has_ret) {
        status = ptx_body_fail(body, GK_PARSE,
                               "function '%s': the call and the function disagree "
                               "about a return value",
                               function->name);
    }
    if (status != GK_OK) {
        return status;
    }
    call->in = calloc(text->arg_count + 1, sizeof(*call->in));
    if (!call->in) {
        return gk_fail(body->err, GK_NOMEM, "arguments of a call");
    }
    call->in_count = text->arg_count;
    for (uint32_t i = 0; status == GK_OK && i < text->arg_count; i++) {
        call->in[i].bytes = function->params[i].bytes;
        call->in[i].to = (int32_t)body->param_offsets[call->function][i];
        status = lane_param(body, text->args[i], call->in[i].bytes, &call->in[i].from);
    }
    if (status == GK_OK && function->has_ret) {
        call->has_out = true;
        call->out.bytes = function->ret.bytes;
        call->out.from = (int32_t)body->param_offsets[call->function][function->param_count];
        status = lane_param(body, text->ret, call->out.bytes, &call->out.to);
    }
    return status;
}

/* What the compiler calls and the device's own library would hold. */
static enum gk_status decode_builtin(struct ptx_body *body, struct emu_insn *insn,
                                     const struct call_text *text)
{
    enum gk_status status = GK_OK;

    if (strcmp(text->function, "vprintf") == 0 && text->arg_count == 2 && text->ret) {
        insn->exec = emu_exec_printf;
        insn->op_count = 3;
        for (uint32_t i = 0; status == GK_OK && i < 2; i++) {
            status = lane_param(body, text->args[i], 8, &insn->op[i]);
        }
        return status == GK_OK ? lane_param(body, text->ret, 4, &insn->op[2]) : status;
    }
    if (strcmp(text->function, "__assertfail") != 0) {
        return ptx_body_fail(body, GK_UNSUPPORTED,
                             "function '%s' is defined nowhere (device-side malloc and free are "
                             "not supported by the emulated device)",
                             text->function);
    }
    insn->exec = emu_exec_assert_fail;
    for (uint32_t i = 0; status == GK_OK && i < text->arg_count && i < 4; i++) {
        status = lane_param(body, text->args[i], i == 2 ? 4 : 8, &insn->op[i]);
        insn->op_count++;
    }
    return status == GK_OK && insn->op_count < 4
               ? ptx_body_fail(body, GK_PARSE, "__assertfail with %u arguments", insn->op_count)
               : status;
}

enum gk_status ptx_call_decode(struct ptx_body *body, struct emu_insn *insn)
{
    struct gk_emu_kernel *kernel = body->kernel;
    struct call_text text = {0};
    const struct ptx_function *function;
    enum gk_status status = parse_call(body, &text);

    insn->class = EMU_CLASS_CONTROL;
    if (status != GK_OK) {
        goto out;
    }
    function = ptx_function_find(body->parser, text.function);
    if (!function || !function->has_body) {
        status = decode_builtin(body, insn, &text);
        goto out;
    }
    status = ptx_grow(&kernel->calls, kernel->call_count, &body->call_capacity,
                      sizeof(*kernel->calls), body->err);
    if (status == GK_OK) {
        insn->exec = emu_exec_call;
        insn->imm = kernel->call_count;
        status = fill_call(body, &text, function, &kernel->calls[kernel->call_count]);
        kernel->call_count++; /* also after an error, so that its list is freed */
    }
out:
    call_text_fini(&text);
    return status;
}
