/*
 * Integer, logic, comparison and selection instructions. Compiled once an instruction set.
 * Signed sums and products are computed unsigned: they wrap, as in PTX.
 */
#include "worker/emu/emu_exec.h"

#include <string.h>

/* ------------------------------------------------------------------ arithmetic */

EMU_OP2(add_16, uint16_t, uint16_t, x + y)
EMU_OP2(add_32, uint32_t, uint32_t, x + y)
EMU_OP2(add_64, uint64_t, uint64_t, x + y)
EMU_OP2(sub_16, uint16_t, uint16_t, x - y)
EMU_OP2(sub_32, uint32_t, uint32_t, x - y)
EMU_OP2(sub_64, uint64_t, uint64_t, x - y)

static inline int32_t clamp_s32(int64_t value)
{
    return (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}

EMU_OP2(add_sat_s32, int32_t, int32_t, clamp_s32((int64_t)x + y))
EMU_OP2(sub_sat_s32, int32_t, int32_t, clamp_s32((int64_t)x - y))

EMU_OP2(mul_lo_16, uint16_t, uint16_t, (uint32_t)x *y)
EMU_OP2(mul_lo_32, uint32_t, uint32_t, x *y)
EMU_OP2(mul_lo_64, uint64_t, uint64_t, x *y)
EMU_OP2(mul_hi_s16, int16_t, int16_t, (int32_t)x *y >> 16)
EMU_OP2(mul_hi_u16, uint16_t, uint16_t, (uint32_t)x *y >> 16)
EMU_OP2(mul_hi_s32, int32_t, int32_t, (int64_t)x *y >> 32)
EMU_OP2(mul_hi_u32, uint32_t, uint32_t, (uint64_t)x *y >> 32)
EMU_OP2(mul_hi_s64, int64_t, int64_t, (__extension__(__int128) x * y) >> 64)
EMU_OP2(mul_hi_u64, uint64_t, uint64_t, (__extension__(unsigned __int128) x * y) >> 64)
EMU_OP2(mul_wide_s16, int32_t, int16_t, (int32_t)x *y)
EMU_OP2(mul_wide_u16, uint32_t, uint16_t, (uint32_t)x *y)
EMU_OP2(mul_wide_s32, int64_t, int32_t, (int64_t)x *y)
EMU_OP2(mul_wide_u32, uint64_t, uint32_t, (uint64_t)x *y)

EMU_OP3(mad_lo_16, uint16_t, uint16_t, (uint32_t)x *y + z)
EMU_OP3(mad_lo_32, uint32_t, uint32_t, x *y + z)
EMU_OP3(mad_lo_64, uint64_t, uint64_t, x *y + z)
EMU_OP3(mad_hi_s16, int16_t, int16_t, ((int32_t)x * y >> 16) + z)
EMU_OP3(mad_hi_u16, uint16_t, uint16_t, ((uint32_t)x * y >> 16) + z)
EMU_OP3T(mad_hi_s32, uint32_t, int32_t, uint32_t, (uint32_t)((int64_t)x *y >> 32) + z)
EMU_OP3(mad_hi_sat_s32, int32_t, int32_t, clamp_s32(((int64_t)x * y >> 32) + z))
EMU_OP3(mad_hi_u32, uint32_t, uint32_t, (uint32_t)((uint64_t)x *y >> 32) + z)
EMU_OP3T(mad_hi_s64, uint64_t, int64_t, uint64_t,
         (uint64_t)((__extension__(__int128) x * y) >> 64) + z)
EMU_OP3(mad_hi_u64, uint64_t, uint64_t,
        (uint64_t)((__extension__(unsigned __int128) x * y) >> 64) + z)
EMU_OP3T(mad_wide_s16, uint32_t, int16_t, uint32_t, (uint32_t)((int32_t)x *y) + z)
EMU_OP3T(mad_wide_u16, uint32_t, uint16_t, uint32_t, (uint32_t)x *y + z)
EMU_OP3T(mad_wide_s32, uint64_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)
EMU_OP3T(mad_wide_u32, uint64_t, uint32_t, uint64_t, (uint64_t)x *y + z)

static inline int64_t low24s(int32_t x)
{
    return (int32_t)((uint32_t)x << 8) >> 8;
}

EMU_OP2(mul24_lo_s32, uint32_t, int32_t, (uint64_t)(low24s(x) * low24s(y)))
EMU_OP2(mul24_hi_s32, uint32_t, int32_t, (uint64_t)(low24s(x) * low24s(y)) >> 16)
EMU_OP2(mul24_lo_u32, uint32_t, uint32_t, (uint64_t)(x & 0xffffffu) * (y & 0xffffffu))
EMU_OP2(mul24_hi_u32, uint32_t, uint32_t, (uint64_t)(x & 0xffffffu) * (y & 0xffffffu) >> 16)
EMU_OP3T(mad24_lo_s32, uint32_t, int32_t, uint32_t, (uint32_t)(low24s(x) * low24s(y)) + z)
EMU_OP3(mad24_lo_u32, uint32_t, uint32_t,
        (uint32_t)((uint64_t)(x & 0xffffffu) * (y & 0xffffffu)) + z)

/* Division by zero has no defined result in PTX; all ones is what the hardware gives. */
EMU_OP2(div_u16, uint16_t, uint16_t, y ? x / y : 0xffff)
EMU_OP2(div_s16, int16_t, int16_t, y == 0 ? -1 : (int32_t)x / y)
EMU_OP2(div_u32, uint32_t, uint32_t, y ? x / y : UINT32_MAX)
EMU_OP2(div_s32, int32_t, int32_t, y == 0 ? -1 : y == -1 ? (int32_t)(0u - (uint32_t)x) : x / y)
EMU_OP2(div_u64, uint64_t, uint64_t, y ? x / y : UINT64_MAX)
EMU_OP2(div_s64, int64_t, int64_t, y == 0 ? -1 : y == -1 ? (int64_t)(0u - (uint64_t)x) : x / y)
EMU_OP2(rem_u16, uint16_t, uint16_t, y ? x % y : x)
EMU_OP2(rem_s16, int16_t, int16_t, y == 0 ? x : (int32_t)x % y)
EMU_OP2(rem_u32, uint32_t, uint32_t, y ? x % y : x)
EMU_OP2(rem_s32, int32_t, int32_t, y == 0 ? x : y == -1 ? 0 : x % y)
EMU_OP2(rem_u64, uint64_t, uint64_t, y ? x % y : x)
EMU_OP2(rem_s64, int64_t, int64_t, y == 0 ? x : y == -1 ? 0 : x % y)

EMU_OP1(abs_s16, uint16_t, int16_t, x < 0 ? 0 - x : x)
EMU_OP1(abs_s32, uint32_t, uint32_t, x >> 31 ? 0u - x : x)
EMU_OP1(abs_s64, uint64_t, uint64_t, x >> 63 ? 0u - x : x)
EMU_OP1(neg_16, uint16_t, uint16_t, 0u - x)
EMU_OP1(neg_32, uint32_t, uint32_t, 0u - x)
EMU_OP1(neg_64, uint64_t, uint64_t, 0u - x)

#define MIN_MAX(suffix, type)                                                                      \
    EMU_OP2(min_##suffix, type, type, x < y ? x : y)                                               \
    EMU_OP2(max_##suffix, type, type, x > y ? x : y)
MIN_MAX(s16, int16_t)
MIN_MAX(u16, uint16_t)
MIN_MAX(s32, int32_t)
MIN_MAX(u32, uint32_t)
MIN_MAX(s64, int64_t)
MIN_MAX(u64, uint64_t)
EMU_OP2(min_relu_s32, int32_t, int32_t, (x < y ? x : y) < 0 ? 0 : x < y ? x : y)
EMU_OP2(max_relu_s32, int32_t, int32_t, (x > y ? x : y) < 0 ? 0 : x > y ? x : y)

static inline uint32_t halves(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}

#define LOW_S(v)  ((int32_t)(int16_t)(v))
#define HIGH_S(v) ((int32_t)(v) >> 16)
EMU_OP2(add_16x2, uint32_t, uint32_t, halves(x + y, (x >> 16) + (y >> 16)))
EMU_OP2(min_s16x2, uint32_t, uint32_t,
        halves((uint32_t)(LOW_S(x) < LOW_S(y) ? LOW_S(x) : LOW_S(y)),
               (uint32_t)(HIGH_S(x) < HIGH_S(y) ? HIGH_S(x) : HIGH_S(y))))
EMU_OP2(max_s16x2, uint32_t, uint32_t,
        halves((uint32_t)(LOW_S(x) > LOW_S(y) ? LOW_S(x) : LOW_S(y)),
               (uint32_t)(HIGH_S(x) > HIGH_S(y) ? HIGH_S(x) : HIGH_S(y))))
EMU_OP2(min_u16x2, uint32_t, uint32_t,
        halves((x & 0xffff) < (y & 0xffff) ? x : y, x >> 16 < y >> 16 ? x >> 16 : y >> 16))
EMU_OP2(max_u16x2, uint32_t, uint32_t,
        halves((x & 0xffff) > (y & 0xffff) ? x : y, x >> 16 > y >> 16 ? x >> 16 : y >> 16))

EMU_OP3(sad_s32, uint32_t, int32_t,
        (uint32_t)z + (uint32_t)(x < y ? (int64_t)y - x : (int64_t)x - y))
EMU_OP3(sad_u32, uint32_t, uint32_t, z + (x < y ? y - x : x - y))
EMU_OP3(sad_s16, uint16_t, int16_t, z + (x < y ? y - x : x - y))
EMU_OP3(sad_u16, uint16_t, uint16_t, z + (x < y ? y - x : x - y))
EMU_OP3(sad_s64, uint64_t, int64_t,
        (uint64_t)z + (x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y))
EMU_OP3(sad_u64, uint64_t, uint64_t, z + (x < y ? y - x : x - y))

/* ------------------------------------------------------------------ carries */

/* The carry flag is one bit a lane; sub bit 0: reads it, bit 1: writes it (.cc), bit 2: subtracts.
 * For a subtraction the flag is a borrow. */
#define CARRY(name, type, wide)                                                                    \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        type *d = emu_operand(warp, insn, 0);                                                      \
        const type *a = emu_operand(warp, insn, 1);                                                \
        const type *b = emu_operand(warp, insn, 2);                                                \
        bool subtract = insn->sub & 4;                                                             \
                                                                                                   \
        for (uint32_t left = mask; left; left &= left - 1) {                                       \
            unsigned l = (unsigned)__builtin_ctz(left);                                            \
            wide in = insn->sub & 1 ? warp->carry >> l & 1 : 0;                                    \
            wide sum = subtract ? (wide)a[l] - b[l] - in : (wide)a[l] + b[l] + in;                 \
            uint32_t out = (uint32_t)(sum >> sizeof(type) * 8) & 1;                                \
                                                                                                   \
            d[l] = (type)sum;                                                                      \
            if (insn->sub & 2) {                                                                   \
                warp->carry = (warp->carry & ~(1u << l)) | out << l;                               \
            }                                                                                      \
        }                                                                                          \
        return EMU_NEXT;                                                                           \
    }
__extension__ typedef unsigned __int128 wide_64;
CARRY(carry_32, uint32_t, uint64_t)
CARRY(carry_64, uint64_t, wide_64)

/* mad.{lo,hi}.cc and madc: sub bits as above. */
static int carry_mad_32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    const uint32_t *b = emu_operand(warp, insn, 2);
    const uint32_t *c = emu_operand(warp, insn, 3);

    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);
        uint64_t product = insn->type == PTX_S32
                               ? (uint64_t)((int64_t)(int32_t)a[l] * (int32_t)b[l])
                               : (uint64_t)a[l] * b[l];
        uint64_t part = insn->mods & PTX_M_HI ? product >> 32 : product & UINT32_MAX;
        uint64_t sum = part + c[l] + (insn->sub & 1 ? warp->carry >> l & 1 : 0);

        d[l] = (uint32_t)sum;
        if (insn->sub & 2) {
            warp->carry = (warp->carry & ~(1u << l)) | (uint32_t)(sum >> 32) << l;
        }
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ bits */

EMU_OP2(and_16, uint16_t, uint16_t, x &y)
EMU_OP2(and_32, uint32_t, uint32_t, x &y)
EMU_OP2(and_64, uint64_t, uint64_t, x &y)
EMU_OP2(or_16, uint16_t, uint16_t, x | y)
EMU_OP2(or_32, uint32_t, uint32_t, x | y)
EMU_OP2(or_64, uint64_t, uint64_t, x | y)
EMU_OP2(xor_16, uint16_t, uint16_t, x ^ y)
EMU_OP2(xor_32, uint32_t, uint32_t, x ^ y)
EMU_OP2(xor_64, uint64_t, uint64_t, x ^ y)
EMU_OP1(not_16, uint16_t, uint16_t, ~x)
EMU_OP1(not_32, uint32_t, uint32_t, ~x)
EMU_OP1(not_64, uint64_t, uint64_t, ~x)
EMU_OP1(cnot_16, uint16_t, uint16_t, x == 0)
EMU_OP1(cnot_32, uint32_t, uint32_t, x == 0)
EMU_OP1(cnot_64, uint64_t, uint64_t, x == 0)

/* Shift amounts beyond the width give zero, or the sign. */
EMU_OP2T(shl_16, uint16_t, uint16_t, uint32_t, y > 15 ? 0 : (uint32_t)x << y)
EMU_OP2T(shl_32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x << (y & 31))
EMU_OP2T(shl_64, uint64_t, uint64_t, uint32_t, y > 63 ? 0 : x << (y & 63))
EMU_OP2T(shr_u16, uint16_t, uint16_t, uint32_t, y > 15 ? 0 : x >> (y & 15))
EMU_OP2T(shr_u32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x >> (y & 31))
EMU_OP2T(shr_u64, uint64_t, uint64_t, uint32_t, y > 63 ? 0 : x >> (y & 63))
EMU_OP2T(shr_s16, int16_t, int16_t, uint32_t, x >> (y > 15 ? 15 : y))
EMU_OP2T(shr_s32, int32_t, int32_t, uint32_t, x >> (y > 31 ? 31 : y))
EMU_OP2T(shr_s64, int64_t, int64_t, uint32_t, x >> (y > 63 ? 63 : y))

static inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t amount, bool left, bool wrap)
{
    uint64_t pair = (uint64_t)high << 32 | low;
    uint32_t n = wrap ? amount & 31 : amount > 32 ? 32 : amount;

    return left ? (uint32_t)(pair >> (32 - n)) : (uint32_t)(pair >> n);
}

