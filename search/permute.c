/* See permute.h. Pure. */
#include "search/permute.h"

#include "core/prng.h"
#include "core/status.h"

void permute_init(struct permute *permute, uint32_t count, uint64_t seed, uint64_t stream)
{
    struct gk_prng prng;
    gk_prng_init(&prng, seed, stream);
    permute->count = count;
    permute->half_bits = 1;
    while (permute->half_bits < 16 && (UINT64_C(1) << 2 * permute->half_bits) < count) {
        permute->half_bits++;
    }
    for (uint32_t i = 0; i < PERMUTE_ROUNDS; i++) {
        permute->keys[i] = gk_prng_u32(&prng);
    }
}

/* The finaliser of a 32-bit hash: every bit of the input moves about half of the output. */
static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

uint32_t permute_at(const struct permute *permute, uint32_t position)
{
    GK_ASSERT(position < permute->count);
    uint32_t mask = (1u << permute->half_bits) - 1;
    uint32_t at = position;
    do { /* the domain is under four times count, so about four turns at the worst on average */
        uint32_t left = at >> permute->half_bits, right = at & mask;
        for (uint32_t i = 0; i < PERMUTE_ROUNDS; i++) {
            uint32_t next = left ^ (mix(right ^ permute->keys[i]) & mask);
            left = right;
            right = next;
        }
        at = left << permute->half_bits | right;
    } while (at >= permute->count);
    return at;
}
