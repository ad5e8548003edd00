/*
 * Matrix instructions: ldmatrix, stmatrix, movmatrix and mma.sync. Compiled once an instruction
 * set.
 *
 * Fragments are those of the PTX ISA. With g = lane / 4 and t = lane % 4, and E elements in one
 * register (1 of tf32, 2 of 16 bits, 4 of 8 bits), register r of A holds row g + 8 (r & 1) and
 * columns t E + e + 4 E (r >> 1); register r of B holds column g and rows t E + e + 4 E r;
 * accumulator i of C holds row g + 8 (i >> 1) and column 2 t + (i & 1).
 *
 * Sums of floats are those of emu_dot.h. Sums of integers are exact in double.
 */
#include "worker/emu/emu_dot.h"

#include <string.h>

#define ROWS_A 16

/* ------------------------------------------------------------------ ldmatrix */

/* Operands: n destinations, address. sub: n. Lane i gives the address of row i % 8 of matrix i / 8.
 */
static int ldmatrix(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t count = insn->sub, lanes = count == 4 ? EMU_FULL : (1u << count * 8) - 1;
    struct emu_reach access;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    if (emu_access(warp, insn, lanes, (enum emu_space)insn->space, false, 16, EMU_LOAD, &access) !=
        EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t m = 0; m < count; m++) {
        uint32_t *d = emu_operand(warp, insn, m);
        unsigned char *const *row = &access.ptr[m * 8];

        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (insn->mods & PTX_M_TRANS) {
                uint16_t low, high;

                memcpy(&low, row[l % 4 * 2] + l / 4 * 2, sizeof(low));
                memcpy(&high, row[l % 4 * 2 + 1] + l / 4 * 2, sizeof(high));
                d[l] = (uint32_t)high << 16 | low;
            } else {
                memcpy(&d[l], row[l / 4] + l % 4 * 4, sizeof(d[l]));
            }
        }
    }
    return EMU_NEXT;
}

/* Operands: address, n sources. */
static int stmatrix(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t count = insn->sub, lanes = count == 4 ? EMU_FULL : (1u << count * 8) - 1;
    uint32_t rows[EMU_LANES][4]; /* what goes to the address of each lane */
    struct emu_reach access;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    if (emu_access(warp, insn, lanes, (enum emu_space)insn->space, false, 16, EMU_STORE, &access) !=
        EMU_NEXT) {
        return EMU_STOP;
    }
    for (uint32_t m = 0; m < count; m++) {
        const uint32_t *s = emu_operand(warp, insn, 1 + m);
        uint32_t(*row)[4] = &rows[m * 8];

        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (insn->mods & PTX_M_TRANS) {
                uint16_t low = (uint16_t)s[l], high = (uint16_t)(s[l] >> 16);

                memcpy((uint16_t *)row[l % 4 * 2] + l / 4, &low, sizeof(low));
                memcpy((uint16_t *)row[l % 4 * 2 + 1] + l / 4, &high, sizeof(high));
            } else {
                row[l / 4][l % 4] = s[l];
            }
        }
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned l = (unsigned)__builtin_ctz(left);

        if (access.twins >> l & 1 && memcmp(rows[l], rows[access.twin[l]], 16) != 0) {
            return emu_fault(warp, insn, l, GK_EMU_FAULT_RACE, access.address[l],
                             "lanes %u and %u give one address for rows that differ, and which of "
                             "them stays is not defined",
                             access.twin[l], l);
        }
        memcpy(access.ptr[l], rows[l], 16);
    }
    return EMU_NEXT;
}