EMU_OP3(shf_l_wrap, uint32_t, uint32_t, funnel(x, y, z, true, true))
EMU_OP3(shf_l_clamp, uint32_t, uint32_t, funnel(x, y, z, true, false))
EMU_OP3(shf_r_wrap, uint32_t, uint32_t, funnel(x, y, z, false, true))
EMU_OP3(shf_r_clamp, uint32_t, uint32_t, funnel(x, y, z, false, false))

EMU_OP1(popc_32, uint32_t, uint32_t, __builtin_popcount(x))
EMU_OP1(popc_64, uint32_t, uint64_t, __builtin_popcountll(x))
EMU_OP1(clz_32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
EMU_OP1(clz_64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)

static inline uint32_t reverse_32(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

EMU_OP1(brev_32, uint32_t, uint32_t, reverse_32(x))
EMU_OP1(brev_64, uint64_t, uint64_t,
        (uint64_t)reverse_32((uint32_t)x) << 32 | reverse_32((uint32_t)(x >> 32)))

/* Position of the highest bit that differs from the sign; shiftamt: how far to shift it up. */
static inline uint32_t find_bit(uint64_t x, bool is_signed, unsigned bits, bool shift)
{
    uint32_t at;

    if (is_signed && x >> (bits - 1) & 1) {
        x = ~x;
    }
    x = bits == 32 ? (uint32_t)x : x;
    if (!x) {
        return UINT32_MAX;
    }
    at = 63u - (uint32_t)__builtin_clzll(x);
    return shift ? bits - 1 - at : at;
}

EMU_OP1(bfind_u32, uint32_t, uint32_t, find_bit(x, false, 32, insn->mods &PTX_M_SHIFTAMT))
EMU_OP1(bfind_s32, uint32_t, uint32_t, find_bit(x, true, 32, insn->mods &PTX_M_SHIFTAMT))
EMU_OP1(bfind_u64, uint32_t, uint64_t, find_bit(x, false, 64, insn->mods &PTX_M_SHIFTAMT))
EMU_OP1(bfind_s64, uint32_t, uint64_t, find_bit(x, true, 64, insn->mods &PTX_M_SHIFTAMT))

static inline uint64_t extract(uint64_t x, uint32_t first, uint32_t count, unsigned bits,
                               bool is_signed)
{
    uint64_t sign, out;
    unsigned last;

    first &= 255;
    count &= 255;
    if (!count) {
        return 0;
    }
    last = first + count - 1;
    sign = is_signed ? x >> (last > bits - 1 ? bits - 1 : last) & 1 : 0;
    out = first >= bits ? 0 : x >> first;
    /* Bits at and above `count`, and those that came from beyond the register, become the sign. */
    for (unsigned known = first >= bits ? 0 : bits - first;;) {
        known = known < count ? known : count;
        if (known >= 64) {
            return out;
        }
        out &= (1ull << known) - 1;
        return sign ? out | ~0ull << known : out;
    }
}

EMU_OP3T(bfe_u32, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, false))
EMU_OP3T(bfe_s32, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, true))

