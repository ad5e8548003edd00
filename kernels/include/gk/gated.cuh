// out = act(gate) * up, element by element over rows: what lies between the two products of a gated
// MLP. One pass over memory, nothing shared.
//
// A row is cut into chunks of kGroup * kPieces pieces; kGroup neighbouring threads take a chunk,
// and piece p of thread t is number p * kGroup + t of it, so that neighbours read neighbours. A
// block has kThreads / kGroup chunks at a time and takes one such set, or, with a grid smaller than
// the matrix, every gridDim.x-th.
//
// C gives T, kThreads, kGroup, kPieces, kPieceBytes, kLoad, kStore, and float act(float).
#pragma once

#include <gk/activation.cuh>
#include <gk/rows.cuh>

namespace gk
{

// `ld` elements lie between rows of gate and of up, `ld_out` between rows of out; chunks: of a row.
template <typename C>
GK_DEVICE void gated_rows(const typename C::T *gate, const typename C::T *up, typename C::T *out,
                          i32 rows, i32 cols, i32 chunks, i64 ld, i64 ld_out)
{
    using Part = Piece<typename C::T, C::kPieceBytes>;
    constexpr u32 kChunks = C::kThreads / C::kGroup;  // of a block, at a time
    constexpr i32 kStride = C::kGroup * Part::kCount; // elements between a thread's pieces
    constexpr i32 kChunk = kStride * static_cast<i32>(C::kPieces);
    const i64 units = static_cast<i64>(rows) * chunks;
    const u64 policy = ptx::cache_policy<C::kLoad>();

    for (i64 unit = static_cast<i64>(blockIdx.x) * kChunks + threadIdx.x / C::kGroup; unit < units;
         unit += static_cast<i64>(gridDim.x) * kChunks) {
        const i64 row = quotient(unit, chunks);
        const i32 first = static_cast<i32>(unit - row * chunks) * kChunk +
                          static_cast<i32>(threadIdx.x % C::kGroup * Part::kCount);
        const typename C::T *gate_row = gate + row * ld, *up_row = up + row * ld;
        Fetched<Part, C::kPieces> gates, ups; // all on their way before one is used
        gates.template fetch<C::kLoad>(gate_row, first, kStride, cols, policy);
        ups.template fetch<C::kLoad>(up_row, first, kStride, cols, policy);
#pragma unroll
        for (u32 p = 0; p < C::kPieces; ++p) {
            const i32 at = first + static_cast<i32>(p) * kStride;
            Part g, u;
            g.template open<C::kLoad>(gates.raw[p], gate_row, at, cols, policy);
            u.template open<C::kLoad>(ups.raw[p], up_row, at, cols, policy);
#pragma unroll
            for (u32 i = 0; i < Part::kCount; ++i) {
                g.v[i] = C::act(g.v[i]) * u.v[i];
            }
            g.template store<C::kStore>(out + row * ld_out, at, cols);
        }
    }
}

} // namespace gk
