/*
 * atom and red: lanes take their turns in ascending order. Compiled once an instruction set only
 * because emu_access() is.
 */
#include "worker/emu/emu_access.h"
#include "worker/emu/emu_combine.h"
#include "worker/emu/emu_narrow.h"

#include <math.h>
#include <string.h>

static float float_sum(uint32_t x, uint32_t y, bool flush)
{
    float a = emu_float_of(x), b = emu_float_of(y), sum;

    if (flush) {
        a = fpclassify(a) == FP_SUBNORMAL ? copysignf(0.0f, a) : a;
        b = fpclassify(b) == FP_SUBNORMAL ? copysignf(0.0f, b) : b;
    }
    sum = a + b;
    if (flush && fpclassify(sum) == FP_SUBNORMAL) {
        sum = copysignf(0.0f, sum);
    }
    return sum != sum ? emu_float_of(0x7fffffffu) : sum;
}

static uint64_t half_sum(uint64_t x, uint64_t y, uint8_t type)
{
    bool bf16 = type == PTX_BF16 || type == PTX_BF16X2;
    unsigned parts = type == PTX_F16X2 || type == PTX_BF16X2 ? 2 : 1;
    uint64_t out = 0;

    for (unsigned i = 0; i < parts; i++) {
        uint16_t a = (uint16_t)(x >> i * 16), b = (uint16_t)(y >> i * 16);
        float sum = bf16 ? emu_float_of((uint32_t)a << 16) + emu_float_of((uint32_t)b << 16)
                         : emu_float_of_half(a) + emu_float_of_half(b);

        out |= (uint64_t)(bf16 ? emu_bf16_of_float(sum) : emu_half_of_float(sum)) << i * 16;
    }
    return out;
}

static uint64_t add(uint8_t type, uint64_t x, uint64_t y, bool global)
{
    if (type == PTX_F32) {
        /* Global float additions flush subnormals, shared ones keep them. */
        return emu_bits_of(float_sum((uint32_t)x, (uint32_t)y, global));
    }
    if (type == PTX_F64) {
        double a, b;

        memcpy(&a, &x, sizeof(a));
        memcpy(&b, &y, sizeof(b));
        a += b;
        memcpy(&x, &a, sizeof(x));
        return x;
    }
    if (type == PTX_F16 || type == PTX_BF16 || type == PTX_F16X2 || type == PTX_BF16X2) {
        return half_sum(x, y, type);
    }
    return x + y;
}

static uint64_t apply(const struct emu_insn *insn, uint64_t old, uint64_t b, uint64_t c,
                      bool global)
{
    if (insn->atom == PTX_CAS) {
        return old == b ? c : old;
    }
    return insn->atom == PTX_ADD ? add(insn->type, old, b, global)
                                 : emu_combine(insn->atom, insn->type, old, b);
}

/* Operands: d (atom only: sub 1), address, b, c of cas. */
static int atomic(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t bytes = ptx_type_bytes(insn->type), at = insn->sub ? 2 : 1;
    unsigned char *d = insn->sub ? emu_operand(warp, insn, 0) : NULL;
    const unsigned char *b = emu_operand(warp, insn, at);
    const unsigned char *c = insn->atom == PTX_CAS ? emu_operand(warp, insn, at + 1) : b;
    struct emu_reach access;
    unsigned char operands[2][EMU_LANES * 8];

    if (emu_access(warp, insn, mask, (enum emu_space)insn->space, false, bytes, EMU_ATOMIC,
                   &access) != EMU_NEXT) {
        return EMU_STOP;
    }
    memcpy(operands[0], b, (size_t)bytes * EMU_LANES); /* d may be one of them */
    memcpy(operands[1], c, (size_t)bytes * EMU_LANES);
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t old = 0, x = 0, y = 0, result;

        memcpy(&old, access.ptr[l], bytes);
        memcpy(&x, operands[0] + l * bytes, bytes);
        memcpy(&y, operands[1] + l * bytes, bytes);
        result = apply(insn, old, x, y, access.space != EMU_SHARED);
        memcpy(access.ptr[l], &result, bytes);
        if (d) {
            memcpy(d + l * bytes, &old, bytes);
        }
    }
    return EMU_NEXT;
}

#define MEM   EMU_CLASS_MEMORY
#define SEM   "{.relaxed|.acquire|.release|.acq_rel}{.cta|.cluster|.gpu|.sys}"
#define WHERE SEM "{.global|.shared|.shared::cta|.shared::cluster}"
#define HINT  "{.L2::cache_hint}"

/* PTX is documented with the semantics before the operation; ptxas takes them behind it too, and
 * CUDA's own libraries write them there. */

static const struct ptx_row ROWS[] = {
    {"atom" WHERE "[.and|.or|.xor|.exch]" WHERE HINT "[.b32|.b64]", "Dt A St Sd?", atomic, MEM, 1},
    {"atom" WHERE ".cas" WHERE "[.b16|.b32|.b64]", "Dt A St St", atomic, MEM, 1},
    {"atom" WHERE ".cas" WHERE HINT "[.b32|.b64]", "Dt A St St Sd?", atomic, MEM, 1},
    {"atom" WHERE ".add" WHERE HINT "[.u32|.s32|.u64|.s64|.f32|.f64]", "Dt A St Sd?", atomic, MEM,
     1},
    {"atom" WHERE ".add" WHERE ".noftz" HINT "[.f16|.f16x2|.bf16|.bf16x2]", "Dt A St Sd?", atomic,
     MEM, 1},
    {"atom" WHERE "[.inc|.dec]" WHERE HINT ".u32", "Dt A St Sd?", atomic, MEM, 1},
    {"atom" WHERE "[.min|.max]" WHERE HINT "[.u32|.s32|.u64|.s64]", "Dt A St Sd?", atomic, MEM, 1},
    {"red" WHERE "[.and|.or|.xor]" WHERE HINT "[.b32|.b64]", "A St Sd?", atomic, MEM, 0},
    {"red" WHERE ".add" WHERE HINT "[.u32|.s32|.u64|.s64|.f32|.f64]", "A St Sd?", atomic, MEM, 0},
    {"red" WHERE ".add" WHERE ".noftz" HINT "[.f16|.f16x2|.bf16|.bf16x2]", "A St Sd?", atomic, MEM,
     0},
    {"red" WHERE "[.inc|.dec]" WHERE HINT ".u32", "A St Sd?", atomic, MEM, 0},
    {"red" WHERE "[.min|.max]" WHERE HINT "[.u32|.s32|.u64|.s64]", "A St Sd?", atomic, MEM, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_atomic), ROWS)