#define BFE64(name, is_signed)                                                                     \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        uint64_t *d = emu_operand(warp, insn, 0);                                                  \
        const uint64_t *a = emu_operand(warp, insn, 1);                                            \
        const uint32_t *b = emu_operand(warp, insn, 2);                                            \
        const uint32_t *c = emu_operand(warp, insn, 3);                                            \
        EMU_FOR_LANES(mask, d[l] = extract(a[l], b[l], c[l], 64, is_signed));                      \
        return EMU_NEXT;                                                                           \
    }
BFE64(bfe_u64, false)
BFE64(bfe_s64, true)

static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t first, uint32_t count, unsigned bits)
{
    uint64_t field;

    first &= 255;
    count &= 255;
    if (first >= bits || !count) {
        return b;
    }
    field = count >= 64 ? ~0ull : (1ull << count) - 1;
    field <<= first;
    return (b & ~field) | (a << first & field);
}

#define BFI(name, type, bits)                                                                      \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        type *d = emu_operand(warp, insn, 0);                                                      \
        const type *a = emu_operand(warp, insn, 1);                                                \
        const type *b = emu_operand(warp, insn, 2);                                                \
        const uint32_t *c = emu_operand(warp, insn, 3);                                            \
        const uint32_t *e = emu_operand(warp, insn, 4);                                            \
        EMU_FOR_LANES(mask, d[l] = (type)insert(a[l], b[l], c[l], e[l], bits));                    \
        return EMU_NEXT;                                                                           \
    }
