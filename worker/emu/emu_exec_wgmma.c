/*
 * wgmma: products of a warpgroup, of which each warp computes its own 16 rows. Compiled once an
 * instruction set.
 *
 * The sums are there at once, and that changes nothing: until wgmma.wait_group a register that a
 * product uses may not be touched (emu_exec_guarded), and what it reads of shared memory counts as
 * read by an agent of its own, known to be done only by those that waited. Rules of descriptors, S
 * bytes of swizzle, all in 16-byte chunks:
 *   K-major   row r, chunk c:  start + r / 8 * stride + r % 8 * S + 16 c       (swizzled)
 *                              start + r / 8 * stride + c * leading + r % 8 * 16
 *   MN-major  step k, chunk c: start + c / (S / 16) * leading + k / 8 * stride + k % 8 * S
 *                                    + c % (S / 16) * 16                       (swizzled)
 *                              start + c * stride + k / 8 * leading + k % 8 * 16
 * and then bits 4.. of the address are XORed with bits 7.. as TMA does.
 */
#include <string.h>

#include "worker/emu/emu_dot.h"

#define K_MAX EMU_DOT_DEPTH
#define N_MAX 256u

struct descriptor {
    uint32_t start, leading, stride, swizzle; /* bytes; swizzle 0: none */
};

static int decode(struct emu_warp *warp, const struct emu_insn *insn, uint64_t bits,
                  struct descriptor *out)
{
    static const uint32_t SPAN[] = {0, 128, 64, 32};

    out->start = (uint32_t)(bits & 0x3fff) << 4;
    out->leading = (uint32_t)(bits >> 16 & 0x3fff) << 4;
    out->stride = (uint32_t)(bits >> 32 & 0x3fff) << 4;
    out->swizzle = SPAN[bits >> 62];
    if (bits >> 49 & 7) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_UNSUPPORTED, bits,
                         "a descriptor with base offset %u: tiles begin at a multiple of 8 rows "
                         "here",
                         (unsigned)(bits >> 49 & 7));
    }
    return EMU_NEXT;
}

static uint32_t swizzled(const struct descriptor *d, uint32_t address)
{
    return d->swizzle ? address ^ ((address >> 7 & (d->swizzle / 16 - 1)) << 4) : address;
}

/* Chunk c (of 16 bytes) of row or step r. */
static uint32_t chunk_at(const struct descriptor *d, bool along_mn, uint32_t r, uint32_t c)
{
    uint32_t span = d->swizzle, at = d->start;

    if (!along_mn) {
        at += r / 8 * d->stride + (span ? r % 8 * span + c * 16 : c * d->leading + r % 8 * 16);
    } else if (span) {
        at +=
            c / (span / 16) * d->leading + r / 8 * d->stride + r % 8 * span + c % (span / 16) * 16;
    } else {
        at += c * d->stride + r / 8 * d->leading + r % 8 * 16;
    }
    return swizzled(d, at);
}

static int read_chunk(struct emu_warp *warp, const struct emu_insn *insn, uint32_t address,
                      const unsigned char **out)
{
    struct emu_block *block = warp->block;
    uint32_t agent = warp->run->warps * EMU_LANES + EMU_SLOT_WGMMA + warp->index;

    if (address + 16 > warp->run->shared_bytes) {
        return emu_fault_memory(warp, insn, 0, GK_EMU_FAULT_OUT_OF_BOUNDS, EMU_SHARED, address, 16,
                                "read");
    }
    if (emu_bits_count(block->shared_written, address, 16) != 16) {
        return emu_fault_memory(warp, insn, 0, GK_EMU_FAULT_UNWRITTEN, EMU_SHARED, address, 16,
                                "read");
    }
    *out = block->shared + address;
    return emu_order_async(warp, insn, 0, block, address, 16, EMU_ASYNC_READ, block, agent,
                           warp->wgmma_batch + 1);
}

static double element(const unsigned char *at, uint32_t i, uint8_t type)
{
    uint16_t half;

    if (type == PTX_E4M3 || type == PTX_E5M2) {
        return emu_widen_narrow(at[i], type);
    }
    memcpy(&half, at + 2 * i, sizeof(half));
    return type == PTX_BF16 ? (double)emu_float_of((uint32_t)half << 16)
                            : (double)emu_float_of_half(half);
}

