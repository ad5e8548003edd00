/*
 * Mutants of PTX text: every wait, fence, barrier, commit and arrive removed in turn, every parity
 * flipped, every count of arrivals, bytes, threads and groups changed by one unit. One statement
 * is changed at a time; what NVRTC makes stands on lines of its own. For kernels that have none of
 * these there are edges: comparisons one off, stores left out.
 */
#ifndef GK_TESTS_UNIT_PTX_MUTANTS_H
#define GK_TESTS_UNIT_PTX_MUTANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_mutant {
    uint32_t line;    /* 1-based, of the PTX */
    char what[32];    /* "removed", "parity flipped" ... */
    char opcode[80];  /* of the changed instruction, with its modifiers; of a comparison also what
                         it compares with */
    char code[200];   /* the changed statement */
    char file[80];    /* base name of the innermost source that is no header of gk or CUDA; "" */
    uint32_t in_file; /* line of it, 1-based */
    char *text;       /* the whole mutant; the caller frees it */
};

/* The index-th mutant, 0 and up, of order or of edges. false: there are no more. */
bool ptx_mutant_make(const char *ptx, bool edges, uint32_t index, struct ptx_mutant *out);
uint32_t ptx_mutant_count(const char *ptx, bool edges);

#endif