BFI(bfi_32, uint32_t, 32)
BFI(bfi_64, uint64_t, 64)

static inline uint32_t bit_mask(uint32_t first, uint32_t count, bool wrap)
{
    if (wrap) {
        first &= 31;
        count &= 31;
    }
    if (first >= 32 || !count) {
        return 0;
    }
    return (count >= 32 ? UINT32_MAX : (1u << count) - 1) << first;
}

EMU_OP2(bmsk_clamp, uint32_t, uint32_t, bit_mask(x, y, false))
EMU_OP2(bmsk_wrap, uint32_t, uint32_t, bit_mask(x, y, true))

static inline uint32_t find_nth(uint32_t bits, uint32_t base, int32_t n)
{
    int step = n < 0 ? -1 : 1;
    int32_t left = n < 0 ? -n : n;

    if (n == 0) {
        return base < 32 && bits >> base & 1 ? base : UINT32_MAX;
    }
    for (int at = (int)base; at >= 0 && at < 32; at += step) {
        if (bits >> at & 1 && --left == 0) {
            return (uint32_t)at;
        }
    }
    return UINT32_MAX;
}

EMU_OP3T(fns_32, uint32_t, uint32_t, int32_t, find_nth(x, y & 31, z))

/* lop3: the table's bit i is the result for inputs a, b, c = bits 2, 1, 0 of i. */
static int lop3_32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    const uint32_t *b = emu_operand(warp, insn, 2);
    const uint32_t *c = emu_operand(warp, insn, 3);
    uint32_t t[8];

    for (unsigned i = 0; i < 8; i++) {
        t[i] = insn->imm >> i & 1 ? UINT32_MAX : 0;
    }
    EMU_FOR_LANES(mask, const uint32_t x = a[l]; const uint32_t y = b[l]; const uint32_t z = c[l];
                  d[l] = (~x & ~y & ~z & t[0]) | (~x & ~y & z & t[1]) | (~x & y & ~z & t[2]) |
                         (~x & y & z & t[3]) | (x & ~y & ~z & t[4]) | (x & ~y & z & t[5]) |
                         (x & y & ~z & t[6]) | (x & y & z & t[7]));
    return EMU_NEXT;
}

static inline uint32_t permute_byte(uint64_t bytes, uint32_t selector)
{
    uint32_t byte = (uint32_t)(bytes >> (selector & 7) * 8) & 255;

    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t c, uint64_t mode)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t s = c & 3, out = 0;

    for (uint32_t i = 0; i < 4; i++) {
        uint32_t selector = c >> i * 4 & 15;

        if (mode & PTX_M_F4E) {
            selector = s + i;
        } else if (mode & PTX_M_B4E) {
            selector = (s - i) & 7;
        } else if (mode & PTX_M_RC8) {
            selector = s;
        } else if (mode & PTX_M_ECL) {
            selector = s > i ? s : i;
        } else if (mode & PTX_M_ECR) {
            selector = s < i ? s : i;
        } else if (mode & PTX_M_RC16) {
            selector = (s & 1) * 2 + (i & 1);
        }
        out |= permute_byte(bytes, selector) << i * 8;
    }
    return out;
}

EMU_OP3(prmt_32, uint32_t, uint32_t, permute(x, y, z, insn->mods))

static inline int32_t byte_of(uint32_t x, unsigned i, bool is_signed)
{
    return is_signed ? (int8_t)(x >> i * 8) : (int32_t)(x >> i * 8 & 255);
}

static int dp4a(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    const uint32_t *b = emu_operand(warp, insn, 2);
    const uint32_t *c = emu_operand(warp, insn, 3);
    const bool sa = insn->type == PTX_S32;
    const bool sb = insn->type2 == PTX_S32;

    EMU_FOR_LANES(
        mask, uint32_t sum = c[l]; for (unsigned i = 0; i < 4; i++) {
            sum += (uint32_t)(byte_of(a[l], i, sa) * byte_of(b[l], i, sb));
        } d[l] = sum);
    return EMU_NEXT;
}

static int dp2a(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    const uint32_t *b = emu_operand(warp, insn, 2);
    const uint32_t *c = emu_operand(warp, insn, 3);
    const bool sa = insn->type == PTX_S32;
    const bool sb = insn->type2 == PTX_S32;
    const unsigned base = insn->mods & PTX_M_HI ? 2 : 0;

    EMU_FOR_LANES(
        mask, uint32_t sum = c[l]; for (unsigned i = 0; i < 2; i++) {
            int32_t half = sa ? (int16_t)(a[l] >> i * 16) : (int32_t)(a[l] >> i * 16 & 0xffff);

            sum += (uint32_t)half * (uint32_t)byte_of(b[l], base + i, sb);
        } d[l] = sum);
    return EMU_NEXT;
}