/* Rows [first, first + rows) of an operand: to[row][k]. */
static int gather(struct emu_warp *warp, const struct emu_insn *insn, const struct descriptor *d,
                  bool along_mn, uint8_t type, uint32_t first, uint32_t rows, double (*to)[K_MAX])
{
    uint32_t per = type == PTX_E4M3 || type == PTX_E5M2 ? 16 : 8, depth = 2 * per;
    const unsigned char *chunk = NULL;

    for (uint32_t r = 0; r < (along_mn ? depth : rows); r++) {
        for (uint32_t c = 0; c < (along_mn ? rows / per : 2); c++) {
            uint32_t at =
                along_mn ? chunk_at(d, true, r, first / per + c) : chunk_at(d, false, first + r, c);

            if (read_chunk(warp, insn, at, &chunk) != EMU_NEXT) {
                return EMU_STOP;
            }
            for (uint32_t e = 0; e < per; e++) {
                double x = element(chunk, e, type);

                if (along_mn) {
                    to[c * per + e][r] = x;
                } else {
                    to[r][c * per + e] = x;
                }
            }
        }
    }
    return EMU_NEXT;
}

/* A from registers, as mma's fragments: register i holds rows l / 4 + 8 (i % 2). */
static void a_of_registers(struct emu_warp *warp, const struct emu_insn *insn, uint8_t type,
                           double (*a)[K_MAX])
{
    uint32_t per = type == PTX_E4M3 || type == PTX_E5M2 ? 4 : 2;

    for (unsigned i = 0; i < 4; i++) {
        const uint32_t *word = emu_operand(warp, insn, i);

        for (unsigned l = 0; l < EMU_LANES; l++) {
            for (unsigned e = 0; e < per; e++) {
                unsigned char bytes[4];

                memcpy(bytes, &word[l], sizeof(bytes));
                a[l / 4 + 8 * (i % 2)][l % 4 * per + e + i / 2 * 4 * per] = element(bytes, e, type);
            }
        }
    }
}

/* Marks registers as used by the open group; those touched by other instructions since the last
 * wgmma.fence are a fault. */
static int use_registers(struct emu_warp *warp, const struct emu_insn *insn, const int32_t *list,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (uint32_t)list[i] / 64;

        if (list[i] < 0 || list[i] & 1) {
            continue;
        }
        if (!warp->wgmma_fences || warp->wgmma_touched[slot] == warp->wgmma_fences + 1) {
            return emu_fault(warp, insn, 0, GK_EMU_FAULT_RACE, 0,
                             "registers of this wgmma were used by other instructions, and no "
                             "wgmma.fence lies between");
        }
        warp->wgmma_used[slot] = warp->wgmma_batch + 1;
    }
    return EMU_NEXT;
}

static float as_float(double x)
{
    return x != x ? emu_float_of(0x7fffffffu) : (float)x;
}

/* Columns 8 j .. 8 j + 7 of the warp's 16 rows. */
static void multiply(struct emu_warp *warp, const struct emu_insn *insn, const struct emu_dot *how,
                     uint32_t j, uint32_t depth, bool add, const struct emu_dot_a *a,
                     const double (*b)[K_MAX])
{
    const int32_t *wide = warp->run->kernel->wide + insn->imm;
    float *d[4];
    struct emu_dot_b columns;
    emu_row sums[16] = {0};

    for (unsigned i = 0; i < 4; i++) {
        d[i] = (float *)(void *)(warp->base[0] + wide[4 * j + i]);
    }
    for (unsigned l = 0; add && l < EMU_LANES; l++) {
        for (unsigned i = 0; i < 4; i++) {
            sums[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2] = (double)d[i][l];
        }
    }
    for (uint32_t k = 0; k < depth; k++) {
        for (unsigned n = 0; n < 8; n++) {
            columns.value[k][n] = b[8 * j + n][k];
        }
    }
    emu_dot_exponents_b(how, &columns, depth);
    for (unsigned m = 0; m < 16; m++) {
        sums[m] = emu_dot_row(how, a->value[m], a->exponent[m], &columns, depth, sums[m]);
    }
    for (unsigned l = 0; l < EMU_LANES; l++) {
        for (unsigned i = 0; i < 4; i++) {
            d[i][l] = as_float(sums[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2]);
        }
    }
}

static void negate(double (*x)[K_MAX], uint32_t rows, uint32_t depth)
{
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = 0; k < depth; k++) {
            x[r][k] = -x[r][k];
        }
    }
}

