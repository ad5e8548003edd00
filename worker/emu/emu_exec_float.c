/*
 * Single and double arithmetic in round-to-nearest, and the approximations. Compiled once an
 * instruction set; other rounding modes are in emu_exec_slow_float.c.
 *
 * NaN results of f32 are the hardware's one NaN, 0x7fffffff. The approximations (ex2, lg2, rcp,
 * rsqrt, sqrt, sin, cos, tanh, div) are computed in double and rounded once: more exact than the
 * hardware, whose last bits are not documented. No bit of them depends on the instruction set of
 * the host: the polynomials here use no fused operations.
 */
#include "worker/emu/emu_exec.h"

#include <math.h>
#include <string.h>

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint64_t bits_of_double(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* The hardware's NaN for any NaN. */
static inline float canon(float x)
{
    uint32_t bits = bits_of(x);

    return float_of((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits);
}

static inline float ftz(float x)
{
    uint32_t bits = bits_of(x);

    return float_of(bits & 0x7f800000u ? bits : bits & 0x80000000u);
}

/* NaN becomes 0, as PTX says for .sat. */
static inline float saturate(float x)
{
    return x >= 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
}

static inline float finish(const struct emu_insn *insn, float x)
{
    if (insn->mods & PTX_M_FTZ) {
        x = ftz(x);
    }
    return insn->mods & PTX_M_SAT ? saturate(x) : canon(x);
}

static inline float take(const struct emu_insn *insn, float x)
{
    return insn->mods & PTX_M_FTZ ? ftz(x) : x;
}

/* ------------------------------------------------------------------ f32 and f64 arithmetic */

EMU_OP2(add_f32, float, float, canon(x + y))
EMU_OP2(sub_f32, float, float, canon(x - y))
EMU_OP2(mul_f32, float, float, canon(x *y))
EMU_OP3(fma_f32, float, float, canon(__builtin_fmaf(x, y, z)))
EMU_OP2(div_f32, float, float, canon(x / y))

#define T(v) take(insn, v)
EMU_OP2(add_f32_mods, float, float, finish(insn, T(x) + T(y)))
EMU_OP2(sub_f32_mods, float, float, finish(insn, T(x) - T(y)))
EMU_OP2(mul_f32_mods, float, float, finish(insn, T(x) * T(y)))
EMU_OP3(fma_f32_mods, float, float, finish(insn, __builtin_fmaf(T(x), T(y), T(z))))
EMU_OP2(div_f32_mods, float, float, finish(insn, T(x) / T(y)))
/* div.approx: beyond 2^126 the reciprocal of the divisor is flushed to zero. */
static inline float quick_quotient(float x, float y)
{
    float size = float_of(bits_of(y) & 0x7fffffffu);

    if (size > 0x1p126f && size <= 0x1.fffffep127f) {
        y = float_of((bits_of(y) & 0x80000000u) | 0x7f800000u);
    }
    return x / y;
}

EMU_OP2(div_f32_approx, float, float, finish(insn, quick_quotient(T(x), T(y))))
EMU_OP1(rcp_f32, float, float, finish(insn, 1.0f / T(x)))
EMU_OP1(sqrt_f32, float, float, finish(insn, __builtin_sqrtf(T(x))))
EMU_OP1(rsqrt_f32, float, float, finish(insn, (float)(1.0 / __builtin_sqrt((double)T(x)))))
EMU_OP1(abs_f32, float, float, T(float_of(bits_of(x) & 0x7fffffffu)))
/* Negation leaves a NaN as it is: the hardware adds to a negative zero. */
EMU_OP1(neg_f32, float, float,
        x != x ? float_of(0x7fffffffu) : T(float_of(bits_of(x) ^ 0x80000000u)))
EMU_OP2(copysign_f32, float, float,
        float_of((bits_of(x) & 0x80000000u) | (bits_of(y) & 0x7fffffffu)))

EMU_OP2(add_f64, double, double, x + y)
EMU_OP2(sub_f64, double, double, x - y)
EMU_OP2(mul_f64, double, double, x *y)
EMU_OP3(fma_f64, double, double, __builtin_fma(x, y, z))
EMU_OP2(div_f64, double, double, x / y)
EMU_OP1(rcp_f64, double, double, 1.0 / x)
EMU_OP1(sqrt_f64, double, double, __builtin_sqrt(x))
EMU_OP1(abs_f64, uint64_t, uint64_t, x & 0x7fffffffffffffffull)
EMU_OP1(neg_f64, double, double, x != x ? x : double_of(bits_of_double(x) ^ 1ull << 63))
EMU_OP2(copysign_f64, uint64_t, uint64_t, (x & 0x8000000000000000ull) | (y & 0x7fffffffffffffffull))

/* rcp.approx.ftz.f64 and rsqrt.approx(.ftz).f64 look at and give the upper 32 bits only. */
static inline double upper_half(double x)
{
    return double_of(bits_of_double(x) & 0xffffffff00000000ull);
}

static inline double ftz_f64(double x)
{
    uint64_t bits = bits_of_double(x);

    return double_of(bits & 0x7ff0000000000000ull ? bits : bits & 0x8000000000000000ull);
}

EMU_OP1(rcp_approx_f64, double, double, ftz_f64(upper_half(1.0 / ftz_f64(upper_half(x)))))
static inline double rsqrt_upper(const struct emu_insn *insn, double x)
{
    bool flushes = insn->mods & PTX_M_FTZ;
    double out = upper_half(1.0 / __builtin_sqrt(flushes ? ftz_f64(x) : x));

    return flushes && out != out ? double_of(0x7fffffff00000000ull) : out;
}

EMU_OP1(rsqrt_approx_f64, double, double, rsqrt_upper(insn, x))

/* ------------------------------------------------------------------ min and max */

/* -0 is below +0; one NaN gives the other operand, or NaN when .NaN is asked. */
static inline float pick(const struct emu_insn *insn, float x, float y, bool larger)
{
    float out;

    x = T(x);
    y = T(y);
    if (insn->mods & PTX_M_XORSIGN) {
        uint32_t sign = (bits_of(x) ^ bits_of(y)) & 0x80000000u;
        float ax = float_of(bits_of(x) & 0x7fffffffu), ay = float_of(bits_of(y) & 0x7fffffffu);

        out = ax != ax ? ay : ay != ay ? ax : (ax < ay) != larger ? ax : ay;
        out = insn->mods & PTX_M_NAN && (ax != ax || ay != ay) ? float_of(0x7fffffffu) : out;
        return canon(float_of(bits_of(out) | sign));
    }
    if (x != x || y != y) {
        if (insn->mods & PTX_M_NAN) {
            return float_of(0x7fffffffu);
        }
        return canon(x != x ? y : x);
    }
    if (x == y) {
        return larger ? float_of(bits_of(x) & bits_of(y)) : float_of(bits_of(x) | bits_of(y));
    }
    return (x < y) != larger ? x : y;
}

EMU_OP2(min_f32_mods, float, float, pick(insn, x, y, false))
EMU_OP2(max_f32_mods, float, float, pick(insn, x, y, true))

/* Without modifiers: selects only, so that it becomes vector code. Equal operands differ at most
 * in the sign of zero, which or (min) and and (max) of the bits settle. */
static inline float plain_min(float x, float y)
{
    uint32_t bx = bits_of(x), by = bits_of(y);
    uint32_t out = x < y ? bx : y < x ? by : bx | by;

    out = x != x ? by : out;
    out = y != y ? bx : out;
    return canon(float_of(out));
}

static inline float plain_max(float x, float y)
{
    uint32_t bx = bits_of(x), by = bits_of(y);
    uint32_t out = x > y ? bx : y > x ? by : bx & by;

    out = x != x ? by : out;
    out = y != y ? bx : out;
    return canon(float_of(out));
}

EMU_OP2(min_f32, float, float, plain_min(x, y))
EMU_OP2(max_f32, float, float, plain_max(x, y))

static inline double pick_f64(double x, double y, bool larger)
{
    if (x != x || y != y) {
        return x != x ? y : x;
    }
    if (x == y) {
        uint64_t bx = bits_of_double(x), by = bits_of_double(y);

        return larger ? double_of(bx & by) : double_of(bx | by);
    }
    return (x < y) != larger ? x : y;
}

EMU_OP2(min_f64, double, double, pick_f64(x, y, false))
EMU_OP2(max_f64, double, double, pick_f64(x, y, true))

/* ------------------------------------------------------------------ approximations */

/* 2^f for |f| <= 1/2 by its series to the 12th power: relative error below 2^-50. */
static inline double exp2_fraction(double f)
{
    const double t = f * 0x1.62e42fefa39efp-1;
    double p = 1.0 / 479001600.0;

    p = p * t + 1.0 / 39916800.0;
    p = p * t + 1.0 / 3628800.0;
    p = p * t + 1.0 / 362880.0;
    p = p * t + 1.0 / 40320.0;
    p = p * t + 1.0 / 5040.0;
    p = p * t + 1.0 / 720.0;
    p = p * t + 1.0 / 120.0;
    p = p * t + 1.0 / 24.0;
    p = p * t + 1.0 / 6.0;
    p = p * t + 0.5;
    p = p * t + 1.0;
    return p * t + 1.0;
}

static inline float exp2_single(float x)
{
    double wide = x > 300.0f ? 300.0 : x < -300.0f ? -300.0 : (double)x, whole, scale;

    wide = x != x ? 0.0 : wide;
    /* Adding and taking away 1.5 * 2^52 rounds to the nearest integer. */
    whole = (wide + 0x1.8p52) - 0x1.8p52;
    scale = double_of((uint64_t)((int64_t)whole + 1023) << 52);
    return x != x ? float_of(0x7fffffffu) : (float)(exp2_fraction(wide - whole) * scale);
}

/* log2 of a positive finite x: m in [sqrt(1/2), sqrt(2)), log2 m = 2/ln2 * atanh((m-1)/(m+1)). */
static inline float log2_single(float x)
{
    uint64_t bits = bits_of_double((double)x);
    uint64_t shifted = bits - 0x3fe6a09e667f3bcdull; /* sqrt(1/2) */
    int64_t exponent = (int64_t)shifted >> 52;
    double m = double_of(bits - ((uint64_t)exponent << 52));
    double s = (m - 1.0) / (m + 1.0), q = s * s;
    double p = 1.0 / 21.0, out;

    p = p * q + 1.0 / 19.0;
    p = p * q + 1.0 / 17.0;
    p = p * q + 1.0 / 15.0;
    p = p * q + 1.0 / 13.0;
    p = p * q + 1.0 / 11.0;
    p = p * q + 1.0 / 9.0;
    p = p * q + 1.0 / 7.0;
    p = p * q + 1.0 / 5.0;
    p = p * q + 1.0 / 3.0;
    p = p * q + 1.0;
    out = (double)exponent + p * s * 0x1.71547652b82fep+1;
    if (x == 0.0f) {
        return float_of(0xff800000u);
    }
    if (!(x > 0.0f)) {
        return float_of(0x7fffffffu);
    }
    return x > 0x1.fffffep127f ? x : (float)out;
}

EMU_OP1(ex2_f32, float, float, finish(insn, exp2_single(T(x))))
EMU_OP1(lg2_f32, float, float, finish(insn, log2_single(T(x))))
/* The hardware first multiplies by 1 / (2 pi) in single precision, which flushes tiny angles and
 * loses large ones; so does this. */
static inline double turns(float x)
{
    double whole = (double)ftz(x * 0x1.45f306p-3f);

    return __builtin_copysign(whole - __builtin_rint(whole), whole) == 0.0
               ? __builtin_copysign(0.0, (double)x)
               : (whole - __builtin_rint(whole)) * 0x1.921fb54442d18p+2;
}

EMU_OP1(sin_f32, float, float, finish(insn, (float)sin(turns(T(x)))))
EMU_OP1(cos_f32, float, float, finish(insn, (float)cos(turns(T(x)))))
EMU_OP1(tanh_f32, float, float, finish(insn, (float)tanh((double)T(x))))

static int testp_f32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *p = emu_operand(warp, insn, 0), word = 0;
    const uint32_t *a = emu_operand(warp, insn, 1);

    for (unsigned l = 0; l < EMU_LANES; l++) {
        uint32_t exponent = a[l] >> 23 & 255, fraction = a[l] & 0x7fffffu;
        bool infinite = exponent == 255 && !fraction, nan = exponent == 255 && fraction;
        bool hit = (insn->mods & PTX_M_FINITE && exponent < 255) ||
                   (insn->mods & PTX_M_INFINITE && infinite) ||
                   (insn->mods & PTX_M_NUMBER && !nan) || (insn->mods & PTX_M_NOTANUMBER && nan) ||
                   (insn->mods & PTX_M_NORMAL && exponent < 255 && (exponent || !fraction)) ||
                   (insn->mods & PTX_M_SUBNORMAL && exponent == 0 && fraction);

        word |= (uint32_t)hit << l;
    }
    *p = (*p & ~mask) | (word & mask);
    return EMU_NEXT;
}

static int testp_f64(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *p = emu_operand(warp, insn, 0), word = 0;
    const uint64_t *a = emu_operand(warp, insn, 1);

    for (unsigned l = 0; l < EMU_LANES; l++) {
        uint64_t exponent = a[l] >> 52 & 2047, fraction = a[l] & 0xfffffffffffffull;
        bool infinite = exponent == 2047 && !fraction, nan = exponent == 2047 && fraction;
        bool hit = (insn->mods & PTX_M_FINITE && exponent < 2047) ||
                   (insn->mods & PTX_M_INFINITE && infinite) ||
                   (insn->mods & PTX_M_NUMBER && !nan) || (insn->mods & PTX_M_NOTANUMBER && nan) ||
                   (insn->mods & PTX_M_NORMAL && exponent < 2047 && (exponent || !fraction)) ||
                   (insn->mods & PTX_M_SUBNORMAL && exponent == 0 && fraction);

        word |= (uint32_t)hit << l;
    }
    *p = (*p & ~mask) | (word & mask);
    return EMU_NEXT;
}

#define FMA     EMU_CLASS_FMA
#define F64     EMU_CLASS_FP64
#define SPECIAL EMU_CLASS_SPECIAL

static const struct ptx_row ROWS[] = {
    {"add{.rn}.f32", "Dt St St", add_f32, FMA, 0},
    {"sub{.rn}.f32", "Dt St St", sub_f32, FMA, 0},
    {"mul{.rn}.f32", "Dt St St", mul_f32, FMA, 0},
    {"fma.rn.f32", "Dt St St St", fma_f32, FMA, 0},
    {"mad{.rn}.f32", "Dt St St St", fma_f32, FMA, 0},
    {"add{.rn}{.ftz}{.sat}.f32", "Dt St St", add_f32_mods, FMA, 0},
    {"sub{.rn}{.ftz}{.sat}.f32", "Dt St St", sub_f32_mods, FMA, 0},
    {"mul{.rn}{.ftz}{.sat}.f32", "Dt St St", mul_f32_mods, FMA, 0},
    {"fma.rn{.ftz}{.sat}.f32", "Dt St St St", fma_f32_mods, FMA, 0},
    {"mad{.rn}{.ftz}{.sat}.f32", "Dt St St St", fma_f32_mods, FMA, 0},
    {"div.rn.f32", "Dt St St", div_f32, SPECIAL, 0},
    {"div.rn.ftz.f32", "Dt St St", div_f32_mods, SPECIAL, 0},
    {"div.approx{.ftz}.f32", "Dt St St", div_f32_approx, SPECIAL, 0},
    {"div.full{.ftz}.f32", "Dt St St", div_f32_mods, SPECIAL, 0},
    {"rcp[.approx|.rn]{.ftz}.f32", "Dt St", rcp_f32, SPECIAL, 0},
    {"sqrt[.approx|.rn]{.ftz}.f32", "Dt St", sqrt_f32, SPECIAL, 0},
    {"rsqrt.approx{.ftz}.f32", "Dt St", rsqrt_f32, SPECIAL, 0},
    {"ex2.approx{.ftz}.f32", "Dt St", ex2_f32, SPECIAL, 0},
    {"lg2.approx{.ftz}.f32", "Dt St", lg2_f32, SPECIAL, 0},
    {"sin.approx{.ftz}.f32", "Dt St", sin_f32, SPECIAL, 0},
    {"cos.approx{.ftz}.f32", "Dt St", cos_f32, SPECIAL, 0},
    {"tanh.approx.f32", "Dt St", tanh_f32, SPECIAL, 0},
    {"abs{.ftz}.f32", "Dt St", abs_f32, FMA, 0},
    {"neg{.ftz}.f32", "Dt St", neg_f32, FMA, 0},
    {"copysign.f32", "Dt St St", copysign_f32, FMA, 0},
    {"min.f32", "Dt St St", min_f32, FMA, 0},
    {"max.f32", "Dt St St", max_f32, FMA, 0},
    {"min{.ftz}{.NaN}{.xorsign}{.abs}.f32", "Dt St St", min_f32_mods, FMA, 0},
    {"max{.ftz}{.NaN}{.xorsign}{.abs}.f32", "Dt St St", max_f32_mods, FMA, 0},
    {"testp[.finite|.infinite|.number|.notanumber|.normal|.subnormal].f32", "P St", testp_f32, FMA,
     0},
    {"testp[.finite|.infinite|.number|.notanumber|.normal|.subnormal].f64", "P St", testp_f64, F64,
     0},
    {"add{.rn}.f64", "Dt St St", add_f64, F64, 0},
    {"sub{.rn}.f64", "Dt St St", sub_f64, F64, 0},
    {"mul{.rn}.f64", "Dt St St", mul_f64, F64, 0},
    {"fma.rn.f64", "Dt St St St", fma_f64, F64, 0},
    {"mad{.rn}.f64", "Dt St St St", fma_f64, F64, 0},
    {"div.rn.f64", "Dt St St", div_f64, F64, 0},
    {"rcp.rn.f64", "Dt St", rcp_f64, F64, 0},
    {"sqrt.rn.f64", "Dt St", sqrt_f64, F64, 0},
    {"rcp.approx.ftz.f64", "Dt St", rcp_approx_f64, SPECIAL, 0},
    {"rsqrt.approx{.ftz}.f64", "Dt St", rsqrt_approx_f64, SPECIAL, 0},
    {"abs.f64", "Dt St", abs_f64, F64, 0},
    {"neg.f64", "Dt St", neg_f64, F64, 0},
    {"copysign.f64", "Dt St St", copysign_f64, F64, 0},
    {"min.f64", "Dt St St", min_f64, F64, 0},
    {"max.f64", "Dt St St", max_f64, F64, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_float), ROWS)
