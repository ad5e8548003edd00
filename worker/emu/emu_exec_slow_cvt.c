/*
 * Every conversion that emu_exec_cvt.c has no loop for: one general function, a lane at a time.
 * Built with -frounding-math.
 */
#include "worker/emu/emu_exec.h"
#include "worker/emu/emu_narrow.h"

#include <fenv.h>
#include <math.h>

struct value {
    bool is_float;
    double real;      /* exact for every float format */
    int64_t integer;  /* two's complement */
    bool is_unsigned; /* of integer */
};

static bool is_real(uint8_t type)
{
    return ptx_type_is_float(type);
}

static uint64_t read_lane(const void *array, unsigned lane, uint32_t width)
{
    uint64_t bits = 0;

    memcpy(&bits, (const unsigned char *)array + lane * width, width);
    return bits;
}

static void write_lane(void *array, unsigned lane, uint32_t width, uint64_t bits)
{
    memcpy((unsigned char *)array + lane * width, &bits, width);
}

static struct value load_value(uint64_t bits, uint8_t type)
{
    struct value value = {.is_float = is_real(type)};
    unsigned size = ptx_type_bytes(type) * 8;

    if (type == PTX_F64) {
        memcpy(&value.real, &bits, sizeof(value.real));
    } else if (type == PTX_F32 || type == PTX_TF32) {
        value.real = (double)emu_float_of((uint32_t)bits);
    } else if (value.is_float) {
        value.real = emu_widen_narrow((uint32_t)bits, type);
    } else {
        value.is_unsigned = !ptx_type_is_signed(type);
        value.integer = (int64_t)(bits << (64 - size)); /* drop what is above the type */
        value.integer = value.is_unsigned ? (int64_t)((uint64_t)value.integer >> (64 - size))
                                          : value.integer >> (64 - size);
    }
    return value;
}

