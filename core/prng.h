/*
 * Randomness as a value.
 *
 * gk_philox() is Philox 4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", SC11): a counter-based generator, so element i of tensor t under seed s is a pure
 * function of (s, t, i) and the CPU, the emulated device and a GPU hold the same bits. struct
 * gk_prng is a stream over it for searches, schedules and tests: same seed, same sequence.
 */
#ifndef GK_CORE_PRNG_H
#define GK_CORE_PRNG_H

#include <stdint.h>

void gk_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

struct gk_prng {
    uint32_t key[2];
    uint64_t counter; /* blocks drawn */
    uint32_t block[4];
    uint32_t used; /* words of block handed out; 4 = draw a new one */
};

/* Two streams of one seed differ in `stream`. */
void gk_prng_init(struct gk_prng *prng, uint64_t seed, uint64_t stream);
uint32_t gk_prng_u32(struct gk_prng *prng);
uint64_t gk_prng_u64(struct gk_prng *prng);
/* Uniform in [0, bound) without modulo bias; bound > 0. */
uint64_t gk_prng_below(struct gk_prng *prng, uint64_t bound);
/* Uniform in [0, 1) with 53 bits. */
double gk_prng_unit(struct gk_prng *prng);

#endif
