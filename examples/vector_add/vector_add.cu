/* c = a + b. Written before it met a tuner: its own macro names, no foreign header.
 *
 * BLOCK threads a block, ITEMS vectors a thread, VEC floats a vector. A block's vectors lie in
 * ITEMS rows of BLOCK, so that neighbouring threads read neighbouring vectors. */

struct __align__(4 * VEC) Vector {
    float v[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
vector_add(const float *a, const float *b, float *c, long long n)
{
    const long long first = (long long)blockIdx.x * BLOCK * ITEMS + threadIdx.x;

#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        const long long at = (first + item * BLOCK) * VEC;
        if (at + VEC <= n) {
            const Vector x = *(const Vector *)(a + at);
            const Vector y = *(const Vector *)(b + at);
            Vector sum;
#pragma unroll
            for (int i = 0; i < VEC; ++i) {
                sum.v[i] = x.v[i] + y.v[i];
            }
            *(Vector *)(c + at) = sum;
        } else {
            for (long long i = at; i < n; ++i) { /* the last vector, cut by the end */
                c[i] = a[i] + b[i];
            }
        }
    }
}