static int host_mode(uint8_t round)
{
    switch (round) {
    case PTX_RZ:
    case PTX_RZI:
        return FE_TOWARDZERO;
    case PTX_RM:
    case PTX_RMI:
        return FE_DOWNWARD;
    case PTX_RP:
    case PTX_RPI:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

static bool is_integral_mode(uint8_t round)
{
    return round >= PTX_RNI;
}

/* An integer as a double whose last bit says whether something was lost (round to odd). */
static double integer_to_odd(const struct value *value)
{
    bool negative = !value->is_unsigned && value->integer < 0;
    uint64_t size = negative ? 0 - (uint64_t)value->integer : (uint64_t)value->integer;
    double out;

    if (size >> 53) {
        size = (size >> 11 << 11) | (uint64_t)((size & 2047) != 0) << 11;
    }
    out = (double)size;
    return negative ? -out : out;
}

static float flush_subnormal(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

static uint64_t finish_f32(const struct emu_insn *insn, float x)
{
    if (insn->mods & PTX_M_FTZ) {
        x = flush_subnormal(x);
    }
    if (insn->mods & PTX_M_SAT) {
        x = x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
    }
    if (insn->mods & PTX_M_RELU) {
        x = x > 0.0f || x != x ? x : 0.0f;
    }
    return x != x ? 0x7fffffffu : emu_bits_of(x);
}

static uint64_t to_float(const struct emu_insn *insn, const struct value *value, uint8_t type,
                         uint8_t source)
{
    double real = value->is_float ? value->real : integer_to_odd(value);
    int before = fegetround();
    uint64_t bits = 0;

    if (insn->mods & PTX_M_FTZ && source == PTX_F32) {
        real = (double)flush_subnormal((float)real);
    }
    (void)fesetround(host_mode(insn->round));
    if (value->is_float && is_integral_mode(insn->round)) {
        real = nearbyint(real);
    }
    if (type == PTX_F64) {
        double out = value->is_float      ? real
                     : value->is_unsigned ? (double)(uint64_t)value->integer
                                          : (double)value->integer;

        if (insn->mods & PTX_M_SAT) {
            out = out >= 1.0 ? 1.0 : out > 0.0 ? out : 0.0;
        }
        memcpy(&bits, &out, sizeof(bits));
    } else if (type == PTX_F32) {
        bits = finish_f32(insn, value->is_float      ? (float)real
                                : value->is_unsigned ? (float)(uint64_t)value->integer
                                                     : (float)value->integer);
    } else {
        if (insn->mods & PTX_M_SAT) {
            real = real >= 1.0 ? 1.0 : real > 0.0 ? real : 0.0;
        }
        if (insn->mods & PTX_M_RELU && real <= 0.0) {
            real = 0.0;
        }
        bits = emu_round_narrow(real, type, insn->round, insn->mods & PTX_M_SATFINITE);
        bits = type == PTX_TF32 ? bits << 13 : bits;
    }
    (void)fesetround(before);
    return bits;
}

/* NaN becomes 0, but the top bit of the width from f64 and to 64 bits. */
static uint64_t clamp_integer(double real, uint8_t type, uint8_t source)
{
    unsigned size = ptx_type_bytes(type) * 8;

    if (real != real) {
        return size == 64 || source == PTX_F64 ? 1ull << (size - 1) : 0;
    }
    if (ptx_type_is_signed(type)) {
        double top = ldexp(1.0, (int)size - 1);

        return real >= top    ? (UINT64_MAX >> (65 - size))
               : real <= -top ? 0 - (uint64_t)ldexp(1.0, (int)size - 1)
                              : (uint64_t)(int64_t)real;
    }
    return real >= ldexp(1.0, (int)size) ? UINT64_MAX >> (64 - size)
           : real <= 0                   ? 0
                                         : (uint64_t)real;
}

static uint64_t saturate_integer(const struct value *value, uint8_t type)
{
    unsigned size = ptx_type_bytes(type) * 8;
    uint64_t bits = (uint64_t)value->integer;

    if (ptx_type_is_signed(type)) {
        int64_t top = (int64_t)(UINT64_MAX >> (65 - size));

        if (value->is_unsigned) {
            return bits > (uint64_t)top ? (uint64_t)top : bits;
        }
        return (uint64_t)(value->integer > top        ? top
                          : value->integer < -top - 1 ? -top - 1
                                                      : value->integer);
    }
    if (!value->is_unsigned && value->integer < 0) {
        return 0;
    }
    return bits > UINT64_MAX >> (64 - size) ? UINT64_MAX >> (64 - size) : bits;
}

static uint64_t to_integer(const struct emu_insn *insn, const struct value *value, uint8_t type,
                           uint8_t source)
{
    unsigned size = ptx_type_bytes(type) * 8;
    uint64_t bits;

    if (value->is_float) {
        double real = value->real;
        int before = fegetround();

        if (insn->mods & PTX_M_FTZ && source == PTX_F32) {
            real = (double)flush_subnormal((float)real);
        }
        (void)fesetround(host_mode(insn->round));
        real = nearbyint(real);
        (void)fesetround(before);
        bits = clamp_integer(real, type, source);
    } else {
        bits = insn->mods & PTX_M_SAT ? saturate_integer(value, type) : (uint64_t)value->integer;
    }
    /* Registers wider than the type hold its value extended. */
    bits <<= 64 - size;
    return ptx_type_is_signed(type) ? (uint64_t)((int64_t)bits >> (64 - size))
                                    : bits >> (64 - size);
}

/* A NaN that becomes a double keeps sign and payload. */
static uint64_t widen_nan(uint64_t bits, uint8_t source)
{
    struct emu_format format = emu_format_of(source);
    unsigned size = (unsigned)(format.fraction_bits + format.exponent_bits);

    if (source == PTX_F64) {
        return bits;
    }
    return (bits >> size & 1) << 63 | 0x7ff8000000000000ull |
           (bits & ((1ull << format.fraction_bits) - 1)) << (52 - format.fraction_bits);
}

static int convert(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    void *d = emu_operand(warp, insn, 0);
    const void *a = emu_operand(warp, insn, 1);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct value value = load_value(read_lane(a, l, insn->width[1]), insn->type2);

        if (insn->type == PTX_F64 && value.is_float && value.real != value.real) {
            write_lane(d, l, 8, widen_nan(read_lane(a, l, insn->width[1]), insn->type2));
            continue;
        }
        write_lane(d, l, insn->width[0],
                   is_real(insn->type) ? to_float(insn, &value, insn->type, insn->type2)
                                       : to_integer(insn, &value, insn->type, insn->type2));
    }
    return EMU_NEXT;
}

static uint8_t element_type(uint8_t packed)
{
    switch (packed) {
    case PTX_F16X2:
        return PTX_F16;
    case PTX_BF16X2:
        return PTX_BF16;
    case PTX_E4M3X2:
        return PTX_E4M3;
    default:
        return PTX_E5M2;
    }
}

/* d = {a in the upper half, b in the lower}, both f32. */
static int convert_pack(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint8_t type = element_type(insn->type);
    unsigned size = type == PTX_F16 || type == PTX_BF16 ? 16 : 8;
    void *d = emu_operand(warp, insn, 0);
    const float *a = emu_operand(warp, insn, 1), *b = emu_operand(warp, insn, 2);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct value high = {.is_float = true, .real = (double)a[l]};
        struct value low = {.is_float = true, .real = (double)b[l]};

        write_lane(d, l, size / 4,
                   to_float(insn, &high, type, PTX_F32) << size |
                       to_float(insn, &low, type, PTX_F32));
    }
    return EMU_NEXT;
}

/* Both halves of a packed source to a packed destination (f16x2 <-> e4m3x2, e5m2x2). */
static int convert_packed(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint8_t to = element_type(insn->type), from = element_type(insn->type2);
    unsigned to_bits = to == PTX_F16 || to == PTX_BF16 ? 16 : 8;
    unsigned from_bits = from == PTX_F16 || from == PTX_BF16 ? 16 : 8;
    void *d = emu_operand(warp, insn, 0);
    const void *a = emu_operand(warp, insn, 1);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t bits = read_lane(a, l, from_bits / 4), out = 0;

        for (unsigned half = 0; half < 2; half++) {
            uint32_t part = (uint32_t)(bits >> half * from_bits) & ((1u << from_bits) - 1);
            struct value value = {.is_float = true, .real = emu_widen_narrow(part, from)};

            out |= to_float(insn, &value, to, from) << half * to_bits;
        }
        write_lane(d, l, to_bits / 4, out);
    }
    return EMU_NEXT;
}

