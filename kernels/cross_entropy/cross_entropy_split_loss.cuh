// Second launch: loss and lse of each row from what its parts left. A warp has a row; layouts and
// the order of sums are those of <gk/loss.cuh>. For the gradient it leaves the row's maximum and
// what makes scaled probabilities of exponentials below it: factors[row][2].

#include <gk/loss.cuh>

using namespace gk;

struct Config {
    static constexpr u32 kThreads = 128;
    static constexpr u32 kRows = kThreads / kWarpSize; // of a block
    static constexpr bool kSmoothing = GK_SMOOTH;
    static constexpr u32 kParts = kLossParts<kSmoothing>;
};

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_cross_entropy_split_loss(const float *partial, const float *target, const i64 *labels,
                                float *loss, float *lse, float *factors, i32 rows, i32 cols,
                                i32 splits, i64 ignore, float smoothing, float z_loss,
                                float grad_scale)
{
    const i64 row = static_cast<i64>(blockIdx.x) * Config::kRows + threadIdx.x / kWarpSize;
    if (row >= rows) {
        return; // with all lanes of its warp
    }
    const RowTotals totals =
        join_parts<Config::kSmoothing>(partial + row * splits * Config::kParts, splits);
    if (lane_index() != 0) {
        return;
    }
    store_loss<Config::kSmoothing>(totals, labels[row], target + row, cols,
                                   LossScalars{ignore, smoothing, z_loss}, loss + row, lse + row);
    if constexpr (GK_GRAD) {
        const float all = totals.most + logf(totals.sum);
        factors[2 * row] = totals.most;
        factors[2 * row + 1] = grad_scale * (1.0f + 2.0f * z_loss * all) / totals.sum;
    }
}
