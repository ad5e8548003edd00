/*
 * Mutants of PTX text: every wait, fence, barrier, commit and arrive removed in turn, every parity
 * flipped, every count of arrivals, bytes and groups changed by one.
 */
#ifndef GK_TESTS_UNIT_PTX_MUTANTS_H
#define GK_TESTS_UNIT_PTX_MUTANTS_H

#include <stddef.h>
#include <stdint.h>

struct ptx_mutant {
    uint32_t line;  /* 1-based, of the original */
    char what[32];  /* "removed", "parity flipped" ... */
    char code[160]; /* the original line */
    char *text;     /* the whole mutant; the caller frees it */
};

/* The index-th mutant, 0 and up. false: there are no more. */
_Bool ptx_mutant_make(const char *ptx, uint32_t index, struct ptx_mutant *out);

#endif
