// What softmax means. A block has one row, and adds its exponentials in double. The magnitude of y
// counts that an exponential of a rounded argument is off in proportion to the argument.

#include <gk/plain.cuh>

constexpr int kThreads = 256;

extern "C" __global__ void gk_softmax_reference(const Element *x, double *y, i64 cols, i64 ld,
                                                double scale)
{
    __shared__ double maxima[kThreads];
    const i64 row = blockIdx.x;
    double most = -1e300, sum = 0.0;
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        most = fmax(most, number(x[row * ld + c]));
    }
    maxima[threadIdx.x] = most;
    __syncthreads();
    for (int i = 0; i < kThreads; ++i) {
        most = fmax(most, maxima[i]);
    }
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        sum += exponential(scale * (number(x[row * ld + c]) - most));
    }
    sum = block_sum<kThreads>(sum);
    for (i64 c = threadIdx.x; c < cols; c += kThreads) {
        const double argument = scale * (number(x[row * ld + c]) - most);
        const double value = exponential(argument) / sum;
        y[2 * (row * cols + c)] = value;
        // The last part is a zero in place of what lies below fp32's normal numbers: 2^-126 over
        // the constants of op.json's first term.
        y[2 * (row * cols + c) + 1] = value * (1.0 + fabs(argument)) + 0x1p-105;
    }
}
