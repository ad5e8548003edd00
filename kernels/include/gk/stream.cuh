// Copies of tiles from global to swizzled shared memory with a choice of how the caches treat what
// is read: <gk/copy.cuh> for operands of which one streams by and another one is read again.
#pragma once

#include <gk/rows.cuh>
#include <gk/swizzle.cuh>

namespace gk
{

namespace ptx
{

// PTX ISA: cp.async, with a cache policy. 16 bytes go past L1 unless `use` wants them there; the
// narrow forms exist with .ca only. `source_bytes` are read, the rest becomes zero.
template <CacheUse use, u32 kBytes>
GK_DEVICE void cp_async_as(u32 destination, const void *source, u32 source_bytes, u64 policy)
{
    constexpr bool kHint = use == CacheUse::kEvictFirst || use == CacheUse::kEvictLast;
    if constexpr (kBytes == 16 && kHint) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes), "l"(policy)
                     : "memory");
    } else if constexpr (kBytes == 16 && use == CacheUse::kL2) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes)
                     : "memory");
    } else if constexpr (kBytes == 16 && use == CacheUse::kL2Ahead) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes)
                     : "memory");
    } else if constexpr (kHint) {
        asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %4, %2, %3;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes), "l"(policy), "n"(kBytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes), "n"(kBytes)
                     : "memory");
    }
}

} // namespace ptx

// Walks a matrix of 16-bit elements tile by tile and copies each to shared memory, as TileCopy of
// <gk/copy.cuh> does. kThreads threads work as rows of kLanes: neighbours take neighbouring pieces
// of a row, so that a warp reads whole sectors. A thread holds one pointer, to its first piece; the
// others are whole row steps away from it.
template <typename Tile, u32 kThreads, u32 kPieceBytes, CacheUse use> class TileStream
{
    static constexpr u32 kElementBytes = 2;
    static constexpr u32 kPieceElements = kPieceBytes / kElementBytes;
    static constexpr u32 kRowPieces = Tile::kCols / kPieceElements;
    static constexpr u32 kLanes = min_of(kRowPieces & (~kRowPieces + 1), kThreads);
    static constexpr u32 kRowStep = kThreads / kLanes;
    static constexpr u32 kRowPasses = ceil_div(Tile::kRows, kRowStep);
    static constexpr u32 kColPasses = kRowPieces / kLanes;
    static constexpr u32 kColStep = kLanes * kPieceElements;
    // Full pieces leave together; narrow ones are many, and wait anyway.
    static constexpr u32 kUnroll = kPieceBytes == kChunkBytes ? kRowPasses : 2;

    static_assert(kThreads % kLanes == 0, "threads form whole rows");

    const u8 *source_; // this thread's first piece of the current tile
    i64 step_bytes_;   // between its rows
    u64 policy_;
    i32 row_, col_; // of that piece in the tile, in elements

  public:
    // `origin` is the first element of the first tile, `pitch` the elements between its rows.
    GK_DEVICE TileStream(const void *origin, i64 pitch, u32 thread)
        : policy_(ptx::cache_policy<use>()), row_(static_cast<i32>(thread / kLanes)),
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

    // Moves on to a tile that begins `elements` after this one, or before it.
    GK_DEVICE void advance(i64 elements)
    {
        source_ += elements * kElementBytes;
    }

  private:
    // `left` elements of the matrix follow the start of this thread's first piece of the row.
    GK_DEVICE void copy_row(u32 tile_address, const u8 *source, u32 row, i32 left) const
    {
#pragma unroll
        for (u32 pass = 0; pass < kColPasses; ++pass) {
            const u32 col = static_cast<u32>(col_) + pass * kColStep;
            const u32 address = tile_address + Tile::offset(row, col / Tile::kChunkElements) +
                                col % Tile::kChunkElements * kElementBytes;
            const i32 valid = clamp_of(left - static_cast<i32>(pass * kColStep), 0,
                                       static_cast<i32>(kPieceElements));
            copy_piece(address, source + pass * kColStep * kElementBytes,
                       static_cast<u32>(valid) * kElementBytes);
        }
    }

    // Two bytes are too narrow for cp.async: such a piece goes through a register, is complete when
    // the call returns, and is ordered by the same barrier as the asynchronous ones.
    GK_DEVICE void copy_piece(u32 destination, const u8 *source, u32 valid_bytes) const
    {
        if constexpr (kPieceBytes == 2) {
            u16 value = 0;
            if (valid_bytes != 0) {
                value = ptx::load_u16<use>(source, policy_);
            }
            ptx::st_shared_u16(destination, value);
        } else {
            ptx::cp_async_as<use, kPieceBytes>(destination, source, valid_bytes, policy_);
        }
    }
};

} // namespace gk
