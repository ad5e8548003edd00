// First of two launches for few long rows: each row is cut into `splits` parts, one block a part
// (<gk/row_part.cuh>). A block makes h of its part, writes residual_out and the mask, and leaves
// mean and squared differences of its part; layernorm_split_write.cuh makes y.
//
// Layouts   partial[row][split]: elements, their mean, their squared differences from it.
// A thread has PIECES pieces of x and residual on their way before it uses the first, and merges
// moments piece by piece; then the block's threads do (Chan, Golub, LeVeque 1983). Shared memory
// holds one float a warp for each of the two reductions.
// Overlap   On sm_90 the second launch may begin at once: it waits for this one's end.

#define LAYERNORM_GROUP GK_THREADS
#define LAYERNORM_STORE static_cast<StoreUse>(GK_STORE)
#include "layernorm_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_layernorm_split(const Config::T *x, const Config::T *residual, Config::T *residual_out,
                       u8 *mask, Moments *partial, i32 cols, i64 ld, i32 splits, double drop,
                       float kept_scale, i64 seed)
{
    __shared__ float scratch[2][kBlockWarpsMax];
    const Dropout dropout(seed, drop, kept_scale);
    const RowPart part = part_of_block<kCount>(cols, splits);
    const i64 first = part.row * ld;
    const Row row{x + first,
                  Config::kResidual ? residual + first : nullptr,
                  Config::kResidual ? residual_out + first : nullptr,
                  nullptr,
                  Config::kMask ? mask + first : nullptr,
                  static_cast<u64>(part.row) * static_cast<u64>(cols),
                  part.end};
    const u64 policy = ptx::cache_policy<Config::kReuse>();
#if __CUDA_ARCH__ >= 900
    allow_next_launch();
#endif
    Moments seen;
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece h[Config::kPieces];
        bring<Config::kReuse, true>(h, row, at, policy, dropout);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            seen.add(h[p], inside(row, at + static_cast<i32>(p) * kStride));
        }
    }
    const float count = static_cast<float>(part.end - part.begin);
    const float mean =
        block_reduce<SumOp, Config::kThreads>(seen.mean * seen.count, scratch[0]) / count;
    const float squares =
        block_reduce<SumOp, Config::kThreads>(seen.squares_from(mean), scratch[1]);
    if (threadIdx.x == 0) {
        partial[part.row * splits + part.split] = Moments{count, mean, squares};
    }
}
