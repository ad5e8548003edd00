// Second of two launches: loss and lse of each row from what the parts of the vocabulary left of
// it. A warp has a row: its lanes read the row's parts side by side, keep a maximum and a sum each,
// and are put together by shuffles. The order is fixed, so the result is the same bit for bit in
// every run.
//
// Layouts   partial[row][split] of kParts floats: the largest logit of a part of the vocabulary,
//           the sum of exponentials below it, and, with smoothing, the sum of its logits;
//           target[row]: the label's logit, not written where the label is ignored.

#include <gk/activation.cuh>
#include <gk/reduce.cuh>

using namespace gk;

struct Config {
    static constexpr u32 kThreads = 256;
    static constexpr u32 kRows = kThreads / kWarpSize; // of a block
    static constexpr bool kSmoothing = GK_SMOOTH;
    static constexpr u32 kParts = kSmoothing ? 3 : 2;
};

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_linear_cross_entropy_combine(const float *partial, const float *target, const i64 *labels,
                                    float *loss, float *lse, i32 rows, i32 cols, i32 splits,
                                    i64 ignore, float smoothing, float z_loss)
{
    const i64 row = static_cast<i64>(blockIdx.x) * Config::kRows + threadIdx.x / kWarpSize;
    if (row >= rows) {
        return; // with all lanes of its warp
    }
    const float *parts = partial + row * splits * Config::kParts;
    float most = MaxOp::neutral(), sum = 0.0f, logits = 0.0f;
    for (i32 split = static_cast<i32>(lane_index()); split < splits; split += kWarpSize) {
        most = fmaxf(most, parts[split * static_cast<i64>(Config::kParts)]);
    }
    most = warp_reduce<MaxOp>(most);
    for (i32 split = static_cast<i32>(lane_index()); split < splits; split += kWarpSize) {
        const float *part = parts + split * static_cast<i64>(Config::kParts);
        sum += part[1] * ptx::exp2_approx((part[0] - most) * kLog2E);
        if constexpr (Config::kSmoothing) {
            logits += part[2];
        }
    }
    sum = warp_reduce<SumOp>(sum);
    if constexpr (Config::kSmoothing) {
        logits = warp_reduce<SumOp>(logits);
    }
    if (lane_index() != 0) {
        return;
    }
    const float log_sum = logf(sum), all = most + log_sum;
    lse[row] = all;
    if (labels[row] == ignore) {
        loss[row] = 0.0f;
        return;
    }
    float value = (most - target[row]) + log_sum; // the difference of large numbers is exact
    if constexpr (Config::kSmoothing) {
        value = (1.0f - smoothing) * value + smoothing * (all - logits / static_cast<float>(cols));
    }
    loss[row] = value + z_loss * all * all;
}
