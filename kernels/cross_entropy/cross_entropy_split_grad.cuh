// Third launch, where the gradient is asked for: over the logits, part by part as the first launch
// read them. An exponential below the row's maximum times the row's factor is a scaled probability;
// the label and the smoothing take their share of it.
//
// Grid      x: parts of a row, then rows.

#include <gk/row_part.cuh>
#include <gk/softmax.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
};

using RowPiece = Piece<Config::T, GK_PIECE_BYTES>;
constexpr i32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kThreads * kCount; // elements between the pieces of one thread

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_cross_entropy_split_grad(Config::T *logits, const i64 *labels, const float *factors,
                                i32 cols, i64 ld, i64 ignore, i32 splits, float smoothing,
                                float grad_scale)
{
    const auto [row, split, begin, end] = part_of_block<kCount>(cols, splits);
    Config::T *x = logits + row * ld;
    const i64 label = labels[row];
    const float most = factors[2 * row], factor = factors[2 * row + 1];
    const float even = smoothing / static_cast<float>(cols) * grad_scale;
    const float of_label = (1.0f - smoothing) * grad_scale;
    const u64 policy = ptx::cache_policy<Config::kLoad>();

    for (i32 at = begin + static_cast<i32>(threadIdx.x) * kCount; at < end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        Fetched<RowPiece, Config::kPieces> fetched;
        fetched.template fetch<Config::kLoad>(x, at, kStride, end, policy);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            const i32 from = at + static_cast<i32>(p) * kStride;
            RowPiece piece;
            piece.open<Config::kLoad>(fetched.raw[p], x, from, end, policy);
            (void)exponentials(piece, most, kLog2E);
#pragma unroll
            for (u32 i = 0; i < kCount; ++i) {
                const float share = from + static_cast<i32>(i) == label ? even + of_label : even;
                piece.v[i] = label == ignore ? 0.0f : piece.v[i] * factor - share;
            }
            piece.store<Config::kStore>(x, from, end);
        }
    }
}
