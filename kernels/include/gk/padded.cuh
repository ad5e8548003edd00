// Tiles in shared memory whose rows have any whole number of chunks.
#pragma once

#include <gk/base.cuh>

namespace gk
{

// A tile in shared memory whose rows lie an odd number of chunks apart: the eight neighbouring rows
// of an ldmatrix then fall into different positions of the bank line, whatever the row's length.
// Costs a chunk a row; where rows are a power of two SwizzledTile does without.
template <u32 kRowsOfTile, u32 kRowBytes> struct PaddedTile {
    static constexpr u32 kRows = kRowsOfTile;
    static constexpr u32 kRowChunks = kRowBytes / kChunkBytes;
    static constexpr u32 kPitch = (kRowChunks | 1) * kChunkBytes;
    static constexpr u32 kBytes = kRows * kPitch;

    static_assert(kRowBytes % kChunkBytes == 0, "rows are whole chunks");

    // Byte offset of a chunk from the start of the tile.
    static GK_DEVICE u32 offset(u32 row, u32 chunk)
    {
        return row * kPitch + chunk * kChunkBytes;
    }
};

} // namespace gk