/* vabsdiff4: differences of four bytes, added up with .add. */
static int absolute_differences(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    const uint32_t *b = emu_operand(warp, insn, 2);
    const uint32_t *c = emu_operand(warp, insn, 3);
    const bool sa = insn->type2 == PTX_S32;
    const bool sb = insn->type3 == PTX_S32;

    EMU_FOR_LANES(
        mask, uint32_t sum = c[l]; uint32_t bytes = 0; for (unsigned i = 0; i < 4; i++) {
            int32_t apart = byte_of(a[l], i, sa) - byte_of(b[l], i, sb);
            uint32_t size = (uint32_t)(apart < 0 ? -apart : apart);

            sum += size;
            bytes |= (size & 255) << i * 8;
        } d[l] = insn->atom == PTX_ADD ? sum : bytes);
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ predicates */

static void put_pred(struct emu_warp *warp, const struct emu_insn *insn, unsigned index,
                     uint32_t mask, uint32_t value)
{
    uint32_t *p = emu_operand(warp, insn, index);

    *p = (*p & ~mask) | (value & mask);
}

static uint32_t get_pred(struct emu_warp *warp, const struct emu_insn *insn, unsigned index)
{
    const uint32_t *p = emu_operand(warp, insn, index);

    return *p;
}

static int and_pred(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    put_pred(warp, insn, 0, mask, get_pred(warp, insn, 1) & get_pred(warp, insn, 2));
    return EMU_NEXT;
}

static int or_pred(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    put_pred(warp, insn, 0, mask, get_pred(warp, insn, 1) | get_pred(warp, insn, 2));
    return EMU_NEXT;
}

static int xor_pred(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    put_pred(warp, insn, 0, mask, get_pred(warp, insn, 1) ^ get_pred(warp, insn, 2));
    return EMU_NEXT;
}

static int not_pred(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    put_pred(warp, insn, 0, mask, ~get_pred(warp, insn, 1));
    return EMU_NEXT;
}

/* The boolean part of setp: results p and q of the comparison word. */
static int finish_setp(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
                       uint32_t compare)
{
    uint32_t p = compare, q = ~compare;

    if (insn->op[4] >= 0) {
        uint32_t c = get_pred(warp, insn, 4);

        c = insn->sub & PTX_SUB_NEGATED ? ~c : c;
        if (insn->atom == PTX_AND) {
            p &= c;
            q &= c;
        } else if (insn->atom == PTX_OR) {
            p |= c;
            q |= c;
        } else {
            p ^= c;
            q ^= c;
        }
    }
    put_pred(warp, insn, 0, mask, p);
    put_pred(warp, insn, 1, mask, q);
    return EMU_NEXT;
}

#define COMPARE_CASE(code, ...)                                                                    \
    case code:                                                                                     \
        EMU_VECTOR                                                                                 \
        for (unsigned l = 0; l < EMU_LANES; l++) {                                                 \
            hit[l] = (uint8_t)(__VA_ARGS__);                                                       \
        }                                                                                          \
        break

static inline uint32_t gather_bits(const uint8_t *hit)
{
    uint32_t word = 0;

    for (unsigned i = 0; i < 4; i++) {
        uint64_t eight;

        memcpy(&eight, hit + i * 8, sizeof(eight));
        word |= (uint32_t)(eight * 0x0102040810204080ull >> 56) << i * 8;
    }
    return word;
}

/* Lanes outside the mask are compared as well: their registers exist, and the result is masked. */
#define SETP_INT(name, type)                                                                       \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        const type *a = emu_operand(warp, insn, 2);                                                \
        const type *b = emu_operand(warp, insn, 3);                                                \
        _Alignas(32) uint8_t hit[EMU_LANES];                                                       \
                                                                                                   \
        switch (insn->cmp) {                                                                       \
            COMPARE_CASE(PTX_EQ, a[l] == b[l]);                                                    \
            COMPARE_CASE(PTX_NE, a[l] != b[l]);                                                    \
        case PTX_LO:                                                                               \
            COMPARE_CASE(PTX_LT, a[l] < b[l]);                                                     \
        case PTX_LS:                                                                               \
            COMPARE_CASE(PTX_LE, a[l] <= b[l]);                                                    \
        case PTX_HI:                                                                               \
            COMPARE_CASE(PTX_GT, a[l] > b[l]);                                                     \
        default:                                                                                   \
            COMPARE_CASE(PTX_GE, a[l] >= b[l]);                                                    \
        }                                                                                          \
        return finish_setp(warp, insn, mask, gather_bits(hit));                                    \
    }
SETP_INT(setp_s16, int16_t)
SETP_INT(setp_u16, uint16_t)
SETP_INT(setp_s32, int32_t)
SETP_INT(setp_u32, uint32_t)
SETP_INT(setp_s64, int64_t)
SETP_INT(setp_u64, uint64_t)

#define SETP_FLOAT(name, type, fix)                                                                \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        const type *pa = emu_operand(warp, insn, 2);                                               \
        const type *pb = emu_operand(warp, insn, 3);                                               \
        type a[EMU_LANES], b[EMU_LANES];                                                           \
        _Alignas(32) uint8_t hit[EMU_LANES];                                                       \
                                                                                                   \
        for (unsigned l = 0; l < EMU_LANES; l++) {                                                 \
            a[l] = fix(insn, pa[l]);                                                               \
            b[l] = fix(insn, pb[l]);                                                               \
        }                                                                                          \
        switch (insn->cmp) {                                                                       \
            COMPARE_CASE(PTX_EQ, a[l] == b[l]);                                                    \
            COMPARE_CASE(PTX_NE, a[l]<b[l] || a[l]> b[l]);                                         \
            COMPARE_CASE(PTX_LT, a[l] < b[l]);                                                     \
            COMPARE_CASE(PTX_LE, a[l] <= b[l]);                                                    \
            COMPARE_CASE(PTX_GT, a[l] > b[l]);                                                     \
            COMPARE_CASE(PTX_GE, a[l] >= b[l]);                                                    \
            COMPARE_CASE(PTX_EQU, !(a[l] < b[l] || a[l] > b[l]));                                  \
            COMPARE_CASE(PTX_NEU, !(a[l] == b[l]));                                                \
            COMPARE_CASE(PTX_LTU, !(a[l] >= b[l]));                                                \
            COMPARE_CASE(PTX_LEU, !(a[l] > b[l]));                                                 \
            COMPARE_CASE(PTX_GTU, !(a[l] <= b[l]));                                                \
            COMPARE_CASE(PTX_GEU, !(a[l] < b[l]));                                                 \
            COMPARE_CASE(PTX_NUM, a[l] == a[l] && b[l] == b[l]);                                   \
        default:                                                                                   \
            COMPARE_CASE(PTX_NAN, a[l] != a[l] || b[l] != b[l]);                                   \
        }                                                                                          \
        return finish_setp(warp, insn, mask, gather_bits(hit));                                    \
    }

static inline float flush(const struct emu_insn *insn, float x)
{
    return insn->mods & PTX_M_FTZ && x > -0x1p-126f && x < 0x1p-126f ? 0.0f : x;
}

static inline double keep(const struct emu_insn *insn, double x)
{
    (void)insn;
    return x;
}

