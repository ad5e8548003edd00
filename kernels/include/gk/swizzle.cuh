// Tiles of 16-bit elements in shared memory, laid out so that neither the copy in nor ldmatrix
// meets a bank conflict.
//
// A row is cut into chunks of 16 bytes, the unit of both. ldmatrix reads one chunk from each of
// eight neighbouring rows; they must lie in eight different positions of the 128-byte bank line.
// Row-major order fails that (rows of 128 bytes put all eight into one position), so chunk c of row
// r is stored at position c ^ x(r), where x counts bank lines: it changes each time the rows have
// filled one. Padding rows by a chunk would do too, but costs memory and breaks the power-of-two
// strides.
#pragma once

#include <gk/base.cuh>

namespace gk
{

template <u32 kRowsOfTile, u32 kColsOfTile> struct SwizzledTile {
    static constexpr u32 kRows = kRowsOfTile;
    static constexpr u32 kCols = kColsOfTile;
    static constexpr u32 kChunkElements = kChunkBytes / 2;
    static constexpr u32 kRowChunks = kCols / kChunkElements;
    static constexpr u32 kRowBytes = kCols * 2;
    static constexpr u32 kBytes = kRows * kRowBytes;
    static constexpr u32 kLineChunks = kBankLineBytes / kChunkBytes;
    // Rows that share one bank line, and the number of chunks that the XOR permutes.
    static constexpr u32 kRowsPerLine = max_of(1u, kLineChunks / kRowChunks);
    static constexpr u32 kPermuted = min_of(kLineChunks, kRowChunks);

    static_assert(kCols % kChunkElements == 0, "rows are whole chunks");
    static_assert(is_pow2(kRowChunks) || kRowChunks % kLineChunks == 0,
                  "the XOR must stay inside the row");

    // Byte offset of a chunk from the start of the tile.
    static GK_DEVICE u32 offset(u32 row, u32 chunk)
    {
        return row * kRowBytes + (chunk ^ (row / kRowsPerLine % kPermuted)) * kChunkBytes;
    }
};

} // namespace gk
