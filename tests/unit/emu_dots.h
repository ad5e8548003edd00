/*
 * Sums of the tensor cores on random operands: kernels of one product each, their inputs, and a
 * hash of what comes out. tests/data/emu/dots.txt holds the hashes that an H200 gave
 * (emu_record_dots.c).
 */
#ifndef GK_TESTS_UNIT_EMU_DOTS_H
#define GK_TESTS_UNIT_EMU_DOTS_H

#include <stdint.h>

#define EMU_DOTS_BLOCKS 264u
#define EMU_DOTS_IN     1024u /* words of a block */
#define EMU_DOTS_OUT    512u
#define EMU_DOTS_KINDS  11u /* block b has inputs of kind b % 11 */

uint32_t emu_dots_count(void);
const char *emu_dots_name(uint32_t index);
/* CUDA text of all kernels, for sm_90a: name(const u32 *in, u32 *out), 128 threads a block. */
const char *emu_dots_source(void);
/* All inputs of one kernel. */
void emu_dots_fill(uint32_t index, uint32_t in[EMU_DOTS_BLOCKS * EMU_DOTS_IN]);
/* Of the outputs of the blocks of one kind. */
uint64_t emu_dots_hash(const uint32_t out[EMU_DOTS_BLOCKS * EMU_DOTS_OUT], uint32_t kind);

#endif
