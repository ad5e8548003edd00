// What rmsnorm_residual means. A block has one row: it adds the squares of the whole row in double,
// then writes, for each column, value and magnitude of residual_out and of y, packed over
// [rows, cols]. The magnitude of y is its absolute value, since every rounding on the way to it is
// relative; only a subnormal f16, rounded before the weight, may be off by half a step whatever its
// size. That of residual_out is |x| + |residual|.

#include <gk/plain.cuh>

constexpr int kThreads = 256;

// Half the smallest step of an f16, 2^-25, in units of the term cast_f16 of op.json.
#if GK_DTYPE_F16 && GK_CAST == GK_CAST_BEFORE && GK_WEIGHT != GK_WEIGHT_NONE
constexpr double kSubnormal = 0x1p-25 / 0x1p-11;
#else
constexpr double kSubnormal = 0.0;
#endif

extern "C" __global__ void gk_rmsnorm_reference(const Element *x, const Element *residual,
                                                const Weight *weight, double *residual_out,
                                                double *y, i64 cols, i64 ld, double eps)
{
    const i64 row = blockIdx.x;
    double sum = 0.0;
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        double h = number(x[row * ld + c]);
        if (residual) {
            h = rounded<Element>(h + number(residual[row * ld + c]));
        }
        sum += h * h;
    }
    sum = block_sum<kThreads>(sum);
    const double scale = 1.0 / sqrt(sum / (double)cols + eps);
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        const i64 at = row * cols + c;
        double h = number(x[row * ld + c]);
        if (residual) {
            const double r = number(residual[row * ld + c]);
            residual_out[2 * at] = h + r;
            residual_out[2 * at + 1] = fabs(h) + fabs(r);
            h = rounded<Element>(h + r);
        }
        double w = 1.0;
#if GK_WEIGHT == GK_WEIGHT_PLAIN
        w = number(weight[c]);
#elif GK_WEIGHT == GK_WEIGHT_ONE_PLUS
        w = 1.0 + number(weight[c]);
#endif
        y[2 * at] = h * scale * w;
        y[2 * at + 1] = (fabs(h * scale) + kSubnormal) * fabs(w);
    }
}
