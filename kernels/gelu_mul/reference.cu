// What gelu_mul means: one element of out a thread, in double. Beside the value stands its
// magnitude, what the roundings of any implementation in fp32 are measured against (op.json,
// tolerance).

#include <gk/plain.cuh>

extern "C" __global__ void gk_gelu_mul_reference(const Element *packed, const Element *gate,
                                                 const Element *up, double *out, i64 rows, i64 cols,
                                                 i64 ld)
{
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const i64 row = index / cols, col = index % cols;
    if (row >= rows) {
        return;
    }
    const double g = number(packed ? packed[row * ld + col] : gate[row * ld + col]);
    const double u = number(packed ? packed[row * ld + cols + col] : up[row * ld + col]);
#if GK_APPROX == GK_APPROX_TANH
    // tanh(t) = 1 - 2 / (e^2t + 1), so the factor is 1 / (1 + e^-2t).
    const double twice = 2.0 * 0.79788456080286535588 * (g + 0.044715 * g * g * g);
    const double activated = g / (1.0 + exponential(-twice));
    // The last part is a factor of 0 in place of what lies below fp32's normal numbers: 2^-126 over
    // the constants of op.json, twice.
    const double size = fabs(activated) * (1.0 + fabs(twice)) + fabs(g) * 0x1p-104;
#else
    const double activated = g * normal_below(g);
    const double size = fabs(g);
#endif
    out[2 * index] = activated * u;
    out[2 * index + 1] = size * fabs(u);
}
