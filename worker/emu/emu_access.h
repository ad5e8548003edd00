/*
 * emu_access(): the one gate through which a warp reaches memory. It computes addresses, resolves
 * generic ones, checks alignment, bounds, constness and written bytes, counts sectors and
 * wavefronts, and hands back host pointers. A checker of happens-before order belongs here: mask,
 * addresses, kind and instruction are all in hand.
 *
 * Compiled once an instruction set; include emu_exec.h first.
 */
#ifndef GK_WORKER_EMU_EMU_ACCESS_H
#define GK_WORKER_EMU_EMU_ACCESS_H

#include "worker/emu/emu_exec.h"

enum emu_access_kind {
    EMU_LOAD = 1,
    EMU_STORE = 2,
    EMU_ATOMIC = 3, /* both */
    EMU_PLACE = 4   /* address, bounds and alignment only: destination of an asynchronous copy */
};

struct emu_reach {
    uint64_t address[EMU_LANES]; /* in the space below; lanes outside the mask repeat another */
    unsigned char *ptr[EMU_LANES];
    enum emu_space space; /* resolved: never EMU_GENERIC; of the first lane when they differ */
    bool contiguous;      /* all 32 lanes, one behind the other */
    bool uniform;         /* all lanes at one address */
    /* Of a write, if races are looked for: lanes that write where the lane `twin` writes too. */
    uint32_t twins;
    uint8_t twin[EMU_LANES];
};

#define emu_access      EMU_ISA_NAME(emu_access)
#define emu_wavefronts  EMU_ISA_NAME(emu_wavefronts)
#define emu_touch_pages EMU_ISA_NAME(emu_touch_pages)

/* `second` takes the instruction's second address. `bytes` is what one lane touches (1..16, a power
 * of two). EMU_NEXT or EMU_STOP. */
int emu_access(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask,
               enum emu_space space, bool second, uint32_t bytes, enum emu_access_kind kind,
               struct emu_reach *out);
/* Passes of the 32 banks that the lanes of the mask need. */
uint32_t emu_wavefronts(const uint64_t *address, uint32_t mask, uint32_t bytes);
/* Bytes [first, last] of an allocation are touched by this launch: what the model takes for the
 * launch's footprint, in whole pages. */
void emu_touch_pages(struct emu_run *run, struct emu_alloc *alloc, uint64_t first, uint64_t last);

/* The address operand `which` (0 to 2) of the lane, as it is written. */
static inline uint64_t emu_lane_address(struct emu_warp *warp, const struct emu_insn *insn,
                                        unsigned which, unsigned lane)
{
    int16_t index = which == 0 ? insn->address : which == 1 ? insn->address2 : insn->address3;
    int64_t offset = which == 0 ? insn->imm : which == 1 ? insn->imm2 : insn->imm3;
    uint8_t width = which == 0   ? insn->address_width
                    : which == 1 ? insn->address2_width
                                 : insn->address3_width;
    const void *base = emu_operand(warp, insn, (unsigned)index);

    return width == 4 ? (uint32_t)(((const uint32_t *)base)[lane] + (uint32_t)offset)
                      : ((const uint64_t *)base)[lane] + (uint64_t)offset;
}

/* A generic address of shared memory as one of its window; others as they are. */
static inline uint64_t emu_shared_offset(uint64_t address)
{
    return address >= EMU_SHARED_BASE && address - EMU_SHARED_BASE < EMU_WINDOW_BYTES
               ? address - EMU_SHARED_BASE
               : address;
}

#endif