static int load_operands(struct emu_warp *warp, const struct emu_insn *insn, double (*a)[K_MAX],
                         double (*b)[K_MAX], uint32_t n)
{
    bool registers = insn->op[1] >= 0, trans_a = false, trans_b = false;
    uint64_t bits = ((const uint64_t *)emu_operand(warp, insn, 4))[0];
    struct descriptor d;

    if (insn->op[8] >= 0 && registers) {
        trans_b = ((const uint32_t *)emu_operand(warp, insn, 8))[0] != 0;
    } else if (insn->op[8] >= 0) {
        trans_a = ((const uint32_t *)emu_operand(warp, insn, 8))[0] != 0;
        trans_b = ((const uint32_t *)emu_operand(warp, insn, 9))[0] != 0;
    }
    if (decode(warp, insn, bits, &d) != EMU_NEXT ||
        gather(warp, insn, &d, trans_b, insn->type3, 0, n, b) != EMU_NEXT) {
        return EMU_STOP;
    }
    if (registers) {
        a_of_registers(warp, insn, insn->type2, a);
        return use_registers(warp, insn, insn->op, 4);
    }
    bits = ((const uint64_t *)emu_operand(warp, insn, 0))[0];
    if (decode(warp, insn, bits, &d) != EMU_NEXT) {
        return EMU_STOP;
    }
    return gather(warp, insn, &d, trans_a, insn->type2, warp->index % 4 * 16, 16, a);
}

/* op: A (4 registers, or a descriptor and -1s), B, predicate, signs of A and B, majors. */
static int wgmma(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t n = (uint32_t)(insn->imm2 >> 8 & 255), depth = (uint32_t)(insn->imm2 & 255);
    const uint32_t *p = emu_operand(warp, insn, 5);
    bool add = ((insn->sub & PTX_SUB_NEGATED ? ~*p : *p) & 1) != 0;
    struct emu_dot how;
    struct emu_dot_a a;
    double b[N_MAX][K_MAX];
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    n = n ? n : N_MAX;
    if (insn->vec != n / 2 % 256) {
        return emu_fault(warp, insn, 0, GK_EMU_FAULT_BAD_OPERAND, 0,
                         "%u registers of sums, a product of N = %u has %u", insn->vec, n, n / 2);
    }
    if (load_operands(warp, insn, a.value, b, n) != EMU_NEXT ||
        use_registers(warp, insn, warp->run->kernel->wide + insn->imm, n / 2) != EMU_NEXT) {
        return EMU_STOP;
    }
    if ((int32_t)((const uint32_t *)emu_operand(warp, insn, 6))[0] < 0) {
        negate(a.value, 16, depth);
    }
    if ((int32_t)((const uint32_t *)emu_operand(warp, insn, 7))[0] < 0) {
        negate(b, n, depth);
    }
    how = emu_dot_of(warp, insn->type2, insn->type3, false, true);
    emu_dot_exponents_a(&how, &a, 16, depth);
    for (uint32_t j = 0; j < n / 8; j++) {
        multiply(warp, insn, &how, j, depth, add, &a, (const double(*)[K_MAX])b);
    }
    return EMU_NEXT;
}

static int wgmma_fence(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    int step = emu_warp_whole(warp, insn, mask);

    warp->wgmma_fences += step == EMU_NEXT;
    return step;
}

static int wgmma_commit(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    int step = emu_warp_whole(warp, insn, mask);

    warp->wgmma_batch += step == EMU_NEXT;
    return step;
}

static int wgmma_wait(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)
{
    uint32_t keep = (uint32_t)insn->imm, done;
    int step = emu_warp_whole(warp, insn, mask);

    if (step != EMU_NEXT) {
        return step;
    }
    done = warp->wgmma_batch > keep ? warp->wgmma_batch - keep : 0;
    if (done > warp->wgmma_done) {
        warp->wgmma_done = done;
        emu_order_done(warp, mask, warp->run->warps * EMU_LANES + EMU_SLOT_WGMMA + warp->index,
                       done);
    }
    return EMU_NEXT;
}

#define TENSOR EMU_CLASS_TENSOR
#define WGMMA  "wgmma.mma_async.sync.aligned[.m64n*].f32"

static const struct ptx_row ROWS[] = {
    {WGMMA ".bf16.bf16", "Z E Sd G Sw Sw Sw Sw?", wgmma, TENSOR, 0},
    {WGMMA ".f16.f16", "Z E Sd G Sw Sw Sw Sw?", wgmma, TENSOR, 0},
    {WGMMA "[.e4m3|.e5m2][.e4m3|.e5m2]", "Z E Sd G Sw Sw Sw? Sw?", wgmma, TENSOR, 0},
    {"wgmma.fence.sync.aligned", "", wgmma_fence, EMU_CLASS_CONTROL, 0},
    {"wgmma.commit_group.sync.aligned", "", wgmma_commit, EMU_CLASS_CONTROL, 0},
    {"wgmma.wait_group.sync.aligned", "I", wgmma_wait, EMU_CLASS_CONTROL, 0},
};

EMU_ROWS_FUNCTION(EMU_ISA_NAME(emu_rows_wgmma), ROWS)
