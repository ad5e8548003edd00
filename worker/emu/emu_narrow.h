/*
 * Narrow floating-point formats: f16, bf16, tf32, e4m3 and e5m2. The fast paths are branch-free
 * enough for vector code; emu_round_narrow() is the general one, right in every rounding mode.
 */
#ifndef GK_WORKER_EMU_EMU_NARROW_H
#define GK_WORKER_EMU_EMU_NARROW_H

#include "worker/emu/ptx_table.h"

#include <string.h>

static inline float emu_float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t emu_bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* Normal halves are rebiased; the subnormal ones are made by a subtraction of normal floats. */
static inline float emu_float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t exponent = rest & 0x0f800000u;
    uint32_t normal = rest + 0x38000000u;
    uint32_t special = rest + 0x70000000u;
    uint32_t tiny = emu_bits_of(emu_float_of(rest + 0x38800000u) - emu_float_of(0x38800000u));
    uint32_t out = exponent == 0x0f800000u ? special : exponent == 0 ? tiny : normal;

    out = (rest > 0x0f800000u) ? 0x7fffffffu : out | sign;
    return emu_float_of(out);
}

static inline uint16_t emu_half_of_float(float x)
{
    uint32_t bits = emu_bits_of(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    /* Adding 0.5 puts a subnormal half's bits at the end of the fraction, rounded to even. */
    uint32_t tiny = emu_bits_of(emu_float_of(rest) + 0.5f) - 0x3f000000u;
    uint32_t normal = (rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13;
    uint32_t out = rest < 0x38800000u ? tiny : rest >= 0x477ff000u ? 0x7c00u : normal;

    return (uint16_t)(rest > 0x7f800000u ? 0x7fffu : out | sign);
}

static inline uint16_t emu_bf16_of_float(float x)
{
    uint32_t bits = emu_bits_of(x);
    uint32_t out = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;

    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : out);
}

struct emu_format {
    int fraction_bits, exponent_bits;
    int bias;
    bool has_infinity; /* e4m3 has none: its largest code is NaN */
};

struct emu_format emu_format_of(uint8_t type);
/* Bits of `x` rounded to the format, in one rounding. Saturates to the largest finite value when
 * asked. Formats of more than 8 bits keep their bits at the low end; tf32 has 19 of them. */
uint32_t emu_round_narrow(double x, uint8_t type, uint8_t round, bool saturate);
double emu_widen_narrow(uint32_t bits, uint8_t type);
/* x + y rounded to odd: may be rounded again to any format of at most 51 bits. */
double emu_add_odd(double x, double y);

#endif
