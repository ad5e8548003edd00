/*
 * Small kernels in files that say how they are launched and how they must end.
 *
 * A file begins with directives:
 *   // twin: target=sm_90a grid=4 block=64 cluster=2 smem=0 out=256 work=16 launches=1 big=0
 *   // map: in|out TYPE dims=a,b box=c,d [swizzle=128] [offset=BYTES]
 *   // wants: RACE|PENDING [somewhere]
 *   // open: what the emulated device cannot do yet; such a file is named, not run
 * and holds k(const unsigned *in, unsigned *out, unsigned *work, map ...). `in` are 4096 mixed
 * words, `out` words that nobody wrote, all of which a right kernel writes; `work` words of zero;
 * with big, bytes that nobody wrote take the place of work. The launch is repeated on what the one
 * before left.
 *
 * A broken kernel is compiled twice. With BAD defined as 0 it is right; with 1 it must end as
 * `wants` says under each schedule, or, with `somewhere`, under one at least and right under the
 * others: in a fault of one of these names, WRONG (its output is not that of the right one) or
 * MISSING (output that it did not write). Lines marked (1) and (2) in a comment must both be named
 * by the report of a race.
 */
#ifndef GK_TESTS_UNIT_TWIN_H
#define GK_TESTS_UNIT_TWIN_H

#include "tests/unit/emu_for_tests.h"

#define TWIN_OUT_MAX  1024
#define TWIN_MAPS_MAX 3

struct twin {
    char name[80]; /* of the file */
    char *text;
    char target[16];
    uint32_t grid, block, cluster, smem, out_words, work_words, launches;
    uint64_t big_bytes;
    char wants[80]; /* "RACE|PENDING"; empty: a right kernel */
    bool somewhere;
    char open[200];    /* empty: it is run */
    uint32_t marks[2]; /* lines, 1-based; 0: not marked */
    struct gk_emu_map maps[TWIN_MAPS_MAX];
    bool map_of_out[TWIN_MAPS_MAX];
    uint32_t map_offset[TWIN_MAPS_MAX], map_count;
};

struct twin_end {
    enum gk_emu_fault fault; /* NONE: it ran to its end */
    char why[GK_EMU_TEXT_MAX];
    uint32_t unwritten; /* bytes of the output */
    uint32_t out[TWIN_OUT_MAX];
};

/* Fails the test if the file cannot be read or has no directives. */
void twin_load(struct twin *twin, const char *folder, const char *file);
void twin_fini(struct twin *twin);
/* PTX; the caller frees it. */
char *twin_compile(const struct twin *twin, bool bad);
/* On a new device. */
void twin_run(const struct twin *twin, const char *ptx, enum gk_emu_schedule schedule,
              uint64_t seed, struct twin_end *end);

#endif
