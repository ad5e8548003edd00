// Loss and log-sum-exp of a row of logits from what its parts left: shared by kernels that cut a
// row, or the vocabulary, into parts that blocks work on side by side.
//
// partial[row][split] has kLossParts floats: the largest logit of a part, the sum of exponentials
// below it, and, where a label is smoothed, the sum of its logits. target[row] is the label's
// logit, written by whoever met it; it is not written where the label is ignored.
#pragma once

#include <gk/activation.cuh>
#include <gk/reduce.cuh>

namespace gk
{

template <bool kSmoothing> constexpr u32 kLossParts = kSmoothing ? 3 : 2;

struct LossScalars {
    i64 ignore;
    float smoothing, z_loss;
};

// What a row comes to.
struct RowTotals {
    float most, sum, logits;
};

// A warp puts a row's parts together: its lanes read them side by side, keep a maximum and a sum
// each, and join them by shuffles. The order is fixed, so the result is the same bit for bit in
// every run. All lanes get it.
template <bool kSmoothing> GK_DEVICE RowTotals join_parts(const float *parts, i32 splits)
{
    constexpr u32 kParts = kLossParts<kSmoothing>;
    RowTotals row{MaxOp::neutral(), 0.0f, 0.0f};
    for (i32 split = static_cast<i32>(lane_index()); split < splits; split += kWarpSize) {
        row.most = fmaxf(row.most, parts[split * static_cast<i64>(kParts)]);
    }
    row.most = warp_reduce<MaxOp>(row.most);
    for (i32 split = static_cast<i32>(lane_index()); split < splits; split += kWarpSize) {
        const float *part = parts + split * static_cast<i64>(kParts);
        row.sum += part[1] * ptx::exp2_approx((part[0] - row.most) * kLog2E);
        if constexpr (kSmoothing) {
            row.logits += part[2];
        }
    }
    row.sum = warp_reduce<SumOp>(row.sum);
    if constexpr (kSmoothing) {
        row.logits = warp_reduce<SumOp>(row.logits);
    }
    return row;
}

// By one lane. `cols`: of the whole row.
template <bool kSmoothing>
GK_DEVICE void store_loss(const RowTotals &row, i64 label, const float *target, i32 cols,
                          const LossScalars &scalars, float *loss, float *lse)
{
    const float log_sum = logf(row.sum), all = row.most + log_sum;
    *lse = all;
    if (label == scalars.ignore) {
        *loss = 0.0f;
        return;
    }
    float value = (row.most - *target) + log_sum; // the difference of large numbers is exact
    if constexpr (kSmoothing) {
        value = (1.0f - scalars.smoothing) * value +
                scalars.smoothing * (all - row.logits / static_cast<float>(cols));
    }
    *loss = value + scalars.z_loss * all * all;
}

} // namespace gk
