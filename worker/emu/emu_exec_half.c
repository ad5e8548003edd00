/*
 * f16 and bf16 arithmetic, single and packed in pairs.
 *
 * Sums and products of two halves are exact enough in float: rounding twice, to 24 bits and then to
 * 11 or 8, gives what one rounding gives. That is not so for a fused multiply-add, which is summed
 * in double and rounded to odd first.
 */
#include "worker/emu/emu_exec.h"
#include "worker/emu/emu_narrow.h"

#include <math.h>

enum half_op {
    HALF_ADD,
    HALF_SUB,
    HALF_MUL,
    HALF_FMA,
    HALF_MIN,
    HALF_MAX,
    HALF_NEG,
    HALF_ABS,
    HALF_EX2,
    HALF_TANH,
    HALF_COPY
};

struct half_kind {
    bool bf16, packed;
};

static struct half_kind kind_of(uint8_t type)
{
    return (struct half_kind){type == PTX_BF16 || type == PTX_BF16X2,
                              type == PTX_F16X2 || type == PTX_BF16X2};
}

static float widen(uint32_t bits, bool bf16)
{
    return bf16 ? emu_float_of(bits << 16) : emu_float_of_half((uint16_t)bits);
}

static uint32_t narrow(float x, bool bf16)
{
    return bf16 ? emu_bf16_of_float(x) : emu_half_of_float(x);
}

static uint32_t flush_half(uint32_t bits, bool bf16)
{
    return bits & (bf16 ? 0x7f80u : 0x7c00u) ? bits : bits & 0x8000u;
}

static bool half_is_nan(uint32_t bits, bool bf16)
{
    return (bits & 0x7fffu) > (bf16 ? 0x7f80u : 0x7c00u);
}

static uint32_t half_min_max(const struct emu_insn *insn, uint32_t a, uint32_t b, bool bf16,
                             bool larger)
{
    bool nan_a = half_is_nan(a, bf16), nan_b = half_is_nan(b, bf16);
    uint32_t sign = (a ^ b) & 0x8000u, out;

    if (nan_a || nan_b) {
        if (insn->mods & PTX_M_NAN || (nan_a && nan_b)) {
            return 0x7fffu;
        }
        out = nan_a ? b : a;
        return insn->mods & PTX_M_XORSIGN ? (out & 0x7fffu) | sign : out;
    }
    if (insn->mods & PTX_M_XORSIGN) {
        a &= 0x7fffu;
        b &= 0x7fffu;
        return ((a < b) != larger ? a : b) | sign;
    }
    /* Sign and magnitude as an ordered integer: -0 comes below +0. */
    {
        int32_t ka = a & 0x8000u ? -1 - (int32_t)(a & 0x7fffu) : (int32_t)a;
        int32_t kb = b & 0x8000u ? -1 - (int32_t)(b & 0x7fffu) : (int32_t)b;

        return (ka < kb) != larger ? a : b;
    }
}

static uint32_t finish_half(const struct emu_insn *insn, uint32_t bits, bool bf16)
{
    if (insn->mods & PTX_M_FTZ) {
        bits = flush_half(bits, bf16);
    }
    if (insn->mods & PTX_M_SAT) {
        float x = widen(bits, bf16);

        return x >= 1.0f ? (bf16 ? 0x3f80u : 0x3c00u) : x > 0.0f ? bits : 0;
    }
    if (insn->mods & PTX_M_RELU && bits & 0x8000u && !half_is_nan(bits, bf16)) {
        return 0;
    }
    return bits;
}

static uint32_t half_fma(uint32_t a, uint32_t b, uint32_t c, bool bf16)
{
    double product = (double)widen(a, bf16) * (double)widen(b, bf16);

    return emu_round_narrow(emu_add_odd(product, (double)widen(c, bf16)), bf16 ? PTX_BF16 : PTX_F16,
                            PTX_RN, false);
}

