// Tensor-core products of a warp on registers: fragments, their loads, the product.
//
// mma.m16n8k16 computes D[16x8] += A[16x16] B[16x8] for one warp, all operands in registers. With
// g = lane / 4 and t = lane % 4 a lane holds
//     A (row, k):     a[0] (g, 2t..2t+1)   a[1] (g+8, 2t..)   a[2] (g, 2t+8..)   a[3] (g+8, 2t+8..)
//     B (k, column):  b[0] (2t..2t+1, g)   b[1] (2t+8.., g)
//     D (row, column): d[0..1] (g, 2t..2t+1)   d[2..3] (g+8, 2t..)
// which is what ldmatrix delivers for 8x8 matrices whose rows are the pairs' direction; where a
// tile is stored the other way round, its transposing form does.
#pragma once

#include <gk/ptx.cuh>
#include <gk/swizzle.cuh>
#include <gk/types.cuh>

namespace gk
{

constexpr u32 kMmaM = 16, kMmaN = 8, kMmaK = 16;
constexpr u32 kMatrixRows = 8; // of one ldmatrix matrix; a row is one chunk

struct FragmentA {
    u32 r[4];
};

struct FragmentB {
    u32 r[2];
};

struct FragmentD {
    float v[4];
};

// PTX ISA: "Matrix multiply-accumulate operation using mma instruction", m16n8k16. Not volatile: it
// touches registers only, and the compiler may move it between the loads.
GK_DEVICE void mma_m16n8k16(FragmentD &d, const FragmentA &a, const FragmentB &b, bf16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}

GK_DEVICE void mma_m16n8k16(FragmentD &d, const FragmentA &a, const FragmentB &b, f16)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}

// The 16x16 piece of A at (m, k) of a tile. kAlongK: tile rows are rows of A, k runs along them;
// else tile rows are steps of k and m runs along them.
template <typename Tile, bool kAlongK>
GK_DEVICE void load_fragment_a(FragmentA &a, u32 tile_address, u32 m, u32 k)
{
    const u32 lane = lane_index();
    const u32 row = lane % kMatrixRows;
    const u32 upper_m = lane / kMatrixRows % 2; // matrices 1 and 3: rows 8..15
    const u32 upper_k = lane / kMatrixRows / 2; // matrices 2 and 3: k 8..15
    if constexpr (kAlongK) {
        const u32 offset = Tile::offset(m + upper_m * kMatrixRows + row, k / kMatrixRows + upper_k);
        ptx::ldmatrix_x4(tile_address + offset, a.r[0], a.r[1], a.r[2], a.r[3]);
    } else {
        const u32 offset = Tile::offset(k + upper_k * kMatrixRows + row, m / kMatrixRows + upper_m);
        ptx::ldmatrix_x4_trans(tile_address + offset, a.r[0], a.r[1], a.r[2], a.r[3]);
    }
}

// The 16x16 piece of B at (k, n) of a tile: two fragments, columns n.. and n + 8... kAlongK: tile
// rows are columns of B, k runs along them; else tile rows are steps of k and n runs along them.
template <typename Tile, bool kAlongK>
GK_DEVICE void load_fragments_b(FragmentB &b0, FragmentB &b1, u32 tile_address, u32 n, u32 k)
{
    const u32 lane = lane_index();
    const u32 row = lane % kMatrixRows;
    const u32 upper_k = lane / kMatrixRows % 2; // matrices 1 and 3: k 8..15
    const u32 upper_n = lane / kMatrixRows / 2; // matrices 2 and 3: columns 8..15
    if constexpr (kAlongK) {
        const u32 offset = Tile::offset(n + upper_n * kMatrixRows + row, k / kMatrixRows + upper_k);
        ptx::ldmatrix_x4(tile_address + offset, b0.r[0], b0.r[1], b1.r[0], b1.r[1]);
    } else {
        const u32 offset = Tile::offset(k + upper_k * kMatrixRows + row, n / kMatrixRows + upper_n);
        ptx::ldmatrix_x4_trans(tile_address + offset, b0.r[0], b0.r[1], b1.r[0], b1.r[1]);
    }
}

} // namespace gk