static int movmatrix(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t *d = emu_operand(warp, insn, 0);
    const uint32_t *a = emu_operand(warp, insn, 1);
    uint16_t matrix[8][8];
    int step = emu_warp_converge(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        matrix[l / 4][l % 4 * 2] = (uint16_t)a[l];
        matrix[l / 4][l % 4 * 2 + 1] = (uint16_t)(a[l] >> 16);
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        d[l] = (uint32_t)matrix[l % 4 * 2 + 1][l / 4] << 16 | matrix[l % 4 * 2][l / 4];
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ fragments */

static inline double eight_bits(uint32_t bits, uint8_t type)
{
    uint64_t rest = bits & 127, out;
    double x;

    if (type == PTX_S8) {
        return (double)(int8_t)bits;
    }
    if (type == PTX_U8) {
        return (double)(uint8_t)bits;
    }
    if (type == PTX_E5M2) { /* the upper half of an f16 */
        return (double)emu_float_of_half((uint16_t)((bits & 255) << 8));
    }
    /* e4m3: rebias by 1016, or a multiple of 2^-9 below the normal range. */
    out = rest == 127 ? 0x7ff8000000000000ull : (rest << 49) + (1016ull << 52);
    memcpy(&x, &out, sizeof(x));
    x = rest < 8 ? (double)rest * 0x1p-9 : x;
    return bits & 128 ? -x : x;
}

/* Element e of a register. */
static inline double element(uint32_t word, unsigned e, uint8_t type)
{
    switch (type) {
    case PTX_BF16:
        return (double)emu_float_of(word >> e * 16 << 16);
    case PTX_F16:
        return (double)emu_float_of_half((uint16_t)(word >> e * 16));
    case PTX_TF32: /* the hardware reads 19 of the 32 bits */
        return (double)emu_float_of(word & 0xffffe000u);
    default:
        return eight_bits(word >> e * 8 & 255, type);
    }
}

static unsigned elements_of(uint8_t type)
{
    return type == PTX_TF32 ? 1 : type == PTX_BF16 || type == PTX_F16 ? 2 : 4;
}

struct tile {
    struct emu_dot_a a;
    struct emu_dot_b b;
    emu_row c[ROWS_A];
};

/* Where element e of lane l's register stands along K; r: which of the `count` registers of the
 * same row. Pairs of bytes stand as the hardware takes them: the even ones of all lanes and
 * registers first. */
static inline unsigned place(unsigned l, unsigned r, unsigned e, unsigned per, unsigned count)
{
    return per == 4 ? e / 2 * count * 8 + r * 8 + l % 4 * 2 + e % 2 : r * 4 * per + l % 4 * per + e;
}

static void load_a(struct emu_warp *warp, const struct emu_insn *insn, unsigned first,
                   unsigned count, struct tile *tile)
{
    const unsigned per = elements_of(insn->type2);

    for (unsigned r = 0; r < count; r++) {
        const uint32_t *a = emu_operand(warp, insn, first + r);
        double(*to)[EMU_DOT_DEPTH] = &tile->a.value[r % 2 * 8];

        for (unsigned l = 0; l < EMU_LANES; l++) {
            if (insn->type2 == PTX_BF16) { /* the common case, without the switch */
                to[l / 4][r / 2 * 8 + l % 4 * 2] = (double)emu_float_of(a[l] << 16);
                to[l / 4][r / 2 * 8 + l % 4 * 2 + 1] = (double)emu_float_of(a[l] & 0xffff0000u);
                continue;
            }
            for (unsigned e = 0; e < per; e++) {
                to[l / 4][place(l, r / 2, e, per, count / 2)] = element(a[l], e, insn->type2);
            }
        }
    }
}

static void load_b(struct emu_warp *warp, const struct emu_insn *insn, unsigned first,
                   unsigned count, struct tile *tile)
{
    const unsigned per = elements_of(insn->type3);

    for (unsigned r = 0; r < count; r++) {
        const uint32_t *b = emu_operand(warp, insn, first + r);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            for (unsigned e = 0; e < per; e++) {
                tile->b.value[place(l, r, e, per, count)][l / 4] = element(b[l], e, insn->type3);
            }
        }
    }
}

/* Sums of the whole tile; `depth` products each. */
static void multiply(const struct emu_warp *warp, const struct emu_insn *insn, struct tile *tile,
                     unsigned depth, bool half)
{
    const struct emu_dot how = emu_dot_of(warp, insn->type2, insn->type3, half, false);

    emu_dot_exponents_a(&how, &tile->a, ROWS_A, depth);
    emu_dot_exponents_b(&how, &tile->b, depth);
    for (unsigned i = 0; i < ROWS_A; i++) {
        tile->c[i] =
            emu_dot_row(&how, tile->a.value[i], tile->a.exponent[i], &tile->b, depth, tile->c[i]);
    }
}

static void multiply_exact(struct tile *tile, unsigned depth)
{
    for (unsigned i = 0; i < ROWS_A; i++) {
        for (unsigned k = 0; k < depth; k++) {
            tile->c[i] += tile->b.value[k] * tile->a.value[i][k];
        }
    }
}

/* ------------------------------------------------------------------ mma */

/* sub: registers of A; B has half as many. */
static int mma_f32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const unsigned na = insn->sub, nb = na / 2;
    struct tile tile;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    load_a(warp, insn, 4, na, &tile);
    load_b(warp, insn, 4 + na, nb, &tile);
    for (unsigned half = 0; half < 2; half++) {
        const float *c0 = emu_operand(warp, insn, 4 + na + nb + half * 2);
        const float *c1 = emu_operand(warp, insn, 4 + na + nb + half * 2 + 1);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            tile.c[8 * half + l / 4][l % 4 * 2] = (double)c0[l];
            tile.c[8 * half + l / 4][l % 4 * 2 + 1] = (double)c1[l];
        }
    }
    multiply(warp, insn, &tile, na / 2 * 4 * elements_of(insn->type2), false);
    for (unsigned half = 0; half < 2; half++) { /* rows 0-7 and 8-15: c[g][2t], c[g][2t + 1] */
        float *d0 = emu_operand(warp, insn, half * 2), *d1 = emu_operand(warp, insn, half * 2 + 1);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            float x = (float)tile.c[8 * half + l / 4][l % 4 * 2];
            float y = (float)tile.c[8 * half + l / 4][l % 4 * 2 + 1];

            d0[l] = x != x ? emu_float_of(0x7fffffffu) : x;
            d1[l] = y != y ? emu_float_of(0x7fffffffu) : y;
        }
    }
    return EMU_NEXT;
}

