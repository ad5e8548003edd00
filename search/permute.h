/*
 * A seeded permutation of 0 .. count-1 that is computed and not stored: drawing without replacement
 * at O(1) an item and no memory, whatever the size of the space. A Feistel network over the next
 * even number of bits, walked along its cycle until it is inside. Inside search/ only.
 */
#ifndef GK_SEARCH_PERMUTE_H
#define GK_SEARCH_PERMUTE_H

#include <stdint.h>

#define PERMUTE_ROUNDS 6

struct permute {
    uint32_t count;
    uint32_t half_bits;
    uint32_t keys[PERMUTE_ROUNDS];
};

void permute_init(struct permute *permute, uint32_t count, uint64_t seed, uint64_t stream);
/* Image of position < count. */
uint32_t permute_at(const struct permute *permute, uint32_t position);

#endif
