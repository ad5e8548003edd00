/* Philox 4x32-10 and a stream over it: see prng.h. */
#include "core/prng.h"

#include <string.h>

#include "core/status.h"

/* Multipliers and Weyl increments as published with the generator. */
#define PHILOX_M0     0xD2511F53u
#define PHILOX_M1     0xCD9E8D57u
#define PHILOX_W0     0x9E3779B9u
#define PHILOX_W1     0xBB67AE85u
#define PHILOX_ROUNDS 10

void gk_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void gk_prng_init(struct gk_prng *prng, uint64_t seed, uint64_t stream)
{
    memset(prng, 0, sizeof *prng);
    /* The stream is mixed into the key by one block of the generator itself, so that nearby seeds
     * and streams share nothing. */
    uint32_t counter[4] = {(uint32_t)stream, (uint32_t)(stream >> 32), 0x676b7072u, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t mixed[4];
    gk_philox(counter, key, mixed);
    prng->key[0] = mixed[0];
    prng->key[1] = mixed[1];
    prng->used = 4;
}

uint32_t gk_prng_u32(struct gk_prng *prng)
{
    if (prng->used == 4) {
        uint32_t counter[4] = {(uint32_t)prng->counter, (uint32_t)(prng->counter >> 32), 0, 1};
        gk_philox(counter, prng->key, prng->block);
        prng->counter++;
        prng->used = 0;
    }
    return prng->block[prng->used++];
}

uint64_t gk_prng_u64(struct gk_prng *prng)
{
    uint64_t low = gk_prng_u32(prng);
    return low | (uint64_t)gk_prng_u32(prng) << 32;
}

uint64_t gk_prng_below(struct gk_prng *prng, uint64_t bound)
{
    GK_ASSERT(bound > 0);
    uint64_t limit = UINT64_MAX - UINT64_MAX % bound; /* a multiple of bound */
    uint64_t value = gk_prng_u64(prng);
    while (value >= limit) { /* ends: each draw fails with probability under a half */
        value = gk_prng_u64(prng);
    }
    return value % bound;
}

double gk_prng_unit(struct gk_prng *prng)
{
    return (double)(gk_prng_u64(prng) >> 11) * 0x1p-53;
}
