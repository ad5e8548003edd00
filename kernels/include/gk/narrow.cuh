// Fragments of mma.m16n8k16 out of tiles of e4m3 in shared memory. ldmatrix moves pairs of bytes,
// so what it hands out are other elements than those of a 16-bit tile; the products are the same,
// since columns of A and rows of B may be numbered in any order that both share, and columns of D
// in any that their reader knows.
//
//     Steps along a row (keys times queries): lane l holds, of 16 neighbours in a row of B,
//     elements 4t .. 4t+3 (t = l % 4) where it would hold 2t, 2t+1, 2t+8, 2t+9. A must be read so
//     too. Rows as steps (probabilities times values): of 16 neighbouring columns the even ones
//     make one fragment of B, the odd ones the next.
#pragma once

#include <gk/mma.cuh>

namespace gk
{

// Two e4m3, the first in the lower byte, as a pair of a 16-bit type: exact.
GK_DEVICE u32 widen_pair(u16 bytes, f16)
{
#if __CUDA_ARCH__ >= 890
    return ptx::cvt_f16x2_from_e4m3x2(bytes);
#else
    return pack_pair<f16>(to_float(e4m3{static_cast<u8>(bytes)}),
                          to_float(e4m3{static_cast<u8>(bytes >> 8)}));
#endif
}

GK_DEVICE u32 widen_pair(u16 bytes, bf16)
{
#if __CUDA_ARCH__ >= 890
    const u32 halves = ptx::cvt_f16x2_from_e4m3x2(bytes);
    return pack_pair<bf16>(ptx::cvt_f32_from_f16(static_cast<u16>(halves)),
                           ptx::cvt_f32_from_f16(static_cast<u16>(halves >> 16)));
#else
    return pack_pair<bf16>(to_float(e4m3{static_cast<u8>(bytes)}),
                           to_float(e4m3{static_cast<u8>(bytes >> 8)}));
#endif
}

// Four bytes of a row as one fragment of B.
template <typename T> GK_DEVICE FragmentB widen_row(u32 bytes)
{
    return FragmentB{
        {widen_pair(static_cast<u16>(bytes), T{}), widen_pair(static_cast<u16>(bytes >> 16), T{})}};
}

// The 16x16 piece of A at (m, k) of a 16-bit tile, its columns in the order above.
template <typename Tile>
GK_DEVICE void load_fragment_a_for_narrow(FragmentA &a, const u8 *tile, u32 m, u32 k)
{
    const u32 lane = lane_index(), row = m + lane / 4;
    const u32 column = (k + lane % 4 * 4) * sizeof(u16);
    const uint2 upper = *reinterpret_cast<const uint2 *>(tile + Tile::offset(row, 0) + column);
    const uint2 lower =
        *reinterpret_cast<const uint2 *>(tile + Tile::offset(row + kMmaM / 2, 0) + column);
    a = FragmentA{{upper.x, lower.x, upper.y, lower.y}};
}

// Steps along rows: rows n .. n+15 of an 8-bit tile, columns k .. k+31. b[step][rows from n + 8].
template <typename T, typename Tile>
GK_DEVICE void load_rows_narrow(FragmentB (&b)[2][2], u32 tile, u32 n, u32 k)
{
    const u32 lane = lane_index();
    const u32 row = n + lane % (2 * kMatrixRows),
              chunk = k / kChunkBytes + lane / (2 * kMatrixRows);
    u32 r[4];
    ptx::ldmatrix_x4(tile + Tile::offset(row, chunk), r[0], r[1], r[2], r[3]);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        b[i / 2][i % 2] = widen_row<T>(r[i]);
    }
}

// Rows as steps: rows k .. k+15 of an 8-bit tile, columns n .. n+31. Of b two fragments belong to
// 16 columns: even ones, odd ones.
template <typename T, typename Tile>
GK_DEVICE void load_columns_narrow(FragmentB (&b)[4], u32 tile, u32 k, u32 n)
{
    constexpr u32 kEven = 0x6420, kOdd = 0x7531; // bytes of two registers
    const u32 lane = lane_index();
    const u32 row = k + lane % (2 * kMatrixRows),
              chunk = n / kChunkBytes + lane / (2 * kMatrixRows);
    u32 r[4];
    ptx::ldmatrix_x4_trans(tile + Tile::offset(row, chunk), r[0], r[1], r[2], r[3]);
#pragma unroll
    for (u32 i = 0; i < 4; i += 2) {
        b[i] = widen_row<T>(__byte_perm(r[i], r[i + 1], kEven));
        b[i + 1] = widen_row<T>(__byte_perm(r[i], r[i + 1], kOdd));
    }
}

} // namespace gk
