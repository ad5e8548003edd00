// y = a * x
#include "deep/element.cuh"

extern "C" __global__ void scale_plain(const GK_DTYPE *x, GK_DTYPE *y, long long n, float a)
{
    for (long long i = blockIdx.x * (long long)(GK_THREADS * GK_UNROLL) + threadIdx.x, k = 0; k < GK_UNROLL; k++, i += GK_THREADS) {
        if (i < n) {
            y[i] = scaled(x[i], a);
        }
    }
}