/* cvt.pack: two saturated integers, and for bytes the older ones from c above them. */
static int pack_sat(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1), *b = emu_operand(warp, insn, 2);
    const uint32_t *c = insn->op[3] >= 0 ? emu_operand(warp, insn, 3) : NULL;
    unsigned size = ptx_type_bytes(insn->type) * 8;
    uint32_t field = (1u << size) - 1;

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        struct value high = load_value(a[l], PTX_S32), low = load_value(b[l], PTX_S32);
        uint32_t out = (uint32_t)(saturate_integer(&high, insn->type) & field) << size |
                       (uint32_t)(saturate_integer(&low, insn->type) & field);

        d[l] = c ? c[l] << 2 * size | out : out;
    }
    return EMU_NEXT;
}

#define FROM "[.u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64|.f16|.bf16|.f32|.f64]"
#define TO   "[.u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64|.f16|.bf16|.f32|.f64|.tf32]"
static const struct ptx_row ROWS[] = {
    {"cvt{.rn|.rz|.rm|.rp|.rna|.rni|.rzi|.rmi|.rpi}{.ftz}{.sat}{.relu}{.satfinite}{.relu}" TO FROM,
     "Dr Sr", convert, EMU_CLASS_FMA, 0},
    {"cvt[.rn|.rz]{.relu}{.satfinite}{.relu}[.f16x2|.bf16x2].f32", "Dw Sw Sw", convert_pack,
     EMU_CLASS_FMA, 0},
    {"cvt.rn.satfinite{.relu}[.e4m3x2|.e5m2x2].f32", "Dh Sw Sw", convert_pack, EMU_CLASS_FMA, 0},
    {"cvt.rn.satfinite{.relu}[.e4m3x2|.e5m2x2].f16x2", "Dh Sw", convert_packed, EMU_CLASS_FMA, 0},
    {"cvt.rn{.relu}.f16x2[.e4m3x2|.e5m2x2]", "Dw Sh", convert_packed, EMU_CLASS_FMA, 0},
    {"cvt.pack.sat[.u16|.s16].s32", "Dw Sw Sw Sw?", pack_sat, EMU_CLASS_INT, 0},
    {"cvt.pack.sat[.u8|.s8].s32.b32", "Dw Sw Sw Sw", pack_sat, EMU_CLASS_INT, 0},
};

EMU_ROWS_FUNCTION(emu_rows_slow_cvt, ROWS)
