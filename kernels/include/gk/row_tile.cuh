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
#include <gk/mma.cuh>
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

// Where a lane stands in a tile while a warp walks it by whole matrices: an address, from which
// others follow by an exclusive or of the low bits and constants that fit an instruction's offset.
// `chunk` is 0 or 1; the tile begins at a bank line.
template <typename Tile> struct TilePlace {
    u32 address;

    GK_DEVICE TilePlace(u32 tile, u32 row, u32 chunk) : address(tile + Tile::offset(row, chunk))
    {
    }

    // `rows` further down, a multiple of 8, and `chunks` to the right, an even number.
    GK_DEVICE u32 at(u32 rows, u32 chunks) const
    {
        constexpr u32 kRun = Tile::kPermuted;
        return (address ^ chunks % kRun * kChunkBytes) + chunks / kRun * kRun * kChunkBytes +
               rows * Tile::kRowBytes;
    }
};

// The 16x16 piece of A at (m, k) as load_fragment_a<Tile, true>, from the lane's place for (0, 0).
template <typename Tile> GK_DEVICE TilePlace<Tile> place_of_a(u32 tile)
{
    const u32 lane = lane_index();
    return TilePlace<Tile>(tile, lane % (2 * kMatrixRows), lane / (2 * kMatrixRows));
}

template <typename Tile>
GK_DEVICE void load_fragment_a(FragmentA &a, const TilePlace<Tile> &place, u32 m, u32 k)
{
    ptx::ldmatrix_x4(place.at(m, k / kMatrixRows), a.r[0], a.r[1], a.r[2], a.r[3]);
}

// Two fragments of B at (k, n), columns n.. and n + 8.., as load_fragments_b: kAlongK says whether
// tile rows are columns of B or steps of k.
template <typename Tile, bool kAlongK> GK_DEVICE TilePlace<Tile> place_of_b(u32 tile)
{
    const u32 lane = lane_index();
    const u32 row = lane % kMatrixRows, second = lane / kMatrixRows % 2, upper = lane / 16;
    return kAlongK ? TilePlace<Tile>(tile, upper * kMatrixRows + row, second)
                   : TilePlace<Tile>(tile, second * kMatrixRows + row, upper);
}

template <typename Tile, bool kAlongK>
GK_DEVICE void load_fragments_b(FragmentB &b0, FragmentB &b1, const TilePlace<Tile> &place, u32 n,
                                u32 k)
{
    if constexpr (kAlongK) {
        ptx::ldmatrix_x4(place.at(n, k / kMatrixRows), b0.r[0], b0.r[1], b1.r[0], b1.r[1]);
    } else {
        ptx::ldmatrix_x4_trans(place.at(k, n / kMatrixRows), b0.r[0], b0.r[1], b1.r[0], b1.r[1]);
    }
}

namespace ptx
{

// The value itself, which the compiler must take as new: what is computed from it inside a loop
// stays there, where it would else wait in registers.
GK_DEVICE u32 opaque(u32 value)
{
    asm volatile("" : "+r"(value));
    return value;
}

GK_DEVICE i64 opaque(i64 value)
{
    asm volatile("" : "+l"(value));
    return value;
}

// PTX ISA: st.shared.
GK_DEVICE void st_shared_v4(u32 address, u32 x, u32 y, u32 z, u32 w)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

// PTX ISA: cp.async with "Cache Operators" and cache_hint; see cp_async_16. Of all uses only
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
    } else if constexpr (use == CacheUse::kL2Ahead) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                     :
                     : "r"(destination), "l"(source), "r"(source_bytes)
                     : "memory");
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

    const u8 *source_; // this thread's first piece of the first tile

  public:
    // `origin` is the first element of the first row, `pitch` the elements between rows.
    GK_DEVICE RowTileCopy(const void *origin, i64 pitch)
    {
        const u8 *source = static_cast<const u8 *>(origin) + threadIdx.x / kLanes * pitch * 2 +
                           threadIdx.x % kLanes * kChunkBytes;
        // One value, or its parts would be held apart.
        source_ = reinterpret_cast<const u8 *>(ptx::opaque(reinterpret_cast<i64>(source)));
    }

    // Starts the copy of the tile that begins `first` rows behind the origin. Rows from `left` on,
    // counted from there, are not read and become zero. The caller commits.
    GK_DEVICE void issue(u32 tile_address, i64 pitch, i32 first, i32 left, u64 policy) const
    {
        const u32 thread_row = threadIdx.x / kLanes, thread_chunk = threadIdx.x % kLanes;
        const i64 pitch_bytes = ptx::opaque(pitch) * 2;
        const u8 *source = source_ + first * pitch_bytes;
        // Compared with constants: rows of the passes would be held from tile to tile.
        const i32 below = left - static_cast<i32>(thread_row);
#pragma unroll
        for (u32 pass = 0; pass < kRowPasses; ++pass) {
            const u32 row = thread_row + pass * kRowStep;
            if (Tile::kRows % kRowStep == 0 || row < Tile::kRows) {
                const u32 bytes = static_cast<i32>(pass * kRowStep) < below ? kChunkBytes : 0;
#pragma unroll
                for (u32 col = 0; col < kColPasses; ++col) {
                    ptx::cp_async_16<use>(tile_address +
                                              Tile::offset(row, thread_chunk + col * kLanes),
                                          source + col * kLanes * kChunkBytes, bytes, policy);
                }
            }
            source += kRowStep * pitch_bytes;
        }
    }
};

} // namespace gk