static uint32_t half_compute(const struct emu_insn *insn, uint32_t a, uint32_t b, uint32_t c,
                             bool bf16)
{
    uint32_t out;

    if (insn->mods & PTX_M_FTZ) {
        a = flush_half(a, bf16);
        b = flush_half(b, bf16);
        c = flush_half(c, bf16);
    }
    switch ((enum half_op)insn->sub) {
    case HALF_ADD:
        out = narrow(widen(a, bf16) + widen(b, bf16), bf16);
        break;
    case HALF_SUB:
        out = narrow(widen(a, bf16) - widen(b, bf16), bf16);
        break;
    case HALF_MUL:
        out = narrow(widen(a, bf16) * widen(b, bf16), bf16);
        break;
    case HALF_FMA:
        out = half_fma(a, b, c, bf16);
        break;
    case HALF_MIN:
        return half_min_max(insn, a, b, bf16, false);
    case HALF_MAX:
        return half_min_max(insn, a, b, bf16, true);
    case HALF_NEG:
        return half_is_nan(a, bf16) ? 0x7fffu : a ^ 0x8000u;
    case HALF_ABS:
        return a & 0x7fffu;
    case HALF_EX2:
        out = narrow((float)exp2((double)widen(a, bf16)), bf16);
        break;
    case HALF_TANH:
        out = narrow((float)tanh((double)widen(a, bf16)), bf16);
        break;
    default:
        out = a;
        break;
    }
    return finish_half(insn, out, bf16);
}

