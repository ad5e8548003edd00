/*
 * One tiny kernel an instruction form, over inputs full of edge values: what test_emu_ops runs on
 * the emulated device and emu_record_ops on a GPU, whose results are tests/data/emu/ops.txt.
 */
#ifndef GK_TESTS_UNIT_EMU_OPS_H
#define GK_TESTS_UNIT_EMU_OPS_H

#include <stdint.h>

#define EMU_OPS_THREADS     256
#define EMU_OPS_INPUT_BYTES (16 * EMU_OPS_THREADS * 8)

struct emu_op {
    const char *text;  /* with %d (and %e), %a, %b, %c */
    const char *kinds; /* of d, a, b, c; see emu_ops.c */
};

uint32_t emu_ops_count(void);
const struct emu_op *emu_ops_at(uint32_t index);
/* malloc'd PTX with kernels op_0, op_1 ...; each takes (input, output) and writes
 * EMU_OPS_THREADS results of 8 bytes. */
char *emu_ops_ptx(const char *target);
void emu_ops_inputs(unsigned char *input);
/* FNV-1a of an operation's results. */
uint64_t emu_ops_hash(const uint64_t *results);

#endif
