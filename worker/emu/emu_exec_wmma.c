/*
 * The wmma instructions behind CUDA's nvcuda::wmma. How elements lie in a fragment is not defined
 * by PTX, so it is chosen here: slot s of a warp (lane after lane, each lane's registers from the
 * first, lower parts first) holds element s modulo the matrix's size, counted row by row. Fragments
 * with more slots than elements hold them twice, and all copies agree as long as the kernel treats
 * the elements of a fragment alike, as PTX demands.
 *
 * Sums are those of emu_dot.h.
 */
#include "worker/emu/emu_dot.h"

#include <string.h>

#define REGISTERS_MAX 8
#define ELEMENTS_MAX  512

enum wmma_matrix { WMMA_A = 1, WMMA_B, WMMA_C };

struct shape {
    unsigned rows, columns;
};

/* insn->imm2 holds m, n and k of the opcode, a byte each. */
static struct shape shape_of(const struct emu_insn *insn, enum wmma_matrix matrix)
{
    unsigned m = (unsigned)(insn->imm2 >> 16) & 255, n = (unsigned)(insn->imm2 >> 8) & 255;
    unsigned k = (unsigned)insn->imm2 & 255;

    return matrix == WMMA_A   ? (struct shape){m, k}
           : matrix == WMMA_B ? (struct shape){k, n}
                              : (struct shape){m, n};
}

static unsigned parts_of(uint8_t type)
{
    return 4 / ptx_type_bytes(type);
}

/* Addresses of part e of every lane, in the kernel's sink registers: emu_access() reads them there.
 */
static void set_addresses(struct emu_warp *warp, const struct emu_insn *insn, unsigned e,
                          unsigned slots, struct shape shape, struct emu_insn *probe)
{
    const void *base = emu_operand(warp, insn, (unsigned)insn->address);
    unsigned last = insn->op_count - 1u;
    const uint32_t *stride = insn->op[last] >= 0 ? emu_operand(warp, insn, last) : NULL;
    bool by_column = insn->mods & PTX_M_COL;
    uint64_t *out;

    *probe = *insn;
    probe->op[insn->address] = warp->run->kernel->sink;
    probe->address_width = 8;
    probe->imm = 0;
    out = emu_operand(warp, probe, (unsigned)insn->address);
    for (unsigned l = 0; l < EMU_LANES; l++) {
        unsigned id = (l * slots + e) % (shape.rows * shape.columns);
        unsigned row = id / shape.columns, column = id % shape.columns;
        uint64_t pitch = stride ? stride[l] : by_column ? shape.rows : shape.columns;
        uint64_t offset = by_column ? column * pitch + row : row * pitch + column;
        uint64_t start =
            insn->address_width == 8 ? ((const uint64_t *)base)[l] : ((const uint32_t *)base)[l];

        out[l] = start + (uint64_t)insn->imm + offset * ptx_type_bytes(insn->type);
    }
}

/* Operands: registers, address, stride or nothing. sub: which matrix. */
static int wmma_load(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    unsigned count = (unsigned)insn->address, parts = parts_of(insn->type);
    uint32_t bytes = ptx_type_bytes(insn->type), words[REGISTERS_MAX][EMU_LANES];
    struct shape shape = shape_of(insn, (enum wmma_matrix)insn->sub);
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    memset(words, 0, sizeof(words));
    for (unsigned e = 0; e < count * parts; e++) {
        struct emu_insn probe;
        struct emu_reach reach;

        set_addresses(warp, insn, e, count * parts, shape, &probe);
        if (emu_access(warp, &probe, mask, (enum emu_space)insn->space, false, bytes, EMU_LOAD,
                       &reach) != EMU_NEXT) {
            return EMU_STOP;
        }
        for (unsigned l = 0; l < EMU_LANES; l++) {
            memcpy((unsigned char *)&words[e / parts][l] + e % parts * bytes, reach.ptr[l], bytes);
        }
    }
    for (unsigned r = 0; r < count; r++) {
        memcpy(emu_operand(warp, insn, r), words[r], sizeof(words[r]));
    }
    return EMU_NEXT;
}

/* Operands: address, registers, stride or nothing. */
static int wmma_store(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    unsigned count = insn->op_count - 2u, parts = parts_of(insn->type);
    uint32_t bytes = ptx_type_bytes(insn->type);
    struct shape shape = shape_of(insn, WMMA_C);
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    for (unsigned e = 0; e < count * parts; e++) {
        const uint32_t *words = emu_operand(warp, insn, 1 + e / parts);
        struct emu_insn probe;
        struct emu_reach reach;

        set_addresses(warp, insn, e, count * parts, shape, &probe);
        if (emu_access(warp, &probe, mask, (enum emu_space)insn->space, false, bytes, EMU_STORE,
                       &reach) != EMU_NEXT) {
            return EMU_STOP;
        }
        for (unsigned l = 0; l < EMU_LANES; l++) {
            memcpy(reach.ptr[l], (const unsigned char *)&words[l] + e % parts * bytes, bytes);
        }
    }
    return EMU_NEXT;
}