static int half(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct half_kind kind = kind_of(insn->type);
    const void *a = emu_operand(warp, insn, 1);
    const void *b = insn->op_count > 2 ? emu_operand(warp, insn, 2) : a;
    const void *c = insn->op_count > 3 ? emu_operand(warp, insn, 3) : a;

    if (!kind.packed) {
        uint16_t *d = emu_operand(warp, insn, 0);
        const uint16_t *x = a, *y = b, *z = c;

        EMU_FOR_LANES(mask, d[l] = (uint16_t)half_compute(insn, x[l], y[l], z[l], kind.bf16));
    } else {
        uint32_t *d = emu_operand(warp, insn, 0);
        const uint32_t *x = a, *y = b, *z = c;

        EMU_FOR_LANES(
            mask,
            d[l] = half_compute(insn, x[l] & 0xffff, y[l] & 0xffff, z[l] & 0xffff, kind.bf16) |
                   half_compute(insn, x[l] >> 16, y[l] >> 16, z[l] >> 16, kind.bf16) << 16);
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ comparison */

static bool compare(uint8_t cmp, float a, float b)
{
    bool nan = a != a || b != b;

    switch (cmp) {
    case PTX_EQ:
        return a == b;
    case PTX_NE:
        return !nan && a != b;
    case PTX_LT:
        return a < b;
    case PTX_LE:
        return a <= b;
    case PTX_GT:
        return a > b;
    case PTX_GE:
        return a >= b;
    case PTX_EQU:
        return nan || a == b;
    case PTX_NEU:
        return nan || a != b;
    case PTX_LTU:
        return nan || a < b;
    case PTX_LEU:
        return nan || a <= b;
    case PTX_GTU:
        return nan || a > b;
    case PTX_GEU:
        return nan || a >= b;
    case PTX_NUM:
        return !nan;
    default:
        return nan;
    }
}

static uint32_t combine(struct emu_warp *warp, const struct emu_insn *insn, unsigned index,
                        uint32_t word)
{
    const uint32_t *p;
    uint32_t c;

    if (insn->op[index] < 0) {
        return word;
    }
    p = emu_operand(warp, insn, index);
    c = insn->sub & PTX_SUB_NEGATED ? ~*p : *p;
    return insn->atom == PTX_AND ? word & c : insn->atom == PTX_OR ? word | c : word ^ c;
}

static void compare_words(struct emu_warp *warp, const struct emu_insn *insn, unsigned first,
                          uint32_t *low, uint32_t *high)
{
    struct half_kind kind = kind_of(insn->type2 && first == 1 ? insn->type2 : insn->type);
    const unsigned char *a = emu_operand(warp, insn, first);
    const unsigned char *b = emu_operand(warp, insn, first + 1);
    bool flush = insn->mods & PTX_M_FTZ;

    *low = *high = 0;
    for (unsigned l = 0; l < EMU_LANES; l++) {
        for (unsigned part = 0; part < (kind.packed ? 2u : 1u); part++) {
            uint16_t x, y;
            size_t at = kind.packed ? l * 4 + part * 2 : l * 2;
            bool hit;

            memcpy(&x, a + at, sizeof(x));
            memcpy(&y, b + at, sizeof(y));
            x = flush ? (uint16_t)flush_half(x, kind.bf16) : x;
            y = flush ? (uint16_t)flush_half(y, kind.bf16) : y;
            hit = compare(insn->cmp, widen(x, kind.bf16), widen(y, kind.bf16));
            *(part ? high : low) |= (uint32_t)hit << l;
        }
    }
}

static int setp_half(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *p = emu_operand(warp, insn, 0), *q = emu_operand(warp, insn, 1), low, high;
    bool packed = kind_of(insn->type).packed;

    compare_words(warp, insn, 2, &low, &high);
    /* For pairs p and q are the two halves; else q is the opposite. */
    high = packed ? combine(warp, insn, 4, high) : combine(warp, insn, 4, ~low);
    low = combine(warp, insn, 4, low);
    *p = (*p & ~mask) | (low & mask);
    *q = (*q & ~mask) | (high & mask);
    return EMU_NEXT;
}

/* set.CMP.f16.f16 gives 1.0, set.CMP.f16x2.f16x2 a 1.0 a half, set.CMP.u32.f16 all ones. */
static int set_half(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t low, high, one = kind_of(insn->type2).bf16 ? 0x3f80u : 0x3c00u;
    void *d = emu_operand(warp, insn, 0);

    compare_words(warp, insn, 1, &low, &high);
    low = combine(warp, insn, 3, low);
    high = combine(warp, insn, 3, high);
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        bool hit = low >> l & 1;

        if (insn->type == PTX_F16 || insn->type == PTX_BF16) {
            ((uint16_t *)d)[l] = (uint16_t)(hit ? one : 0);
        } else if (insn->type == PTX_F16X2 || insn->type == PTX_BF16X2) {
            ((uint32_t *)d)[l] = (hit ? one : 0) | (high >> l & 1 ? one << 16 : 0);
        } else if (kind_of(insn->type2).packed) {
            ((uint32_t *)d)[l] = (hit ? 0xffffu : 0) | (high >> l & 1 ? 0xffff0000u : 0);
        } else {
            ((uint32_t *)d)[l] = hit ? UINT32_MAX : 0;
        }
    }
    return EMU_NEXT;
}

#define FMA      EMU_CLASS_FMA
#define SPECIAL  EMU_CLASS_SPECIAL
#define ANY_HALF "[.f16|.f16x2|.bf16|.bf16x2]"
#define CMP      "[.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan]"

static const struct ptx_row ROWS[] = {
    {"add{.rn}{.ftz}{.sat}" ANY_HALF, "Dt St St", half, FMA, HALF_ADD},
    {"sub{.rn}{.ftz}{.sat}" ANY_HALF, "Dt St St", half, FMA, HALF_SUB},
    {"mul{.rn}{.ftz}{.sat}" ANY_HALF, "Dt St St", half, FMA, HALF_MUL},
    {"fma.rn{.ftz}{.sat}{.relu}" ANY_HALF, "Dt St St St", half, FMA, HALF_FMA},
    {"min{.ftz}{.NaN}{.xorsign}{.abs}" ANY_HALF, "Dt St St", half, FMA, HALF_MIN},
    {"max{.ftz}{.NaN}{.xorsign}{.abs}" ANY_HALF, "Dt St St", half, FMA, HALF_MAX},
    {"neg{.ftz}" ANY_HALF, "Dt St", half, FMA, HALF_NEG},
    {"abs{.ftz}" ANY_HALF, "Dt St", half, FMA, HALF_ABS},
    {"ex2.approx{.ftz}" ANY_HALF, "Dt St", half, SPECIAL, HALF_EX2},
    {"tanh.approx" ANY_HALF, "Dt St", half, SPECIAL, HALF_TANH},
    {"setp" CMP "{.and|.or|.xor}{.ftz}" ANY_HALF, "Q St St G?", setp_half, FMA, 0},
    {"set" CMP "{.and|.or|.xor}{.ftz}[.f16|.bf16|.u32|.s32|.f16x2|.bf16x2]" ANY_HALF, "Dt Su Su G?",
     set_half, FMA, 0},
};

EMU_ROWS_FUNCTION(emu_rows_half, ROWS)
