// Copies of tiles from global to swizzled shared memory by all threads of a block.
#pragma once

#include <gk/ptx.cuh>
#include <gk/swizzle.cuh>

namespace gk
{

// One piece of 2 to 16 bytes, as wide as the alignment allows; `valid_bytes` of it are read, the
// rest becomes zero. Two bytes are too narrow for cp.async: such a piece goes through a register,
// is complete when the call returns, and is ordered by the same barrier as the asynchronous ones.
template <u32 kBytes> GK_DEVICE void copy_piece(u32 destination, const u8 *source, u32 valid_bytes)
{
    static_assert(kBytes == 16 || kBytes == 8 || kBytes == 4 || kBytes == 2, "a width of the ISA");
    if constexpr (kBytes == 16) {
        ptx::cp_async_16(destination, source, valid_bytes);
    } else if constexpr (kBytes == 8) {
        ptx::cp_async_8(destination, source, valid_bytes);
    } else if constexpr (kBytes == 4) {
        ptx::cp_async_4(destination, source, valid_bytes);
    } else {
        u16 value = 0;
        if (valid_bytes != 0) {
            value = ptx::ld_global_u16(source);
        }
        ptx::st_shared_u16(destination, value);
    }
}

// Walks a matrix in global memory tile by tile and copies each tile to shared memory. kThreads
// threads work as rows of kLanes: neighbours take neighbouring pieces of a row, so a warp reads
// whole sectors. Each thread holds one pointer, to its first piece; the others are whole row steps
// away from it.
template <typename Tile, u32 kThreads, u32 kPieceBytes> class TileCopy
{
    static constexpr u32 kElementBytes = 2;
    static constexpr u32 kPieceElements = kPieceBytes / kElementBytes;
    static constexpr u32 kRowPieces = Tile::kCols / kPieceElements;
    // The largest power of two in the pieces of a row, so that a thread's column is the same in all
    // rows.
    static constexpr u32 kLanes = min_of(kRowPieces & (~kRowPieces + 1), kThreads);
    static constexpr u32 kRowStep = kThreads / kLanes;
    static constexpr u32 kRowPasses = ceil_div(Tile::kRows, kRowStep);
    static constexpr u32 kColPasses = kRowPieces / kLanes;
    static constexpr u32 kColStep = kLanes * kPieceElements;
    // Full pieces are few and are unrolled, so that all their requests leave together. Narrow ones
    // are many, and unrolling them would cost compile time for a path that waits anyway.
    static constexpr u32 kUnroll = kPieceBytes == kChunkBytes ? kRowPasses : 2;

    static_assert(kThreads % kLanes == 0, "threads form whole rows");

    const u8 *source_; // this thread's first piece of the current tile
    i64 step_bytes_;   // between its rows
    i32 row_, col_;    // of that piece in the tile, in elements

  public:
    // `origin` is the first element of the first tile, `pitch` the elements between its rows.
    GK_DEVICE TileCopy(const void *origin, i64 pitch, u32 thread)
        : row_(static_cast<i32>(thread / kLanes)),
          col_(static_cast<i32>(thread % kLanes * kPieceElements))
    {
        source_ = static_cast<const u8 *>(origin) + (row_ * pitch + col_) * kElementBytes;
        step_bytes_ = static_cast<i64>(kRowStep) * pitch * kElementBytes;
    }

    // Starts the copy of the current tile. Rows from rows_left and columns from cols_left on lie
    // outside the matrix: they are not read and become zero. The caller commits.
    GK_DEVICE void issue(u32 tile_address, i32 rows_left, i32 cols_left) const
    {
        const u8 *source = source_;
#pragma unroll(kUnroll)
        for (u32 pass = 0; pass < kRowPasses; ++pass) {
            const u32 row = static_cast<u32>(row_) + pass * kRowStep;
            if (Tile::kRows % kRowStep == 0 || row < Tile::kRows) {
                const bool inside = static_cast<i32>(row) < rows_left;
                copy_row(tile_address, source, row, inside ? cols_left - col_ : 0);
            }
            source += step_bytes_;
        }
    }

    // Moves on to a tile that begins `elements` after this one.
    GK_DEVICE void advance(i64 elements)
    {
        source_ += elements * kElementBytes;
    }

  private:
    // This thread's pieces of one row; `left` elements of the matrix follow its first piece's
    // start.
    GK_DEVICE void copy_row(u32 tile_address, const u8 *source, u32 row, i32 left) const
    {
#pragma unroll
        for (u32 pass = 0; pass < kColPasses; ++pass) {
            const u32 col = static_cast<u32>(col_) + pass * kColStep;
            const u32 address = tile_address + Tile::offset(row, col / Tile::kChunkElements) +
                                col % Tile::kChunkElements * kElementBytes;
            const i32 valid = clamp_of(left - static_cast<i32>(pass * kColStep), 0,
                                       static_cast<i32>(kPieceElements));
            copy_piece<kPieceBytes>(address, source + pass * kColStep * kElementBytes,
                                    static_cast<u32>(valid) * kElementBytes);
        }
    }
};

} // namespace gk
