// Few long rows, each cut into parts, one block a part, so that a handful of rows keeps a whole GPU
// busy: which part a block has, and sums over a row's parts. Grid: parts of a row, then rows. Parts
// are runs of whole pieces of kCount elements, whose lengths differ by one piece at most. Columns
// times parts stay below 2^32: a division of 64 bits costs a hundred instructions.
#pragma once

#include <gk/reduce.cuh>

namespace gk
{

// Blocks of an SM in the launch bounds of such kernels. Where the number is left out ptxas spills a
// few registers to have one block more.
constexpr u32 kBlocksLeast = 1;

struct RowPart {
    i64 row;
    i32 split;
    i32 begin, end; // columns
};

template <u32 kCount> GK_DEVICE i32 part_begin(i32 cols, i32 splits, i32 split)
{
    const u32 pieces = ceil_div(static_cast<u32>(cols), kCount);
    const u32 first = static_cast<u32>(split) * pieces / static_cast<u32>(splits);
    return min_of(cols, static_cast<i32>(first * kCount));
}

// The calling block's.
template <u32 kCount> GK_DEVICE RowPart part_of_block(i32 cols, i32 splits)
{
    RowPart part;
    part.row = blockIdx.x / static_cast<u32>(splits);
    part.split = static_cast<i32>(blockIdx.x - part.row * splits);
    part.begin = part_begin<kCount>(cols, splits, part.split);
    part.end = part_begin<kCount>(cols, splits, part.split + 1);
    return part;
}

// What one warp finds over all parts of a row: lanes take parts side by side and are joined by
// shuffles, in an order that is always the same. All lanes get it.
template <typename Op, typename Of> GK_DEVICE float over_parts(i32 splits, Of of)
{
    float all = Op::neutral();
#pragma unroll 1
    for (i32 split = static_cast<i32>(lane_index()); split < splits;
         split += static_cast<i32>(kWarpSize)) {
        all = Op::apply(all, of(split));
    }
    return warp_reduce<Op>(all);
}

} // namespace gk