/* ------------------------------------------------------------------ the product */

static double value_of(uint32_t word, unsigned part, uint8_t type)
{
    switch (type) {
    case PTX_F32:
        return (double)emu_float_of(word);
    case PTX_TF32:
        return (double)emu_float_of(word & 0xffffe000u);
    case PTX_S32:
        return (double)(int32_t)word;
    case PTX_F16:
        return (double)emu_float_of_half((uint16_t)(word >> part * 16));
    case PTX_BF16:
        return (double)emu_float_of(word >> part * 16 << 16);
    case PTX_S8:
        return (double)(int8_t)(word >> part * 8);
    default:
        return (double)(word >> part * 8 & 255);
    }
}

static void gather(struct emu_warp *warp, const struct emu_insn *insn, unsigned first,
                   unsigned count, uint8_t type, struct shape shape, double *out)
{
    unsigned parts = parts_of(type), slots = count * parts;

    for (unsigned r = 0; r < count; r++) {
        const uint32_t *words = emu_operand(warp, insn, first + r);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            for (unsigned part = 0; part < parts; part++) {
                unsigned slot = l * slots + r * parts + part;

                if (slot < shape.rows * shape.columns) {
                    out[slot] = value_of(words[l], part, type);
                }
            }
        }
    }
}

static uint32_t bits_of_sum(const struct emu_insn *insn, double sum)
{
    if (insn->type == PTX_F16) {
        return emu_round_narrow(sum, PTX_F16, PTX_RN, false);
    }
    if (insn->type == PTX_S32) {
        int64_t whole = (int64_t)sum;

        if (insn->mods & PTX_M_SATFINITE) {
            whole = whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : whole;
        }
        return (uint32_t)(uint64_t)whole;
    }
    return sum != sum ? 0x7fffffffu : emu_bits_of((float)sum);
}

/* Eight columns from `column` on, all rows. */
static void multiply(const struct emu_dot *how, struct shape a, struct shape b, unsigned column,
                     const double *fa, const double *fb, double *fc)
{
    struct emu_dot_a rows;
    struct emu_dot_b columns;

    for (unsigned k = 0; k < a.columns; k++) {
        memcpy(&columns.value[k], &fb[k * b.columns + column], sizeof(columns.value[k]));
    }
    emu_dot_exponents_b(how, &columns, a.columns);
    for (unsigned i = 0; i < a.rows; i++) {
        double *sums = &fc[i * b.columns + column];
        emu_row c;

        memcpy(rows.value[0], &fa[i * a.columns], a.columns * sizeof(double));
        emu_dot_exponents_a(how, &rows, 1, a.columns);
        memcpy(&c, sums, sizeof(c));
        c = emu_dot_row(how, rows.value[0], rows.exponent[0], &columns, a.columns, c);
        memcpy(sums, &c, sizeof(c));
    }
}

static void multiply_exact(struct shape a, struct shape b, const double *fa, const double *fb,
                           double *fc)
{
    for (unsigned i = 0; i < a.rows * b.columns; i++) {
        for (unsigned k = 0; k < a.columns; k++) {
            fc[i] += fa[i / b.columns * a.columns + k] * fb[k * b.columns + i % b.columns];
        }
    }
}

/* Operands: D, A, B, C registers. sub: registers of A in the upper, of B in the lower half byte.
 * Types: D and C of f16 products; else D, A, B and C, where C is as D. */
static int wmma_mma(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    bool halves = !insn->type3;
    uint8_t type_a = halves ? PTX_F16 : insn->type2, type_b = halves ? PTX_F16 : insn->type3;
    uint8_t type_c = halves ? insn->type2 : insn->type;
    unsigned na = insn->sub >> 4, nb = insn->sub & 15, nd = insn->type == PTX_F16 ? 4 : 8;
    unsigned parts = parts_of(insn->type);
    struct shape a = shape_of(insn, WMMA_A), b = shape_of(insn, WMMA_B);
    double fa[ELEMENTS_MAX], fb[ELEMENTS_MAX], fc[ELEMENTS_MAX];
    struct emu_dot how;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    gather(warp, insn, nd, na, type_a, a, fa);
    gather(warp, insn, nd + na, nb, type_b, b, fb);
    gather(warp, insn, nd + na + nb, type_c == PTX_F16 ? 4 : 8, type_c, shape_of(insn, WMMA_C), fc);
    if (insn->type == PTX_S32) {
        multiply_exact(a, b, fa, fb, fc);
    } else {
        how = emu_dot_of(warp, type_a, type_b, insn->type == PTX_F16, false);
        for (unsigned column = 0; column < b.columns; column += 8) {
            multiply(&how, a, b, column, fa, fb, fc);
        }
    }
    for (unsigned r = 0; r < nd; r++) {
        uint32_t *d = emu_operand(warp, insn, r);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            uint32_t word = 0;

            for (unsigned part = 0; part < parts; part++) {
                word |= bits_of_sum(insn, fc[l * nd * parts + r * parts + part]) << part * 16;
            }
            d[l] = word;
        }
    }
    return EMU_NEXT;
}

