/*
 * Sums of products as tensor cores make them. Compiled once an instruction set: include it from
 * files that are.
 *
 * A group of products and the accumulator are added at once. Products are exact. All terms are
 * aligned to the largest exponent among them, where the exponent of a product is the sum of those
 * of its factors (so its significand is below 4), and cut toward zero at `fraction` bits behind
 * the point; what is left is added exactly; the sum is cut toward zero to a float, or rounded to
 * nearest to an f16. Subnormal operands keep the exponent of the least normal number.
 *
 * sm_90: group 16 and 25 bits for f16 and bf16, 8 (or what there is) and 25 for tf32; wgmma on 8
 * bits: 32 and 13, and the float keeps 13 bits of its fraction. mma.sync on 8 bits is two groups of
 * 16 as of f16, the even pairs of bytes first, and the accumulator comes last, rounded to nearest.
 * All of this was fitted to results of an H200 with random operands of all magnitudes, and equals
 * half a million others bit for bit (tests/unit/test_emu_dot.c). The same structure stands in two
 * papers: P. Xie et al., MMA-Sim (arXiv 2511.10909); F. A. Khattak,
 * M. Mikaitis, Accurate Models of NVIDIA Tensor Cores (arXiv 2512.07004).
 *
 * sm_80 to sm_89: groups of 8 (tf32: 4) and 24 bits, after the same papers and M. Fasi et al.,
 * Numerical behavior of NVIDIA tensor cores (PeerJ CS 7:e330). We have not seen such hardware: a
 * bound, no promise of bits. 8 bits on sm_89 are as wgmma, in groups of 16.
 */
#ifndef GK_WORKER_EMU_EMU_DOT_H
#define GK_WORKER_EMU_EMU_DOT_H

#include <string.h>

#include "worker/emu/emu_access.h"
#include "worker/emu/emu_narrow.h"

/* Vectors go in and out of static inline functions alone: no ABI lies between. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define EMU_DOT_DEPTH 32     /* products of one instruction, at most */
#define EMU_DOT_ZERO  (-400) /* exponent of zero: below all others, their sums too */
#define EMU_DOT_WILD  512    /* above all others: infinities and NaN */

/* Eight columns; the compiler splits them where the host has shorter vectors. */
typedef double emu_row __attribute__((vector_size(64)));
typedef float emu_row_f32 __attribute__((vector_size(32)));
typedef int32_t emu_row_i32 __attribute__((vector_size(32)));
typedef int64_t emu_row_i64 __attribute__((vector_size(64)));

struct emu_dot {
    uint32_t group;
    int32_t fraction;
    uint32_t cut;             /* bits of the float that become zero */
    bool half;                /* the sum becomes an f16 */
    bool add_last;            /* the accumulator is added to the sum of all products, as a float */
    int32_t least_a, least_b; /* exponents of the least normal operands */
};

/* Rows of A and columns of B, 8 at a time, with their exponents. */
struct emu_dot_b {
    emu_row value[EMU_DOT_DEPTH];
    emu_row_i32 exponent[EMU_DOT_DEPTH];
};

struct emu_dot_a {
    double value[16][EMU_DOT_DEPTH];
    int32_t exponent[16][EMU_DOT_DEPTH];
};

static inline int32_t emu_dot_least(uint8_t type)
{
    return type == PTX_F16 || type == PTX_E5M2 ? -14 : type == PTX_E4M3 ? -6 : -126;
}

/* Types of the operands; `wide`: of a warpgroup. */
static inline struct emu_dot emu_dot_of(const struct emu_warp *warp, uint8_t a, uint8_t b,
                                        bool half, bool wide)
{
    bool bytes = ptx_type_bytes(a) == 1, hopper = warp->run->emu->props.sm_major >= 9;
    struct emu_dot how = {.group = hopper          ? 16
                                   : a == PTX_TF32 ? 4
                                                   : 8,
                          .fraction = hopper ? 25 : 24,
                          .half = half,
                          .least_a = emu_dot_least(a),
                          .least_b = emu_dot_least(b)};

    if (bytes && hopper && !wide) { /* operands become f16 first */
        how.add_last = true;
        how.least_a = how.least_b = -14;
    } else if (bytes) {
        how.group = wide ? 32 : 16;
        how.fraction = 13;
        how.cut = 10;
    }
    return how;
}

static inline int32_t emu_dot_exponent(double x, int32_t least)
{
    uint64_t bits;
    int32_t e;

    memcpy(&bits, &x, sizeof(bits));
    e = (int32_t)(bits >> 52 & 2047) - 1023;
    e = e < least ? least : e;
    return bits << 1 ? e : EMU_DOT_ZERO;
}

static inline void emu_dot_exponents_a(const struct emu_dot *how, struct emu_dot_a *a,
                                       uint32_t rows, uint32_t depth)
{
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = 0; k < depth; k++) {
            a->exponent[r][k] = emu_dot_exponent(a->value[r][k], how->least_a);
        }
    }
}

