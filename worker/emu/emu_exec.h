/*
 * Lane loops of the exec files. With the full mask the loop has a constant trip count and no
 * branches, so the compiler makes vector code of it; a partial mask walks its bits.
 *
 * Destinations may be the very array a source is in (same lanes, same width), never an overlapping
 * one: that is what ivdep promises.
 */
#ifndef GK_WORKER_EMU_EMU_EXEC_H
#define GK_WORKER_EMU_EMU_EXEC_H

#include "worker/emu/ptx_table.h"

/* clang takes the same promise as an order, and fails the build where it cannot follow. */
#if defined(__clang__)
#define EMU_VECTOR
#else
#define EMU_VECTOR _Pragma("GCC ivdep")
#endif

/* Runs the statement for each lane of `mask`, with the lane's number in `l`. */
#define EMU_FOR_LANES(mask, ...)                                                                   \
    do {                                                                                           \
        if ((mask) == EMU_FULL) {                                                                  \
            EMU_VECTOR                                                                             \
            for (unsigned l = 0; l < EMU_LANES; l++) {                                             \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        } else {                                                                                   \
            for (uint32_t lanes_left = (mask); lanes_left; lanes_left &= lanes_left - 1) {         \
                const unsigned l = (unsigned)__builtin_ctz(lanes_left);                            \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* A function for d = expression of a (b, c), elements x, y, z; D and S are C types. */
#define EMU_OP1(name, D, S, ...)                                                                   \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        D *d = emu_operand(warp, insn, 0);                                                         \
        const S *a = emu_operand(warp, insn, 1);                                                   \
        EMU_FOR_LANES(mask, const S x = a[l]; d[l] = (D)(__VA_ARGS__));                            \
        return EMU_NEXT;                                                                           \
    }
#define EMU_OP2(name, D, S, ...)                                                                   \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        D *d = emu_operand(warp, insn, 0);                                                         \
        const S *a = emu_operand(warp, insn, 1);                                                   \
        const S *b = emu_operand(warp, insn, 2);                                                   \
        EMU_FOR_LANES(mask, const S x = a[l]; const S y = b[l]; d[l] = (D)(__VA_ARGS__));          \
        return EMU_NEXT;                                                                           \
    }
/* The second source has a type of its own (shift amounts). */
#define EMU_OP2T(name, D, S, T, ...)                                                               \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        D *d = emu_operand(warp, insn, 0);                                                         \
        const S *a = emu_operand(warp, insn, 1);                                                   \
        const T *b = emu_operand(warp, insn, 2);                                                   \
        EMU_FOR_LANES(mask, const S x = a[l]; const T y = b[l]; d[l] = (D)(__VA_ARGS__));          \
        return EMU_NEXT;                                                                           \
    }
/* Third source of type T (D of wide multiply-add). */
#define EMU_OP3T(name, D, S, T, ...)                                                               \
    static int name(struct emu_warp *warp, const struct emu_insn *insn, uint32_t mask)             \
    {                                                                                              \
        D *d = emu_operand(warp, insn, 0);                                                         \
        const S *a = emu_operand(warp, insn, 1);                                                   \
        const S *b = emu_operand(warp, insn, 2);                                                   \
        const T *c = emu_operand(warp, insn, 3);                                                   \
        EMU_FOR_LANES(mask, const S x = a[l]; const S y = b[l]; const T z = c[l];                  \
                      d[l] = (D)(__VA_ARGS__));                                                    \
        return EMU_NEXT;                                                                           \
    }
#define EMU_OP3(name, D, S, ...) EMU_OP3T(name, D, S, S, __VA_ARGS__)

/* Exec files that exist once an instruction set name their table function after it. */
#ifndef GK_EMU_ISA
#define GK_EMU_ISA base
#endif
#define EMU_JOIN_(a, b)    a##_##b
#define EMU_JOIN(a, b)     EMU_JOIN_(a, b)
#define EMU_ISA_NAME(name) EMU_JOIN(name, GK_EMU_ISA)

#define EMU_ROWS_FUNCTION(function, table)                                                         \
    struct ptx_rows function(void)                                                                 \
    {                                                                                              \
        return (struct ptx_rows){table, (uint32_t)GK_ARRAY_COUNT(table)};                          \
    }

#endif