static int mma_f16(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const unsigned na = insn->sub, nb = na / 2;
    struct tile tile;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    load_a(warp, insn, 2, na, &tile);
    load_b(warp, insn, 2 + na, nb, &tile);
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t *c = emu_operand(warp, insn, 2 + na + nb + (i >> 1));

        for (unsigned l = 0; l < EMU_LANES; l++) {
            tile.c[l / 4 + 8 * (i >> 1)][l % 4 * 2 + (i & 1)] = element(c[l], i & 1, PTX_F16);
        }
    }
    multiply(warp, insn, &tile, na / 2 * 4 * elements_of(insn->type2), true);
    for (unsigned r = 0; r < 2; r++) {
        uint32_t *d = emu_operand(warp, insn, r);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            emu_row row = tile.c[l / 4 + 8 * r];

            d[l] = emu_round_narrow(row[l % 4 * 2], PTX_F16, PTX_RN, false) |
                   emu_round_narrow(row[l % 4 * 2 + 1], PTX_F16, PTX_RN, false) << 16;
        }
    }
    return EMU_NEXT;
}

/* Sums of 32 products of 8 bits are far below 2^53: double is exact, the wrap comes at the end. */
static int mma_s32(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const unsigned na = insn->sub, nb = na / 2;
    struct tile tile;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    load_a(warp, insn, 4, na, &tile);
    load_b(warp, insn, 4 + na, nb, &tile);
    for (unsigned i = 0; i < 4; i++) {
        const int32_t *c = emu_operand(warp, insn, 4 + na + nb + i);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            tile.c[l / 4 + 8 * (i >> 1)][l % 4 * 2 + (i & 1)] = (double)c[l];
        }
    }
    multiply_exact(&tile, na / 2 * 4 * elements_of(insn->type2));
    for (unsigned i = 0; i < 4; i++) {
        uint32_t *d = emu_operand(warp, insn, i);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            int64_t sum = (int64_t)tile.c[l / 4 + 8 * (i >> 1)][l % 4 * 2 + (i & 1)];

            if (insn->mods & PTX_M_SATFINITE) {
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            }
            d[l] = (uint32_t)(uint64_t)sum;
        }
    }
    return EMU_NEXT;
}