#define MEM    EMU_CLASS_MEMORY
#define TENSOR EMU_CLASS_TENSOR
#define LOAD(matrix, shape, types, registers, which)                                               \
    {                                                                                              \
        "wmma.load." matrix ".sync.aligned[.row|.col]" shape                                       \
        "{.global|.shared|.shared::cta}" types,                                                    \
            "M" registers "w A Sw?", wmma_load, MEM, which                                         \
    }
#define STORE(types, registers)                                                                    \
    {                                                                                              \
        "wmma.store.d.sync.aligned[.row|.col]" ANY "{.global|.shared|.shared::cta}" types,         \
            "A N" registers "w Sw?", wmma_store, MEM, WMMA_C                                       \
    }
#define ANY   "[.m16n16k16|.m32n8k16|.m8n32k16|.m16n16k8]"
#define HALF  "[.m16n16k16|.m32n8k16|.m8n32k16]"
#define MMA   "wmma.mma.sync.aligned[.row|.col][.row|.col]"
#define BYTES "[.s8|.u8]"

static const struct ptx_row ROWS[] = {
    LOAD("a", HALF, ".f16", "8", WMMA_A),
    LOAD("b", HALF, ".f16", "8", WMMA_B),
    LOAD("a", ".m16n16k16", ".bf16", "4", WMMA_A),
    LOAD("b", ".m16n16k16", ".bf16", "4", WMMA_B),
    LOAD("a", ".m32n8k16", ".bf16", "8", WMMA_A),
    LOAD("b", ".m32n8k16", ".bf16", "2", WMMA_B),
    LOAD("a", ".m8n32k16", ".bf16", "2", WMMA_A),
    LOAD("b", ".m8n32k16", ".bf16", "8", WMMA_B),
    LOAD("a", ".m16n16k16", BYTES, "2", WMMA_A),
    LOAD("b", ".m16n16k16", BYTES, "2", WMMA_B),
    LOAD("a", ".m32n8k16", BYTES, "4", WMMA_A),
    LOAD("b", ".m32n8k16", BYTES, "1", WMMA_B),
    LOAD("a", ".m8n32k16", BYTES, "1", WMMA_A),
    LOAD("b", ".m8n32k16", BYTES, "4", WMMA_B),
    LOAD("a", ".m16n16k8", ".tf32", "4", WMMA_A),
    LOAD("b", ".m16n16k8", ".tf32", "4", WMMA_B),
    LOAD("c", ANY, "[.f32|.s32]", "8", WMMA_C),
    LOAD("c", HALF, ".f16", "4", WMMA_C),
    STORE("[.f32|.s32]", "8"),
    STORE(".f16", "4"),
    {MMA HALF ".f32.f32", "M8w N8w N8w N8w", wmma_mma, TENSOR, 0x88},
    {MMA HALF ".f16.f16", "M4w N8w N8w N4w", wmma_mma, TENSOR, 0x88},
    {MMA HALF ".f32.f16", "M8w N8w N8w N4w", wmma_mma, TENSOR, 0x88},
    {MMA HALF ".f16.f32", "M4w N8w N8w N8w", wmma_mma, TENSOR, 0x88},
    {MMA ".m16n16k16.f32.bf16.bf16.f32", "M8w N4w N4w N8w", wmma_mma, TENSOR, 0x44},
    {MMA ".m32n8k16.f32.bf16.bf16.f32", "M8w N8w N2w N8w", wmma_mma, TENSOR, 0x82},
    {MMA ".m8n32k16.f32.bf16.bf16.f32", "M8w N2w N8w N8w", wmma_mma, TENSOR, 0x28},
    {MMA ".m16n16k8.f32.tf32.tf32.f32", "M8w N4w N4w N8w", wmma_mma, TENSOR, 0x44},
    {MMA ".m16n16k16.s32" BYTES BYTES ".s32{.satfinite}", "M8w N2w N2w N8w", wmma_mma, TENSOR,
     0x22},
    {MMA ".m32n8k16.s32" BYTES BYTES ".s32{.satfinite}", "M8w N4w N1w N8w", wmma_mma, TENSOR, 0x41},
    {MMA ".m8n32k16.s32" BYTES BYTES ".s32{.satfinite}", "M8w N1w N4w N8w", wmma_mma, TENSOR, 0x14},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_wmma), ROWS)
