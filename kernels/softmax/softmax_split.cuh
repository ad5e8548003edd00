// First of two launches for few long rows: each row is cut into `splits` parts, one block a part
// (<gk/row_part.cuh>). A block leaves the largest element of its part and the sum of exponentials
// below it; softmax_split_write.cuh makes the quotients.
//
// Layouts   partial[row][split]: maximum, sum.
// A thread has PIECES pieces on their way before it uses the first; neighbours read neighbours.
// Shared memory holds one float a warp for each of the two reductions.
// Overlap   On sm_90 the second launch may begin at once: it waits for this one's end.

#define SOFTMAX_GROUP GK_THREADS
#define SOFTMAX_STORE StoreUse::kKeep // nothing is stored here
#include "softmax_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_softmax_split(const Config::T *x, float2 *partial, i32 cols, i64 ld, i32 splits, float scale)
{
    __shared__ float scratch[2][kBlockWarpsMax];
    const RowPart part = part_of_block<kCount>(cols, splits);
    const Row row{x + part.row * ld, nullptr, part.end};
    const float scale_log2 = positive_scale(scale * kLog2E);
    const u64 policy = ptx::cache_policy<Config::kReuse>();
#if __CUDA_ARCH__ >= 900
    allow_next_launch();
#endif
    RunningSum running;
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece piece[Config::kPieces];
        bring<Config::kReuse>(piece, row, at, policy);
        running.add(piece, scale_log2);
    }
    const float most = block_reduce<MaxOp, Config::kThreads>(running.most, scratch[0]);
    const float sum =
        block_reduce<SumOp, Config::kThreads>(running.below(most, scale_log2), scratch[1]);
    if (threadIdx.x == 0) {
        partial[part.row * splits + part.split] = make_float2(most, sum);
    }
}