/* m8n8k4: A and B one double a lane, C two; sums fused, k ascending. */
static int mma_f64(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    const double *a = emu_operand(warp, insn, 2), *b = emu_operand(warp, insn, 3);
    double out[2][EMU_LANES];
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    for (unsigned i = 0; i < 2; i++) {
        const double *c = emu_operand(warp, insn, 4 + i);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            double sum = c[l];

            for (unsigned k = 0; k < 4; k++) {
                sum = __builtin_fma(a[l / 4 * 4 + k], b[(l % 4 * 2 + i) * 4 + k], sum);
            }
            out[i][l] = sum;
        }
    }
    memcpy(emu_operand(warp, insn, 0), out[0], sizeof(out[0]));
    memcpy(emu_operand(warp, insn, 1), out[1], sizeof(out[1]));
    return EMU_NEXT;
}

#define MEM    EMU_CLASS_MEMORY
#define TENSOR EMU_CLASS_TENSOR
#define LDM    "ldmatrix.sync.aligned.m8n8"
#define STM    "stmatrix.sync.aligned.m8n8"
#define SHARED "{.shared|.shared::cta}"
#define MMA    "mma.sync.aligned"

static const struct ptx_row ROWS[] = {
    {LDM ".x1{.trans}" SHARED ".b16", "M1w A", ldmatrix, MEM, 1},
    {LDM ".x2{.trans}" SHARED ".b16", "M2w A", ldmatrix, MEM, 2},
    {LDM ".x4{.trans}" SHARED ".b16", "M4w A", ldmatrix, MEM, 4},
    {STM ".x1{.trans}" SHARED ".b16", "A N1w", stmatrix, MEM, 1},
    {STM ".x2{.trans}" SHARED ".b16", "A N2w", stmatrix, MEM, 2},
    {STM ".x4{.trans}" SHARED ".b16", "A N4w", stmatrix, MEM, 4},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "Dw Sw", movmatrix, MEM, 0},
    {MMA ".m16n8k16.row.col.f32.bf16.bf16.f32", "M4w N4w N2w N4w", mma_f32, TENSOR, 4},
    {MMA ".m16n8k16.row.col.f32.f16.f16.f32", "M4w N4w N2w N4w", mma_f32, TENSOR, 4},
    {MMA ".m16n8k8.row.col.f32.bf16.bf16.f32", "M4w N2w N1w N4w", mma_f32, TENSOR, 2},
    {MMA ".m16n8k8.row.col.f32.f16.f16.f32", "M4w N2w N1w N4w", mma_f32, TENSOR, 2},
    {MMA ".m16n8k16.row.col.f16.f16.f16.f16", "M2w N4w N2w N2w", mma_f16, TENSOR, 4},
    {MMA ".m16n8k8.row.col.f16.f16.f16.f16", "M2w N2w N1w N2w", mma_f16, TENSOR, 2},
    {MMA ".m16n8k8.row.col.f32.tf32.tf32.f32", "M4w N4w N2w N4w", mma_f32, TENSOR, 4},
    {MMA ".m16n8k4.row.col.f32.tf32.tf32.f32", "M4w N2w N1w N4w", mma_f32, TENSOR, 2},
    {MMA ".m16n8k32.row.col.f32[.e4m3|.e5m2][.e4m3|.e5m2].f32", "M4w N4w N2w N4w", mma_f32, TENSOR,
     4},
    {MMA ".m16n8k32.row.col{.satfinite}.s32[.s8|.u8][.s8|.u8].s32", "M4w N4w N2w N4w", mma_s32,
     TENSOR, 4},
    {MMA ".m16n8k16.row.col{.satfinite}.s32[.s8|.u8][.s8|.u8].s32", "M4w N2w N1w N4w", mma_s32,
     TENSOR, 2},
    {MMA ".m8n8k4.row.col.f64.f64.f64.f64", "M2d N1d N1d N2d", mma_f64, TENSOR, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_mma), ROWS)
