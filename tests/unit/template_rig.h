/*
 * Every template of gemm with one config and one problem on the emulated device, from PTX that a
 * test may have changed. Inputs are -1, 0 and 1, so that sums are exact in every order and in every
 * type. What a test asks for is how a run ended: right, wrong, or in a fault.
 */
#ifndef GK_TESTS_UNIT_TEMPLATE_RIG_H
#define GK_TESTS_UNIT_TEMPLATE_RIG_H

#include "tests/unit/wgmma_rig.h"

#define TEMPLATE_LAUNCHES_MAX 2

struct template_case {
    const char *template_; /* "gemm_mma": kernels/gemm/gemm_mma.cuh */
    const char *what;      /* what is special, for people */
    const char *defines;   /* "BM=32 BN=32 ...", each becomes -DGK_BM=32 ...; not of gemm_wgmma */
    uint32_t m, n, k, splits;
    struct {
        uint32_t n, k, splits;
    } more[3];                       /* other problems for the same code; n 0: none */
    uint32_t tile_m, tile_n, tile_k; /* of a block; tile_k: the unit that K is split by */
    uint32_t threads, smem;
    uint32_t blocks; /* that take the tiles in turn; 0: one a tile */
    bool last;       /* the last block of a tile adds the parts, else gemm_splitk_reduce does */
    struct wgmma_config wgmma; /* of gemm_wgmma alone, instead of all from `defines` on */
};

/* How a run ended; why is empty if it was right. */
struct template_end {
    bool loaded; /* the texts are PTX that the device knows */
    bool right;
    uint64_t work;           /* warp instructions */
    enum gk_emu_fault fault; /* NONE: the result was wrong, or the text did not load */
    char why[GK_EMU_TEXT_MAX];
};

/* Problems of a case, at least one. */
uint32_t template_shapes(const struct template_case *one);
/* Launches of a case: one, or two where a second one adds the parts. */
uint32_t template_launches(const struct template_case *one);
/* Name of the source of a launch, without .cuh. */
const char *template_source(const struct template_case *one, uint32_t launch);
/* PTX of one launch; the caller frees it. Fails the test if it does not compile. Sources and
 * headers in `overlay` (gemm/x.cuh, gk/x.cuh) come before those of kernels/; NULL: none. */
char *template_compile(const struct template_case *one, uint32_t launch, const char *overlay);
/* A new device, one run of all launches from these texts; shape 0 is the case's problem, the others
 * are more[shape - 1]. work_limit: warp instructions, 0: the
 * default. */
void template_run(const struct template_case *one, uint32_t shape,
                  char *const texts[TEMPLATE_LAUNCHES_MAX], enum gk_emu_schedule schedule,
                  uint64_t seed, uint64_t work_limit, struct template_end *end);

#endif
