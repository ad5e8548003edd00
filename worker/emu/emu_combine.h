/*
 * What an atomic operation or a reduction leaves in memory: everything but sums of floats, whose
 * rounding depends on who adds (atom and red, or bulk copies), and compare-and-swap.
 */
#ifndef GK_WORKER_EMU_EMU_COMBINE_H
#define GK_WORKER_EMU_EMU_COMBINE_H

#include "worker/emu/ptx_table.h"

/* `op`: enum ptx_atom; `type`: an integer type, whose bits stand at the bottom of both values. The
 * bits above those of the type are not defined in the result. */
static inline uint64_t emu_combine(uint8_t op, uint8_t type, uint64_t old, uint64_t b)
{
    bool less = type == PTX_S32   ? (int32_t)old < (int32_t)b
                : type == PTX_S64 ? (int64_t)old < (int64_t)b
                                  : old < b;

    switch ((enum ptx_atom)op) {
    case PTX_AND:
        return old & b;
    case PTX_OR:
        return old | b;
    case PTX_XOR:
        return old ^ b;
    case PTX_ADD:
        return old + b;
    case PTX_INC:
        return old >= b ? 0 : old + 1;
    case PTX_DEC:
        return old == 0 || old > b ? b : old - 1;
    case PTX_MIN:
        return less ? old : b;
    case PTX_MAX:
        return less ? b : old;
    default: /* exch */
        return b;
    }
}

#endif