static inline void emu_dot_exponents_b(const struct emu_dot *how, struct emu_dot_b *b,
                                       uint32_t depth)
{
    for (uint32_t k = 0; k < depth; k++) {
        for (unsigned n = 0; n < 8; n++) {
            b->exponent[k][n] = emu_dot_exponent(b->value[k][n], how->least_b);
        }
    }
}

static inline emu_row emu_dot_cut(emu_row scaled)
{
    /* Terms are below 2^28 in magnitude: conversion to 32 bits cuts toward zero. */
    return __builtin_convertvector(__builtin_convertvector(scaled, emu_row_i32), emu_row);
}

/* 2^e; e between -1022 and 1023. */
static inline emu_row emu_dot_power(emu_row_i32 e)
{
    emu_row_i64 bits = __builtin_convertvector(e + 1023, emu_row_i64) << 52;
    emu_row power;

    memcpy(&power, &bits, sizeof(power));
    return power;
}

/* Lanes with infinities or NaN: as IEEE has it. */
static inline emu_row emu_dot_wild(const double *a, const emu_row *b, uint32_t depth, emu_row c,
                                   emu_row_i32 most, emu_row sum)
{
    for (uint32_t k = 0; k < depth; k++) {
        c += b[k] * a[k];
    }
    for (unsigned n = 0; n < 8; n++) {
        sum[n] = most[n] > EMU_DOT_WILD ? c[n] : sum[n];
    }
    return sum;
}

static inline emu_row emu_dot_group(const double *a, const int32_t *ea, const emu_row *b,
                                    const emu_row_i32 *eb, uint32_t depth, emu_row c,
                                    int32_t least_c, int32_t fraction)
{
    emu_row_i32 most;
    emu_row scale, sum;
    int32_t wild = 0;

    for (unsigned n = 0; n < 8; n++) {
        most[n] = emu_dot_exponent(c[n], least_c);
    }
    for (uint32_t k = 0; k < depth; k++) {
        emu_row_i32 e = eb[k] + ea[k], more = e > most;

        most = (e & more) | (most & ~more);
    }
    scale = emu_dot_power(fraction - most);
    sum = emu_dot_cut(c * scale);
    for (uint32_t k = 0; k < depth; k++) {
        sum += emu_dot_cut(b[k] * a[k] * scale);
    }
    sum *= emu_dot_power(most - fraction);
    for (unsigned n = 0; n < 8; n++) {
        wild |= most[n] > EMU_DOT_WILD;
    }
    return wild ? emu_dot_wild(a, b, depth, c, most, sum) : sum;
}

static inline emu_row emu_dot_magnitude(emu_row x)
{
    emu_row_i64 bits;

    memcpy(&bits, &x, sizeof(bits));
    bits &= INT64_MAX;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* To floats toward zero; what has no exponent there becomes infinite. */
static inline emu_row emu_dot_float(emu_row x, uint32_t cut)
{
    emu_row_f32 f = __builtin_convertvector(x, emu_row_f32);
    emu_row back = __builtin_convertvector(f, emu_row), size = emu_dot_magnitude(x);
    emu_row_i64 over = (emu_dot_magnitude(back) > size) & (size < 0x1p128), real = x == x;
    emu_row_i32 bits;

    memcpy(&bits, &f, sizeof(bits));
    bits += __builtin_convertvector(over, emu_row_i32);
    bits &= ~(__builtin_convertvector(real, emu_row_i32) & (int32_t)((1u << cut) - 1));
    memcpy(&f, &bits, sizeof(f));
    return __builtin_convertvector(f, emu_row);
}

static inline emu_row emu_dot_half(emu_row x)
{
    for (unsigned n = 0; n < 8; n++) {
        x[n] = (double)emu_float_of_half((uint16_t)emu_round_narrow(x[n], PTX_F16, PTX_RN, false));
    }
    return x;
}

/* A row of A, eight columns of B and the accumulators. */
static inline emu_row emu_dot_row(const struct emu_dot *how, const double *a, const int32_t *ea,
                                  const struct emu_dot_b *b, uint32_t depth, emu_row c)
{
    emu_row first = c;

    if (how->add_last) {
        c = (emu_row){0};
    }
    for (uint32_t k = 0; k < depth; k += how->group) {
        uint32_t count = depth - k < how->group ? depth - k : how->group;

        c = emu_dot_group(a + k, ea + k, b->value + k, b->exponent + k, count, c,
                          how->half ? -14 : -126, how->fraction);
        c = how->half ? emu_dot_half(c) : emu_dot_float(c, how->cut);
    }
    if (how->add_last) { /* both are floats, so the sum in double is rounded once */
        c = __builtin_convertvector(__builtin_convertvector(c + first, emu_row_f32), emu_row);
    }
    return c;
}

#endif
