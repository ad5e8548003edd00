// First of two launches for few long rows: each row is cut into `splits` parts, one block a part
// (<gk/row_part.cuh>). A block writes h of its part to residual_out where a residual is added, and
// leaves the sum of the squares of h; rmsnorm_split_write.cuh makes y.
//
// Layouts   partial[row][split].
// A thread has PIECES pieces of x and residual on their way before it uses the first; neighbours
// read neighbours. Shared memory holds one float a warp.
// Overlap   On sm_90 the second launch may begin at once: it waits for this one's end.

#define RMSNORM_GROUP GK_THREADS
#define RMSNORM_HELD  false
#define RMSNORM_STORE StoreUse::kKeep // y is the second launch's
#include "rmsnorm_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_rmsnorm_split(const Config::T *x, const Config::T *residual, Config::T *residual_out,
                     float *partial, i32 cols, i64 ld, i32 splits)
{
    __shared__ float scratch[kBlockWarpsMax];
    const RowPart part = part_of_block<kCount>(cols, splits);
    const i64 first = part.row * ld;
    const Row row{x + first, Config::kResidual ? residual + first : nullptr,
                  Config::kResidual ? residual_out + first : nullptr, nullptr, part.end};
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
#if __CUDA_ARCH__ >= 900
    allow_next_launch();
#endif
    Squares squares;
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece h[Config::kPieces];
        bring<false>(h, row, at, policies);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            squares.add(h[p]);
        }
    }
    const float sum = block_reduce<SumOp, Config::kThreads>(squares.total(), scratch);
    if (threadIdx.x == 0) {
        partial[part.row * splits + part.split] = sum;
    }
}
