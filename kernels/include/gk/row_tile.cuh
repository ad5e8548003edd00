// Tiles of 16-bit rows in shared memory whose rows may be any whole number of pairs of chunks, as
// heads of attention are (64, 80, 96, 128, 192, 256 columns), and their copy from global memory
// with a choice of how the caches shall treat what is read.
//
// As in <gk/swizzle.cuh> ldmatrix reads one chunk of 16 bytes from each of eight neighbouring rows,
// and these must lie in eight different positions of the 128-byte bank line. With g the largest
// power of two, at most 8, that divides the chunks of a row, rows r and r + 8 / g begin at the same
// position, and the 8 / g rows between them at positions that are multiples of g apart. So chunk c
// of row r is stored at c ^ (r / (8 / g) % g): the XOR permutes inside aligned runs of g chunks, of
// which a row is a whole number.
#pragma once

#include <gk/copy.cuh>
#include <gk/rows.cuh>

namespace gk
{

template <u32 kRowsOfTile, u32 kColsOfTile> struct RowTile {
    static constexpr u32 kRows = kRowsOfTile;
    static constexpr u32 kCols = kColsOfTile;
    static constexpr u32 kChunkElements = kChunkBytes / 2;
    static constexpr u32 kRowChunks = kCols / kChunkElements;
    static constexpr u32 kRowBytes = kCols * 2;
    static constexpr u32 kBytes = kRows * kRowBytes;
    static constexpr u32 kLineChunks = kBankLineBytes / kChunkBytes;
    static constexpr u32 kPermuted = min_of(kLineChunks, kRowChunks &(~kRowChunks + 1));
    static constexpr u32 kRowsPerLine = kLineChunks / kPermuted;

    static_assert(kCols % kChunkElements == 0, "rows are whole chunks");

    // Byte offset of a chunk from the start of the tile.
    static GK_DEVICE u32 offset(u32 row, u32 chunk)
    {
        return row * kRowBytes + (chunk ^ (row / kRowsPerLine % kPermuted)) * kChunkBytes;
    }
};

namespace ptx
{

// PTX ISA: st.shared.
GK_DEVICE void st_shared_v4(u32 address, u32 x, u32 y, u32 z, u32 w)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

// PTX ISA: cp.async with "Cache Operators" and cache_hint; see cp_async_16. Of the four uses only
// kAll brings lines into L1.
template <CacheUse use>
GK_DEVICE void cp_async_16(u32 destination, const void *source, u32 source_bytes, u64 policy)
{
    if constexpr (use == CacheUse::kAll) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes)
                     : "memory");
    } else if constexpr (use == CacheUse::kL2) {
        cp_async_16(destination, source, source_bytes);
    } else {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes), "l"(policy)
                     : "memory");
    }
}

} // namespace ptx

// Copies rows to a tile by kThreads threads, neighbours side by side in a row. `row_of(r)` gives
// the address of row r of the tile; rows from `rows` on are not read and become zero.
template <typename Tile, u32 kThreads, CacheUse use, typename RowOf>
GK_DEVICE void copy_rows(u32 tile_address, u32 thread, i32 rows, RowOf row_of, u64 policy)
{
    constexpr u32 kPieces = Tile::kRows * Tile::kRowChunks;
#pragma unroll
    for (u32 first = 0; first < kPieces; first += kThreads) {
        const u32 piece = first + thread;
        const u32 row = piece / Tile::kRowChunks, chunk = piece % Tile::kRowChunks;
        if (kPieces % kThreads == 0 || piece < kPieces) {
            const bool inside = static_cast<i32>(row) < rows;
            const u8 *source = reinterpret_cast<const u8 *>(row_of(inside ? row : 0u));
            ptx::cp_async_16<use>(tile_address + Tile::offset(row, chunk),
                                  source + chunk * kChunkBytes, inside ? kChunkBytes : 0u, policy);
        }
    }
}

// Walks a matrix of rows tile by tile, as gk::TileCopy does for pieces of 16 bytes, with a policy.
// Each thread holds one address, of its first piece; the others are whole row steps away.
template <typename Tile, u32 kThreads, CacheUse use> class RowTileCopy
{
    // The largest power of two in the chunks of a row, so that a thread's column is the same in all
    // rows.
    static constexpr u32 kLanes =
        min_of(Tile::kRowChunks & (~Tile::kRowChunks + 1), min_of(kThreads, kWarpSize));
    static constexpr u32 kRowStep = kThreads / kLanes;
    static constexpr u32 kRowPasses = ceil_div(Tile::kRows, kRowStep);
    static constexpr u32 kColPasses = Tile::kRowChunks / kLanes;

    static_assert(kThreads % kLanes == 0, "threads form whole rows");

    const u8 *source_; // this thread's first piece of the current tile
    i64 pitch_bytes_;  // between rows
    u64 policy_;
    u32 row_, chunk_; // of that piece in the tile

  public:
    // `origin` is the first element of the first row, `pitch` the elements between rows.
    GK_DEVICE RowTileCopy(const void *origin, i64 pitch, u32 thread)
        : pitch_bytes_(pitch * 2), policy_(ptx::cache_policy<use>()), row_(thread / kLanes),
          chunk_(thread % kLanes)
    {
        source_ = static_cast<const u8 *>(origin) + row_ * pitch_bytes_ + chunk_ * kChunkBytes;
    }

    // Starts the copy of the tile that begins `first` rows behind the origin. Rows from `left` on,
    // counted from there, are not read and become zero. The caller commits.
    GK_DEVICE void issue(u32 tile_address, i32 first, i32 left) const
    {
        const u8 *source = source_ + first * pitch_bytes_;
#pragma unroll
        for (u32 pass = 0; pass < kRowPasses; ++pass) {
            const u32 row = row_ + pass * kRowStep;
            if (Tile::kRows % kRowStep == 0 || row < Tile::kRows) {
                const u32 bytes = static_cast<i32>(row) < left ? kChunkBytes : 0;
#pragma unroll
                for (u32 col = 0; col < kColPasses; ++col) {
                    ptx::cp_async_16<use>(tile_address + Tile::offset(row, chunk_ + col * kLanes),
                                          source + col * kLanes * kChunkBytes, bytes, policy_);
                }
            }
            source += kRowStep * pitch_bytes_;
        }
    }
};

} // namespace gk
