// First of two or three launches for few long rows: each row is cut into `splits` parts, one block
// a part, so that a handful of rows keeps a whole GPU busy. A block leaves the largest logit of its
// part, the sum of exponentials below it and, with smoothing, the sum of the logits; whoever meets
// the label leaves its logit. cross_entropy_split_loss.cuh makes loss and lse of them,
// cross_entropy_split_grad.cuh the gradient.
//
// Layouts   partial[row][split] and target[row]: <gk/loss.cuh>.
// Grid      x: parts of a row, then rows (<gk/row_part.cuh>).
// A thread has PIECES pieces on their way before it uses the first; neighbours read neighbours.
// Shared memory holds one float a warp for each of the reductions.

#include <gk/loss.cuh>
#include <gk/row_part.cuh>
#include <gk/softmax.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    // With a gradient to come the logits are read again.
    static constexpr CacheUse kRead = static_cast<CacheUse>(GK_GRAD ? GK_REUSE : GK_LOAD);
    static constexpr bool kSmoothing = GK_SMOOTH;
    static constexpr u32 kParts = kLossParts<kSmoothing>;
};

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr i32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kThreads * kCount; // elements between the pieces of one thread

// What a thread sees of a part.
struct Seen {
    RunningSum running;
    float logits = 0.0f;

    // The pieces of one step, the columns of a part that end at `end`; `label` is -1 where it is
    // ignored.
    GK_DEVICE void look(RowPiece (&piece)[Config::kPieces], i32 first, i32 end, i64 label,
                        float *target)
    {
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            const i32 at = first + static_cast<i32>(p) * kStride;
            const i64 place = label - at;
            if (place >= 0 && place < kCount && label < end) {
#pragma unroll
                for (u32 i = 0; i < kCount; ++i) {
                    if (place == i) {
                        *target = piece[p].v[i];
                    }
                }
            }
            if constexpr (Config::kSmoothing) {
#pragma unroll
                for (u32 i = 0; i < kCount; ++i) {
                    logits += at + static_cast<i32>(i) < end ? piece[p].v[i] : 0.0f;
                }
            }
        }
        running.add(piece, kLog2E);
    }
};

// Without the gradient logits are read alone, through `logits`; with it they are in `in_place`.
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_cross_entropy_split(const Config::T *logits, const Config::T *in_place, const i64 *labels,
                           float *partial, float *target, i32 cols, i64 ld, i64 ignore, i32 splits)
{
    __shared__ float scratch[3][kBlockWarpsMax];
    const auto [row, split, begin, end] = part_of_block<kCount>(cols, splits);
    const Config::T *x = (GK_GRAD ? in_place : logits) + row * ld;
    const i64 label = labels[row] == ignore ? -1 : labels[row];
    const u64 policy = ptx::cache_policy<Config::kRead>();

    Seen seen;
    for (i32 at = begin + static_cast<i32>(threadIdx.x) * kCount; at < end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece piece[Config::kPieces];
        Fetched<RowPiece, Config::kPieces> fetched;
        // e^-inf adds nothing
        fetched.template fetch<Config::kRead>(x, at, kStride, end, policy, MaxOp::neutral());
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            piece[p].open<Config::kRead>(fetched.raw[p], x, at + static_cast<i32>(p) * kStride, end,
                                         policy);
        }
        seen.look(piece, at, end, label, target + row);
    }
    const float most = block_reduce<MaxOp, Config::kThreads>(seen.running.most, scratch[0]);
    const float sum =
        block_reduce<SumOp, Config::kThreads>(seen.running.below(most, kLog2E), scratch[1]);
    float *out = partial + (row * splits + split) * Config::kParts;
    if constexpr (Config::kSmoothing) {
        const float all = block_reduce<SumOp, Config::kThreads>(seen.logits, scratch[2]);
        if (threadIdx.x == 0) {
            out[2] = all;
        }
    }
    if (threadIdx.x == 0) {
        out[0] = most;
        out[1] = sum;
    }
}
