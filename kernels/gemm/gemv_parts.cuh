// What the kernels for few rows of A share: reading eight elements of a row at the width that the
// problem's alignment allows, and bringing a tile of sums from the warps of a block, and of several
// blocks where K is split, to C.
#pragma once

#include <gk/epilogue.cuh>

namespace gemv
{

using namespace gk;

constexpr i32 kEight = 8; // 16-bit elements of 16 bytes: what a lane reads of one row at once

// Where B, which is read once, may stay. The order is that of the parameter LOAD.
enum class Cache : u32 {
    kAll = 0,        // L1 and L2
    kLevel2 = 1,     // L2
    kStream = 2,     // leaves first
    kNoAllocate = 3, // not in L1
    kPrefetch = 4,   // not in L1, and L2 fetches 256 bytes at once
};

template <Cache kCache> GK_DEVICE uint4 load_16(const void *address)
{
    if constexpr (kCache == Cache::kLevel2) {
        return ptx::ld_global_v4_cg(address);
    } else if constexpr (kCache == Cache::kStream) {
        return ptx::ld_global_v4_cs(address);
    } else if constexpr (kCache == Cache::kNoAllocate) {
        return ptx::ld_global_v4_no_allocate(address);
    } else if constexpr (kCache == Cache::kPrefetch) {
        return ptx::ld_global_v4_prefetch_256(address);
    } else {
        return ptx::ld_global_v4_ca(address);
    }
}

template <typename Element> GK_DEVICE u32 load_pair(const Element *address)
{
    return ptx::ld_global_u16(address) | static_cast<u32>(ptx::ld_global_u16(address + 1)) << 16;
}

// Eight neighbours, the first at a multiple of kBytes. The cache policy holds for accesses of 16
// bytes; narrower ones share sectors with their neighbours and go through L1.
template <u32 kBytes, Cache kCache, typename Element>
GK_DEVICE uint4 load_eight(const Element *address)
{
    static_assert(sizeof(Element) == 2, "a register holds two elements");
    if constexpr (kBytes == kChunkBytes) {
        return load_16<kCache>(address);
    } else if constexpr (kBytes == 8) {
        const uint2 low = *reinterpret_cast<const uint2 *>(address);
        const uint2 high = *reinterpret_cast<const uint2 *>(address + 4);
        return make_uint4(low.x, low.y, high.x, high.y);
    } else if constexpr (kBytes == 4) {
        return make_uint4(ptx::ld_global_u32(address), ptx::ld_global_u32(address + 2),
                          ptx::ld_global_u32(address + 4), ptx::ld_global_u32(address + 6));
    } else {
        return make_uint4(load_pair(address), load_pair(address + 2), load_pair(address + 4),
                          load_pair(address + 6));
    }
}

// The same of elements `stride` apart.
template <typename Element> GK_DEVICE uint4 gather_eight(const Element *address, i64 stride)
{
    u32 word[4];
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
        const u32 low = ptx::ld_global_u16(address + 2 * i * stride);
        const u32 high = ptx::ld_global_u16(address + (2 * i + 1) * stride);
        word[i] = low | high << 16;
    }
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// Of eight, those past `count` are zeros and not read. A loop, since it runs once at the end of K:
// unrolled, its loads would cost every thread of the block registers.
template <typename Element>
GK_DEVICE uint4 gather_some(const Element *address, i64 stride, i32 count)
{
    u64 low = 0, high = 0;
#pragma unroll 1
    for (i32 i = 0; i < min_of(count, kEight); ++i) {
        const u64 bits = static_cast<u64>(ptx::ld_global_u16(address + i * stride)) << (i % 4 * 16);
        low |= i < 4 ? bits : 0;
        high |= i < 4 ? 0 : bits;
    }
    return make_uint4(static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                      static_cast<u32>(high >> 32));
}

// A block's sums, one plane for each warp along K: sums[plane][row of A][column of C]. The pitch
// puts a tensor core's eight columns of four rows, two apart, into different banks.
template <u32 kPlanes, u32 kRowsOfA, u32 kColumns> struct Planes {
    static constexpr u32 kPitch = kColumns + 4;
    float v[kPlanes][kRowsOfA][kPitch];

    // In order of the planes, so that a result depends on the data alone.
    GK_DEVICE float total(u32 row, u32 column) const
    {
        float sum = v[0][row][column];
#pragma unroll
        for (u32 plane = 1; plane < kPlanes; ++plane) {
            sum += v[plane][row][column];
        }
        return sum;
    }
};

// Where a block's tile of C lies and what becomes of it.
template <typename Output, typename Epilogue> struct Tile {
    i32 m, n;   // of the problem
    i32 column; // first column of the tile
    i64 ldc;
    Output *c; // this batch entry's matrix
    Epilogue epilogue;

    GK_DEVICE void store(i32 row, i32 col, float sum) const
    {
        const i64 element = row * ldc + col;
        const float before = epilogue.c_in == nullptr ? 0.0f : to_float(epilogue.c_in[element]);
        c[element] = from_float<Output>(epilogue.finish(sum, before, epilogue.bias_of(col)));
    }
};

// Partial sums in the workspace: [split][batch][M][pitch] floats.
struct Partial {
    float *sums;   // null where one block has the whole of K
    u32 *arrivals; // one counter a tile and batch entry, zero between launches; null where a
                   // second launch adds the parts
    i64 pitch;     // floats of a row
    i64 slice;     // floats of a split
};

// Threads 0 to kThreads - 1 of a block, which finish a tile together: all of it, or those that
// multiply.
template <u32 kThreads> struct WholeBlock {
    static constexpr u32 kCount = kThreads;
    static GK_DEVICE void meet()
    {
        __syncthreads();
    }
};

template <u32 kThreads, u32 kBarrier> struct PartOfBlock {
    static constexpr u32 kCount = kThreads;
    static GK_DEVICE void meet()
    {
        ptx::named_barrier_sync(kBarrier, kThreads);
    }
};

// The block that comes last at the tile's counter; all its finishing threads learn it. What the
// other blocks wrote before they came is then visible to it.
template <typename Threads> GK_DEVICE bool arrive_last(u32 *counter, u32 blocks, u32 &ticket)
{
    Threads::meet(); // every thread of this block has written its partial sums
    if (threadIdx.x == 0) {
        __threadfence(); // they are visible before the arrival is
        ticket = atomicAdd(counter, 1u);
        __threadfence(); // the others' are visible after the last arrival
        if (ticket + 1 == blocks) {
            *counter = 0; // as the next launch wants it; nobody else comes here any more
        }
    }
    Threads::meet();
    return ticket + 1 == blocks;
}

// From shared memory to C, or to the workspace, and from there to C by the last block of the tile.
// All of Threads come here, after they met behind the last write to `planes`.
template <typename Threads, u32 kColumns, typename PlanesOfBlock, typename TileOfBlock>
GK_DEVICE void finish_tile(const PlanesOfBlock &planes, const TileOfBlock &tile,
                           const Partial &partial, u32 *counter, u32 &ticket)
{
    const u32 count = static_cast<u32>(tile.m) * kColumns;
    const u32 splits = gridDim.y;
#pragma unroll 1
    for (u32 index = threadIdx.x; index < count; index += Threads::kCount) {
        const u32 row = index / kColumns, offset = index % kColumns;
        const i32 col = tile.column + static_cast<i32>(offset);
        if (col < tile.n) {
            const float sum = planes.total(row, offset);
            if (partial.sums == nullptr) {
                tile.store(static_cast<i32>(row), col, sum);
            } else {
                partial.sums[blockIdx.y * partial.slice + row * partial.pitch + col] = sum;
            }
        }
    }
    if (counter == nullptr || !arrive_last<Threads>(counter, splits, ticket)) {
        return;
    }
#pragma unroll 1
    for (u32 index = threadIdx.x; index < count; index += Threads::kCount) {
        const u32 row = index / kColumns, offset = index % kColumns;
        const i32 col = tile.column + static_cast<i32>(offset);
        if (col < tile.n) {
            const float *part = partial.sums + row * partial.pitch + col;
            float sum = 0.0f;
#pragma unroll 4
            for (u32 split = 0; split < splits; ++split) {
                sum += part[split * partial.slice];
            }
            tile.store(static_cast<i32>(row), col, sum);
        }
    }
}

} // namespace gemv