SETP_FLOAT(setp_f32, float, flush)
SETP_FLOAT(setp_f64, double, keep)

/* set.CMP{.bool}.dtype.stype: a setp into the sink's words, then all ones or 1.0 where it holds. */
static int set_32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    struct emu_insn probe = *insn;
    uint32_t *d = emu_operand(warp, insn, 0), hit;

    probe.op[2] = insn->op[1];
    probe.op[3] = insn->op[2];
    probe.op[4] = insn->op[3];
    probe.op[0] = warp->run->kernel->sink;
    probe.op[1] = warp->run->kernel->sink + 4;
    switch (insn->type2) {
    case PTX_S16:
        (void)setp_s16(warp, &probe, mask);
        break;
    case PTX_U16:
    case PTX_B16:
        (void)setp_u16(warp, &probe, mask);
        break;
    case PTX_S32:
        (void)setp_s32(warp, &probe, mask);
        break;
    case PTX_S64:
        (void)setp_s64(warp, &probe, mask);
        break;
    case PTX_U64:
    case PTX_B64:
        (void)setp_u64(warp, &probe, mask);
        break;
    case PTX_F32:
        (void)setp_f32(warp, &probe, mask);
        break;
    case PTX_F64:
        (void)setp_f64(warp, &probe, mask);
        break;
    default:
        (void)setp_u32(warp, &probe, mask);
        break;
    }
    hit = get_pred(warp, &probe, 0);
    for (unsigned l = 0; l < EMU_LANES; l++) {
        if (mask >> l & 1) {
            d[l] = hit >> l & 1 ? (insn->type == PTX_F32 ? 0x3f800000u : UINT32_MAX) : 0;
        }
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ selection */

#define SELECT(name, type)                                                                         \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        type *d = emu_operand(warp, insn, 0);                                                      \
        const type *a = emu_operand(warp, insn, 1);                                                \
        const type *b = emu_operand(warp, insn, 2);                                                \
        uint32_t p = get_pred(warp, insn, 3);                                                      \
        p = insn->sub & PTX_SUB_NEGATED ? ~p : p;                                                  \
        EMU_FOR_LANES(mask, d[l] = p >> l & 1 ? a[l] : b[l]);                                      \
        return EMU_NEXT;                                                                           \
    }
SELECT(selp_16, uint16_t)
SELECT(selp_32, uint32_t)
SELECT(selp_64, uint64_t)

EMU_OP3T(slct_32_s32, uint32_t, uint32_t, int32_t, z >= 0 ? x : y)
EMU_OP3T(slct_64_s32, uint64_t, uint64_t, int32_t, z >= 0 ? x : y)
EMU_OP3T(slct_16_s32, uint16_t, uint16_t, int32_t, z >= 0 ? x : y)
EMU_OP3T(slct_32_f32, uint32_t, uint32_t, float, flush(insn, z) >= 0 ? x : y)
EMU_OP3T(slct_64_f32, uint64_t, uint64_t, float, flush(insn, z) >= 0 ? x : y)
EMU_OP3T(slct_16_f32, uint16_t, uint16_t, float, flush(insn, z) >= 0 ? x : y)

#define INT       EMU_CLASS_INT
#define BOOLEAN   "{.and|.or|.xor}"
#define CMP_INT   "[.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs]"
#define CMP_FLOAT "[.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan]"

