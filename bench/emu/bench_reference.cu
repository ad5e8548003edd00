// The reference kernel of the interpreter's benchmark: one output element a thread, sums in double,
// the value and the sum of absolute products.
__device__ __forceinline__ double widen(unsigned short bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

extern "C" __global__ void bench_reference(const unsigned short *a, const unsigned short *b,
                                           double *value, double *magnitude, int m, int n, int k)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    double sum = 0.0, size = 0.0;

    if (row >= m || column >= n) {
        return;
    }
    for (int i = 0; i < k; i++) {
        const double left = widen(a[(long long)row * k + i]);
        const double product = left * widen(b[(long long)column * k + i]);
        sum += product;
        size += fabs(product);
    }
    value[(long long)row * n + column] = sum;
    magnitude[(long long)row * n + column] = size;
}
