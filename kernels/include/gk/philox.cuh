// Philox 4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1,
// 2, 3; SC 2011): four random words of a counter and a key, without any state between calls.
#pragma once

#include <gk/base.cuh>

namespace gk
{

struct RandomWords {
    u32 w[4];
};

GK_DEVICE RandomWords philox(u64 counter, u64 key)
{
    constexpr u32 kMultiplier0 = 0xd2511f53u, kMultiplier1 = 0xcd9e8d57u;
    constexpr u32 kBump0 = 0x9e3779b9u,
                  kBump1 = 0xbb67ae85u; // golden ratio, square root of 3, minus 1
    u32 c0 = static_cast<u32>(counter), c1 = static_cast<u32>(counter >> 32), c2 = 0, c3 = 0;
    u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
#pragma unroll
    for (u32 round = 0; round < 10; ++round) {
        const u32 high0 = __umulhi(kMultiplier0, c0), low0 = kMultiplier0 * c0;
        const u32 high1 = __umulhi(kMultiplier1, c2), low1 = kMultiplier1 * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += kBump0;
        k1 += kBump1;
    }
    return RandomWords{{c0, c1, c2, c3}};
}

// 16 random bits each of kCount elements in a row from element `first` on, two elements a word, the
// lower half first. Element e has half e % 8 of the four words of counter e / 8, whoever asks: a
// probability is met to 2^-17, at half the price of 32 bits each.
template <u32 kCount>
GK_DEVICE void element_halves(u32 (&halves)[ceil_div(kCount, 2u)], u64 first, u64 key)
{
    constexpr u32 kBlock = 8; // elements of a counter
    if constexpr (kCount % kBlock == 0) {
        if (first % kBlock == 0) {
#pragma unroll
            for (u32 i = 0; i < kCount / kBlock; ++i) {
                const RandomWords block = philox(first / kBlock + i, key);
#pragma unroll
                for (u32 w = 0; w < 4; ++w) {
                    halves[4 * i + w] = block.w[w];
                }
            }
            return;
        }
    }
    RandomWords block = philox(first / kBlock, key);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        const u32 place = static_cast<u32>(first + i) % kBlock;
        if (i > 0 && place == 0) {
            block = philox((first + i) / kBlock, key);
        }
        const u32 word = place < 2   ? block.w[0]
                         : place < 4 ? block.w[1]
                         : place < 6 ? block.w[2]
                                     : block.w[3];
        const u32 half = place % 2 == 0 ? word & 0xffffu : word >> 16;
        halves[i / 2] = i % 2 == 0 ? half : halves[i / 2] | half << 16;
    }
}

} // namespace gk
