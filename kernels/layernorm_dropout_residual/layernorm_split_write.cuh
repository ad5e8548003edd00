// Second launch: each warp merges the moments of the row's parts, in an order that is the same for
// all of them; then the block makes h of its part again and writes y. See layernorm_split.cuh.
//
// Grid      x: parts of a row, then rows, as in the first launch.
// Overlap   On sm_90 it may begin while the first launch still runs: it waits before it reads the
//           workspace and before it writes.

#define LAYERNORM_GROUP GK_THREADS
#define LAYERNORM_STORE static_cast<StoreUse>(GK_STORE)
#include "layernorm_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

GK_DEVICE Moments load_moments(const Moments *from)
{
    return Moments{load_past_l1(&from->count), load_past_l1(&from->mean),
                   load_past_l1(&from->squares)};
}

GK_DEVICE Norm norm_of(const Moments *parts, i32 cols, i32 splits, float eps)
{
    const float share = 1.0f / static_cast<float>(cols);
    const float mean = share * over_parts<SumOp>(splits, [&](i32 split) {
                           const Moments part = load_moments(parts + split);
                           return part.mean * part.count;
                       });
    const float squares = over_parts<SumOp>(
        splits, [&](i32 split) { return load_moments(parts + split).squares_from(mean); });
    return Norm{mean, rsqrtf(squares * share + eps)};
}

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_layernorm_split_write(const Config::T *x, const Config::T *residual,
                             const Config::Weight *weight, const Config::Weight *bias,
                             const Moments *partial, Config::T *y, i32 cols, i64 ld, i32 splits,
                             float eps, double drop, float kept_scale, i64 seed)
{
    const Dropout dropout(seed, drop, kept_scale);
    const RowPart part = part_of_block<kCount>(cols, splits);
    const i64 first = part.row * ld;
    const Row row{
        x + first, Config::kResidual ? residual + first : nullptr,      nullptr, y + first,
        nullptr,   static_cast<u64>(part.row) * static_cast<u64>(cols), part.end};
    const Affine affine{weight, bias};
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
#if __CUDA_ARCH__ >= 900
    wait_for_earlier_launches();
#endif
    const Norm norm = norm_of(partial + part.row * splits, cols, splits, eps);
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece h[Config::kPieces];
        Weights weights;
        bring<Config::kLoad, false>(h, row, at, policies.load, dropout);
        weights.fetch(affine, row, at, policies.reuse);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            finish(row, h[p], p, at + static_cast<i32>(p) * kStride, norm.mean, norm.scale, weights,
                   affine, policies.reuse);
        }
    }
}
