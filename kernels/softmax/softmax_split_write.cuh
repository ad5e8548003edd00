// Second launch: each warp puts the row's maximum and sum together from what its parts left, in an
// order that is the same for all of them; then the block reads its part again and writes quotients.
// See softmax_split.cuh.
//
// Grid      x: parts of a row, then rows, as in the first launch.
// Overlap   On sm_90 it may begin while the first launch still runs: it waits before it reads the
//           workspace and before it writes.

#define SOFTMAX_GROUP GK_THREADS
#define SOFTMAX_STORE static_cast<StoreUse>(GK_STORE)
#include "softmax_body.cuh"

#include <gk/hopper.cuh>
#include <gk/row_part.cuh>

// Of a whole row.
struct Totals {
    float most, sum;
};

GK_DEVICE Totals totals_of(const float2 *parts, i32 splits, float scale_log2)
{
    const float most =
        over_parts<MaxOp>(splits, [&](i32 split) { return load_past_l1(parts + split).x; });
    const float sum = over_parts<SumOp>(splits, [&](i32 split) {
        const float2 part = load_past_l1(parts + split);
        return part.y * ptx::exp2_approx((part.x - most) * scale_log2);
    });
    return Totals{most, sum};
}

extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_softmax_split_write(const Config::T *x, const float2 *partial, Config::Out *y, i32 cols,
                           i64 ld, i64 ld_out, i32 splits, float scale)
{
    const RowPart part = part_of_block<kCount>(cols, splits);
    const Row row{x + part.row * ld, y + part.row * ld_out, part.end};
    const float scale_log2 = positive_scale(scale * kLog2E);
    const u64 policy = ptx::cache_policy<Config::kLoad>();
#if __CUDA_ARCH__ >= 900
    wait_for_earlier_launches();
#endif
    const Totals totals = totals_of(partial + part.row * splits, splits, scale_log2);
    const float factor = 1.0f / totals.sum;
    for (i32 at = part.begin + static_cast<i32>(threadIdx.x * kCount); at < part.end;
         at += static_cast<i32>(Config::kPieces) * kStride) {
        RowPiece piece[Config::kPieces];
        bring<Config::kLoad>(piece, row, at, policy);
        (void)all_exponentials(piece, totals.most, scale_log2);
        write_all(row, piece, at, factor);
    }
}