static const struct ptx_row ROWS[] = {
    {"add[.s16|.u16]", "Dt St St", add_16, INT, 0},
    {"add[.s32|.u32]", "Dt St St", add_32, INT, 0},
    {"add[.s64|.u64]", "Dt St St", add_64, INT, 0},
    {"add.sat.s32", "Dt St St", add_sat_s32, INT, 0},
    {"add[.s16x2|.u16x2]", "Dw Sw Sw", add_16x2, INT, 0},
    {"sub[.s16|.u16]", "Dt St St", sub_16, INT, 0},
    {"sub[.s32|.u32]", "Dt St St", sub_32, INT, 0},
    {"sub[.s64|.u64]", "Dt St St", sub_64, INT, 0},
    {"sub.sat.s32", "Dt St St", sub_sat_s32, INT, 0},
    {"add.cc[.s32|.u32]", "Dt St St", carry_32, INT, 2},
    {"add.cc[.s64|.u64]", "Dt St St", carry_64, INT, 2},
    {"addc[.s32|.u32]", "Dt St St", carry_32, INT, 1},
    {"addc[.s64|.u64]", "Dt St St", carry_64, INT, 1},
    {"addc.cc[.s32|.u32]", "Dt St St", carry_32, INT, 3},
    {"addc.cc[.s64|.u64]", "Dt St St", carry_64, INT, 3},
    {"sub.cc[.s32|.u32]", "Dt St St", carry_32, INT, 6},
    {"sub.cc[.s64|.u64]", "Dt St St", carry_64, INT, 6},
    {"subc[.s32|.u32]", "Dt St St", carry_32, INT, 5},
    {"subc[.s64|.u64]", "Dt St St", carry_64, INT, 5},
    {"subc.cc[.s32|.u32]", "Dt St St", carry_32, INT, 7},
    {"subc.cc[.s64|.u64]", "Dt St St", carry_64, INT, 7},
    {"mad[.lo|.hi].cc[.s32|.u32]", "Dt St St St", carry_mad_32, INT, 2},
    {"madc[.lo|.hi][.s32|.u32]", "Dt St St St", carry_mad_32, INT, 1},
    {"madc[.lo|.hi].cc[.s32|.u32]", "Dt St St St", carry_mad_32, INT, 3},
    {"mul.lo[.s16|.u16]", "Dt St St", mul_lo_16, INT, 0},
    {"mul.lo[.s32|.u32]", "Dt St St", mul_lo_32, INT, 0},
    {"mul.lo[.s64|.u64]", "Dt St St", mul_lo_64, INT, 0},
    {"mul.hi.s16", "Dt St St", mul_hi_s16, INT, 0},
    {"mul.hi.u16", "Dt St St", mul_hi_u16, INT, 0},
    {"mul.hi.s32", "Dt St St", mul_hi_s32, INT, 0},
    {"mul.hi.u32", "Dt St St", mul_hi_u32, INT, 0},
    {"mul.hi.s64", "Dt St St", mul_hi_s64, INT, 0},
    {"mul.hi.u64", "Dt St St", mul_hi_u64, INT, 0},
    {"mul.wide.s16", "D2 St St", mul_wide_s16, INT, 0},
    {"mul.wide.u16", "D2 St St", mul_wide_u16, INT, 0},
    {"mul.wide.s32", "D2 St St", mul_wide_s32, INT, 0},
    {"mul.wide.u32", "D2 St St", mul_wide_u32, INT, 0},
    {"mad.lo[.s16|.u16]", "Dt St St St", mad_lo_16, INT, 0},
    {"mad.lo[.s32|.u32]", "Dt St St St", mad_lo_32, INT, 0},
    {"mad.lo[.s64|.u64]", "Dt St St St", mad_lo_64, INT, 0},
    {"mad.hi.s16", "Dt St St St", mad_hi_s16, INT, 0},
    {"mad.hi.u16", "Dt St St St", mad_hi_u16, INT, 0},
    {"mad.hi.s32", "Dt St St St", mad_hi_s32, INT, 0},
    {"mad.hi.sat.s32", "Dt St St St", mad_hi_sat_s32, INT, 0},
    {"mad.hi.u32", "Dt St St St", mad_hi_u32, INT, 0},
    {"mad.hi.s64", "Dt St St St", mad_hi_s64, INT, 0},
    {"mad.hi.u64", "Dt St St St", mad_hi_u64, INT, 0},
    {"mad.wide.s16", "D2 St St S2", mad_wide_s16, INT, 0},
    {"mad.wide.u16", "D2 St St S2", mad_wide_u16, INT, 0},
    {"mad.wide.s32", "D2 St St S2", mad_wide_s32, INT, 0},
    {"mad.wide.u32", "D2 St St S2", mad_wide_u32, INT, 0},
    {"mul24.lo.s32", "Dt St St", mul24_lo_s32, INT, 0},
    {"mul24.hi.s32", "Dt St St", mul24_hi_s32, INT, 0},
    {"mul24.lo.u32", "Dt St St", mul24_lo_u32, INT, 0},
    {"mul24.hi.u32", "Dt St St", mul24_hi_u32, INT, 0},
    {"mad24.lo.s32", "Dt St St St", mad24_lo_s32, INT, 0},
    {"mad24.lo.u32", "Dt St St St", mad24_lo_u32, INT, 0},
    {"div.u16", "Dt St St", div_u16, INT, 0},
    {"div.s16", "Dt St St", div_s16, INT, 0},
    {"div.u32", "Dt St St", div_u32, INT, 0},
    {"div.s32", "Dt St St", div_s32, INT, 0},
    {"div.u64", "Dt St St", div_u64, INT, 0},
    {"div.s64", "Dt St St", div_s64, INT, 0},
    {"rem.u16", "Dt St St", rem_u16, INT, 0},
    {"rem.s16", "Dt St St", rem_s16, INT, 0},
    {"rem.u32", "Dt St St", rem_u32, INT, 0},
    {"rem.s32", "Dt St St", rem_s32, INT, 0},
    {"rem.u64", "Dt St St", rem_u64, INT, 0},
    {"rem.s64", "Dt St St", rem_s64, INT, 0},
    {"abs.s16", "Dt St", abs_s16, INT, 0},
    {"abs.s32", "Dt St", abs_s32, INT, 0},
    {"abs.s64", "Dt St", abs_s64, INT, 0},
    {"neg.s16", "Dt St", neg_16, INT, 0},
    {"neg.s32", "Dt St", neg_32, INT, 0},
    {"neg.s64", "Dt St", neg_64, INT, 0},
    {"min.s16", "Dt St St", min_s16, INT, 0},
    {"min.u16", "Dt St St", min_u16, INT, 0},
    {"min.s32", "Dt St St", min_s32, INT, 0},
    {"min.u32", "Dt St St", min_u32, INT, 0},
    {"min.s64", "Dt St St", min_s64, INT, 0},
    {"min.u64", "Dt St St", min_u64, INT, 0},
    {"max.s16", "Dt St St", max_s16, INT, 0},
    {"max.u16", "Dt St St", max_u16, INT, 0},
    {"max.s32", "Dt St St", max_s32, INT, 0},
    {"max.u32", "Dt St St", max_u32, INT, 0},
    {"max.s64", "Dt St St", max_s64, INT, 0},
    {"max.u64", "Dt St St", max_u64, INT, 0},
    {"min.relu.s32", "Dt St St", min_relu_s32, INT, 0},
    {"max.relu.s32", "Dt St St", max_relu_s32, INT, 0},
    {"min.s16x2", "Dw Sw Sw", min_s16x2, INT, 0},
    {"max.s16x2", "Dw Sw Sw", max_s16x2, INT, 0},
    {"min.u16x2", "Dw Sw Sw", min_u16x2, INT, 0},
    {"max.u16x2", "Dw Sw Sw", max_u16x2, INT, 0},
    {"sad.s16", "Dt St St St", sad_s16, INT, 0},
    {"sad.u16", "Dt St St St", sad_u16, INT, 0},
    {"sad.s32", "Dt St St St", sad_s32, INT, 0},
    {"sad.u32", "Dt St St St", sad_u32, INT, 0},
    {"sad.s64", "Dt St St St", sad_s64, INT, 0},
    {"sad.u64", "Dt St St St", sad_u64, INT, 0},
    {"and.pred", "P G G", and_pred, INT, 0},
    {"or.pred", "P G G", or_pred, INT, 0},
    {"xor.pred", "P G G", xor_pred, INT, 0},
    {"not.pred", "P G", not_pred, INT, 0},
    {"and.b16", "Dt St St", and_16, INT, 0},
    {"and.b32", "Dt St St", and_32, INT, 0},
    {"and.b64", "Dt St St", and_64, INT, 0},
    {"or.b16", "Dt St St", or_16, INT, 0},
    {"or.b32", "Dt St St", or_32, INT, 0},
    {"or.b64", "Dt St St", or_64, INT, 0},
    {"xor.b16", "Dt St St", xor_16, INT, 0},
    {"xor.b32", "Dt St St", xor_32, INT, 0},
    {"xor.b64", "Dt St St", xor_64, INT, 0},
    {"not.b16", "Dt St", not_16, INT, 0},
    {"not.b32", "Dt St", not_32, INT, 0},
    {"not.b64", "Dt St", not_64, INT, 0},
    {"cnot.b16", "Dt St", cnot_16, INT, 0},
    {"cnot.b32", "Dt St", cnot_32, INT, 0},
    {"cnot.b64", "Dt St", cnot_64, INT, 0},
    {"shl.b16", "Dt St Sw", shl_16, INT, 0},
    {"shl.b32", "Dt St Sw", shl_32, INT, 0},
    {"shl.b64", "Dt St Sw", shl_64, INT, 0},
    {"shr[.u16|.b16]", "Dt St Sw", shr_u16, INT, 0},
    {"shr[.u32|.b32]", "Dt St Sw", shr_u32, INT, 0},
    {"shr[.u64|.b64]", "Dt St Sw", shr_u64, INT, 0},
    {"shr.s16", "Dt St Sw", shr_s16, INT, 0},
    {"shr.s32", "Dt St Sw", shr_s32, INT, 0},
    {"shr.s64", "Dt St Sw", shr_s64, INT, 0},
    {"shf.l.wrap.b32", "Dt St St St", shf_l_wrap, INT, 0},
    {"shf.l.clamp.b32", "Dt St St St", shf_l_clamp, INT, 0},
    {"shf.r.wrap.b32", "Dt St St St", shf_r_wrap, INT, 0},
    {"shf.r.clamp.b32", "Dt St St St", shf_r_clamp, INT, 0},
    {"popc.b32", "Dw St", popc_32, INT, 0},
    {"popc.b64", "Dw St", popc_64, INT, 0},
    {"clz.b32", "Dw St", clz_32, INT, 0},
    {"clz.b64", "Dw St", clz_64, INT, 0},
    {"brev.b32", "Dt St", brev_32, INT, 0},
    {"brev.b64", "Dt St", brev_64, INT, 0},
    {"bfind{.shiftamt}.u32", "Dw St", bfind_u32, INT, 0},
    {"bfind{.shiftamt}.s32", "Dw St", bfind_s32, INT, 0},
    {"bfind{.shiftamt}.u64", "Dw St", bfind_u64, INT, 0},
    {"bfind{.shiftamt}.s64", "Dw St", bfind_s64, INT, 0},
    {"bfe.u32", "Dt St Sw Sw", bfe_u32, INT, 0},
    {"bfe.s32", "Dt St Sw Sw", bfe_s32, INT, 0},
    {"bfe.u64", "Dt St Sw Sw", bfe_u64, INT, 0},
    {"bfe.s64", "Dt St Sw Sw", bfe_s64, INT, 0},
    {"bfi.b32", "Dt St St Sw Sw", bfi_32, INT, 0},
    {"bfi.b64", "Dt St St Sw Sw", bfi_64, INT, 0},
    {"bmsk.clamp.b32", "Dt St St", bmsk_clamp, INT, 0},
    {"bmsk.wrap.b32", "Dt St St", bmsk_wrap, INT, 0},
    {"fns.b32", "Dt St St St", fns_32, INT, 0},
    {"lop3.b32", "Dt St St St I", lop3_32, INT, 0},
    {"prmt.b32{.f4e|.b4e|.rc8|.ecl|.ecr|.rc16}", "Dt St St St", prmt_32, INT, 0},
    {"dp4a[.u32|.s32][.u32|.s32]", "Dw Sw Sw Sw", dp4a, INT, 0},
    {"dp2a[.lo|.hi][.u32|.s32][.u32|.s32]", "Dw Sw Sw Sw", dp2a, INT, 0},
    {"vabsdiff4[.u32|.s32][.u32|.s32][.u32|.s32]{.add}", "Dw Sw Sw Sw", absolute_differences, INT,
     0},
    {"setp" CMP_INT BOOLEAN "[.u16|.b16]", "Q St St G?", setp_u16, INT, 0},
    {"setp" CMP_INT BOOLEAN ".s16", "Q St St G?", setp_s16, INT, 0},
    {"setp" CMP_INT BOOLEAN "[.u32|.b32]", "Q St St G?", setp_u32, INT, 0},
    {"setp" CMP_INT BOOLEAN ".s32", "Q St St G?", setp_s32, INT, 0},
    {"setp" CMP_INT BOOLEAN "[.u64|.b64]", "Q St St G?", setp_u64, INT, 0},
    {"setp" CMP_INT BOOLEAN ".s64", "Q St St G?", setp_s64, INT, 0},
    {"setp" CMP_FLOAT BOOLEAN "{.ftz}.f32", "Q St St G?", setp_f32, EMU_CLASS_FMA, 0},
    {"setp" CMP_FLOAT BOOLEAN ".f64", "Q St St G?", setp_f64, EMU_CLASS_FP64, 0},
    {"set" CMP_INT BOOLEAN "[.u32|.s32|.f32][.b16|.u16|.s16|.b32|.u32|.s32|.b64|.u64|.s64]",
     "Dw Su Su G?", set_32, INT, 0},
    {"set" CMP_FLOAT BOOLEAN "{.ftz}[.u32|.s32|.f32][.f32|.f64]", "Dw Su Su G?", set_32, INT, 0},
    {"selp[.b16|.u16|.s16|.f16|.bf16]", "Dt St St G", selp_16, INT, 0},
    {"selp[.b32|.u32|.s32|.f32]", "Dt St St G", selp_32, INT, 0},
    {"selp[.b64|.u64|.s64|.f64]", "Dt St St G", selp_64, INT, 0},
    {"slct[.b16|.u16|.s16].s32", "Dt St St Sw", slct_16_s32, INT, 0},
    {"slct[.b32|.u32|.s32|.f32].s32", "Dt St St Sw", slct_32_s32, INT, 0},
    {"slct[.b64|.u64|.s64|.f64].s32", "Dt St St Sw", slct_64_s32, INT, 0},
    {"slct{.ftz}[.b16|.u16|.s16].f32", "Dt St St Su", slct_16_f32, INT, 0},
    {"slct{.ftz}[.b32|.u32|.s32|.f32].f32", "Dt St St Su", slct_32_f32, INT, 0},
    {"slct{.ftz}[.b64|.u64|.s64|.f64].f32", "Dt St St Su", slct_64_f32, INT, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_int), ROWS)
