// What cross_entropy means. A block has one row and adds its exponentials in double. Magnitudes
// count that an exponential of a rounded argument is off in proportion to the argument, and that
// lse and a logit of fp32 are off in proportion to their size.

#include <gk/plain.cuh>

constexpr int kThreads = 256;

extern "C" __global__ void
gk_cross_entropy_reference(const Element *logits, const Element *in_place, const i64 *labels,
                           double *loss, double *lse_out, double *gradient, i64 cols, i64 ld,
                           i64 ignore, double smoothing, double z_loss, double grad_scale)
{
    __shared__ double maxima[kThreads];
    const i64 row = blockIdx.x, label = labels[row];
    const Element *x = (in_place ? in_place : logits) + row * ld;
    double most = -1e300, sum = 0.0, all = 0.0, sizes = 0.0;
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        most = fmax(most, number(x[c]));
    }
    maxima[threadIdx.x] = most;
    __syncthreads();
    for (int i = 0; i < kThreads; ++i) {
        most = fmax(most, maxima[i]);
    }
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        sum += exponential(number(x[c]) - most);
        all += number(x[c]);
        sizes += fabs(number(x[c]));
    }
    sum = block_sum<kThreads>(sum);
    all = block_sum<kThreads>(all);
    sizes = block_sum<kThreads>(sizes);
    const double lse = most + logarithm(sum);
    const bool ignored = label == ignore;
    if (threadIdx.x == 0) {
        const double target = ignored ? 0.0 : number(x[label]);
        const double size = fabs(most) + logarithm(sum) + 2.0; // what lse is off is a part of this
        loss[2 * row] = ignored ? 0.0
                                : (1.0 - smoothing) * (lse - target) +
                                      smoothing * (lse - all / (double)cols) + z_loss * lse * lse;
        loss[2 * row + 1] = ignored ? 0.0
                                    : size * (1.0 + 2.0 * z_loss * fabs(lse)) + z_loss * lse * lse +
                                          fabs(target) + smoothing * sizes / (double)cols;
        lse_out[2 * row] = lse;
        lse_out[2 * row + 1] = size;
    }
    for (i64 c = threadIdx.x; gradient && c < cols; c += kThreads) {
        const double argument = number(x[c]) - most, p = exponential(argument) / sum;
        const double share = smoothing / (double)cols + (c == label ? 1.0 - smoothing : 0.0);
        const double weight = grad_scale * (1.0 + 2.0 * z_loss * lse);
        gradient[2 * (row * cols + c)] = ignored ? 0.0 : weight * p - grad_scale * share;
        // The last part: results and exponentials below 2^-126 may be 0 (see op.json).
        gradient[2 * (row * cols + c) + 1] =
            ignored ? 0.0
                    : fabs(weight) * p * (1.0 + fabs(argument)) + grad_scale * share +
                          0x1p-105 * (1.0 + fabs(weight));
    }
}
