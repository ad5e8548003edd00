// Second launch: each warp adds the squares of the row's parts, in an order that is the same for
// all of them; then the block reads h of its part again (residual_out, or x where nothing was
// added) and writes y. See rmsnorm_split.cuh.
//
// Grid      x: parts of a row, then rows, as in the first launch.
// Overlap   On sm_90 it may begin while the first launch still runs: it waits before it reads the
//           workspace or residual_out, and before it writes.

#define RMSNORM_GROUP GK_THREADS
#define RMSNORM_HELD  false
#define RMSNORM_STORE static_cast<StoreUse>(GK_STORE)
#include "rmsnorm_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_rmsnorm_split_write(const Config::T *x, const Config::Weight *weight,
                           Config::T *residual_out, const float *partial, Config::T *y, i32 cols,
                           i64 ld, i32 splits, float eps)
{
    const RowPart part = part_of_block<kCount>(cols, splits);
    const i64 first = part.row * ld;
    const Row row{x + first, nullptr, Config::kResidual ? residual_out + first : nullptr, y + first,
                  part.end};
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
#if __CUDA_ARCH__ >= 900
    wait_for_earlier_launches();
#endif
    const float *parts = partial + part.row * splits;
    const float sum =
        over_parts<SumOp>(splits, [&](i32 split) { return load_past_l1(parts + split); });
    const float scale = rsqrtf(sum * (1.0f / static_cast<float>(cols)) + eps);
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece h[Config::kPieces];
        Weights weights;
        bring_again(h, row, at, policies);
        weights.fetch(weight, row, at, policies);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            finish(row, h[p], at + static_cast<i32>(p) * kStride, scale, weights.raw[p], weight,
                   policies);
        }
    }
}
