// Second of two launches: loss and lse of each row from what the parts of the vocabulary left of
// it. A warp has a row; layouts and the order of sums are those of <gk/loss.cuh>.

#include <gk/loss.cuh>

using namespace gk;

struct Config {
    static constexpr u32 kThreads = 256;
    static constexpr u32 kRows = kThreads / kWarpSize; // of a block
    static constexpr bool kSmoothing = GK_SMOOTH;
    static constexpr u32 kParts = kLossParts<kSmoothing>;
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
    const RowTotals totals =
        join_parts<Config::kSmoothing>(partial + row * splits * Config::kParts, splits);
    if (lane_index() == 0) {
        store_loss<Config::kSmoothing>(totals, labels[row], target + row, cols,
                                       LossScalars{ignore, smoothing, z_loss}, loss + row,
                                       lse + row);
    }
}
