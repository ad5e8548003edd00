/*
 * Loops over many candidates at once. Inside search/ only.
 *
 * GK_CLONES makes a function once for each vector unit and picks the machine's own when the program
 * starts. Nothing is summed across lanes and products are not fused with sums (-ffp-contract=off),
 * so that all of them give the same bits, and so does a machine without any. A sanitizer's run time
 * is not up yet when the choice is made: its builds have the plain one.
 */
#ifndef GK_SEARCH_LANES_H
#define GK_SEARCH_LANES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GK_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define GK_CLONES
#endif

#define LANES 16 /* floats of one vector: the widest unit's; others take several turns */
typedef float lanes __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

#endif
