// What gemm means: one element of C a thread, products and sums in double. For each element two
// doubles are written, packed over [batch, M, columns of C]: the value, and its magnitude, the same
// sum over absolute values times the steepest slope of the activation: what the rounding errors of
// any order of summation are measured against.
//
// Kept plain on purpose: no tiles, no shared memory, nothing of <gk/...>, conversions of its own.
// Products of two 16- or 8-bit numbers are exact in double.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#define FUNCTION [[maybe_unused]] static __device__ __forceinline__

FUNCTION double from_bf16(u16 bits)
{
    return __uint_as_float((u32)bits << 16);
}

FUNCTION double from_f16(u16 bits)
{
    const u32 exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    double magnitude;
    if (exponent == 0) {
        magnitude = fraction * 0x1p-24;
    } else if (exponent == 0x1f) {
        magnitude = __uint_as_float(0x7f800000u | fraction << 13);
    } else {
        magnitude = __uint_as_float(exponent + 112 << 23 | fraction << 13);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
}

FUNCTION double from_e4m3(u8 bits)
{
    const u32 exponent = bits >> 3 & 0xf, fraction = bits & 7;
    double magnitude;
    if (exponent == 0) {
        magnitude = fraction * 0x1p-9;
    } else if (exponent == 0xf && fraction == 7) {
        magnitude = __uint_as_float(0x7fc00000u);
    } else {
        magnitude = __uint_as_float(exponent + 120 << 23 | fraction << 20);
    }
    return bits & 0x80 ? -magnitude : magnitude;
}

#if GK_DTYPE_BF16
typedef u16 Input;
#define FROM_INPUT from_bf16
#elif GK_DTYPE_F16
typedef u16 Input;
#define FROM_INPUT from_f16
#else
typedef u8 Input;
#define FROM_INPUT from_e4m3
#endif

#if GK_DTYPE_OUT_BF16
typedef u16 Output;
#define FROM_OUTPUT from_bf16
#elif GK_DTYPE_OUT_F16
typedef u16 Output;
#define FROM_OUTPUT from_f16
#else
typedef float Output;
#define FROM_OUTPUT(x) ((double)(x))
#endif

#define A_ALONG_K   (GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_NN)
#define B_ALONG_K   (GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_TT)
#define GATED       (GK_ACT == GK_ACT_SILU_GATE)
#define SCALE_BLOCK 128

struct Pair {
    double value, magnitude;
};

// e^x: x = n ln 2 + r, a series for e^r with |r| <= 0.35 (the 20th term is below 2^-90), then 2^n.
FUNCTION double exponential(double x)
{
    if (!(x > -700.0)) {
        return x != x ? x : 0.0;
    }
    if (x > 700.0) {
        return __longlong_as_double(0x7ff0000000000000LL);
    }
    const double n = floor(x * 1.4426950408889634074 + 0.5);
    const double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
    double term = 1.0, sum = 1.0;
    for (int i = 1; i < 20; ++i) {
        term *= r / i;
        sum += term;
    }
    return sum * __longlong_as_double((i64)(n + 1023.0) << 52);
}

// P(Z <= x) of a standard normal. Near 0 a series of positive terms, 1/2 + density(x) (x + x^3/3 +
// x^5/15 + ...); far out the continued fraction of the tail, so that small tails keep all digits.
FUNCTION double normal_below(double x)
{
    const double size = fabs(x);
    const double density = 0.39894228040143267794 * exponential(-0.5 * x * x);
    if (size < 3.0) {
        double term = size, sum = size;
        for (int i = 3; i < 80; i += 2) {
            term *= size * size / i;
            sum += term;
        }
        return x < 0.0 ? 0.5 - density * sum : 0.5 + density * sum;
    }
    double fraction = size;
    for (int i = 100; i > 0; --i) {
        fraction = size + i / fraction;
    }
    const double tail = density / fraction;
    return x < 0.0 ? tail : 1.0 - tail;
}

FUNCTION double silu(double x)
{
    return x / (1.0 + exponential(-x));
}

// The sum over K of one row of A and one column of B, scaled.
FUNCTION Pair product(const Input *a, const Input *b, const float *a_scale, const float *b_scale,
                      i64 k_count, i64 a_step, i64 b_step)
{
    Pair sum = {0.0, 0.0};
    for (i64 k = 0; k < k_count; ++k) {
        double term = FROM_INPUT(*a) * FROM_INPUT(*b);
#if GK_SCALE == GK_SCALE_BLOCK128
        term *= (double)a_scale[k / SCALE_BLOCK] * b_scale[k / SCALE_BLOCK];
#endif
        sum.value += term;
        sum.magnitude += fabs(term);
        a += a_step;
        b += b_step;
    }
#if GK_SCALE == GK_SCALE_TENSOR
    const double factor = (double)*a_scale * *b_scale;
    sum.value *= factor;
    sum.magnitude *= fabs(factor);
#endif
    return sum;
}

struct Matrices {
    const Input *a, *b;
    const float *a_scale, *b_scale;
    i64 m, n, k, groups, lda, ldb;
};

// Row `row` of A times column `col` of B in one entry of the batch, before alpha.
FUNCTION Pair dot(const Matrices &x, i64 batch, i64 row, i64 col)
{
    const i64 matrix_b = batch * x.groups + row / (x.m / x.groups);
    const Input *a =
        x.a + batch * x.lda * (A_ALONG_K ? x.m : x.k) + (A_ALONG_K ? row * x.lda : row);
    const Input *b =
        x.b + matrix_b * x.ldb * (B_ALONG_K ? x.n : x.k) + (B_ALONG_K ? col * x.ldb : col);
    const float *a_scale = x.a_scale, *b_scale = x.b_scale;
#if GK_SCALE == GK_SCALE_BLOCK128
    const i64 blocks_k = (x.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const i64 blocks_n = (x.n + SCALE_BLOCK - 1) / SCALE_BLOCK;
    a_scale += (batch * x.m + row) * blocks_k;
    b_scale += (matrix_b * blocks_n + col / SCALE_BLOCK) * blocks_k;
#elif GK_SCALE == GK_SCALE_TENSOR
    a_scale += batch;
    b_scale += matrix_b;
#endif
    return product(a, b, a_scale, b_scale, x.k, A_ALONG_K ? 1 : x.lda, B_ALONG_K ? 1 : x.ldb);
}

extern "C" __global__ void gk_gemm_reference(const Input *a, const Input *b, const float *a_scale,
                                             const float *b_scale, const Output *c_in,
                                             const Output *bias, double *result, i64 m, i64 n,
                                             i64 k, i64 batch_count, i64 groups, i64 lda, i64 ldb,
                                             i64 ldc, double alpha, double beta)
{
    const i64 columns = GATED ? n / 2 : n;
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= m * columns) {
        return;
    }
    const i64 row = index / columns, col = index % columns;
    const Matrices matrices = {a, b, a_scale, b_scale, m, n, k, groups, lda, ldb};
    for (i64 batch = blockIdx.z; batch < batch_count; batch += gridDim.z) {
        Pair x = dot(matrices, batch, row, col);
        x.value *= alpha;
        x.magnitude *= fabs(alpha);
        if (c_in) {
            const double c = beta * FROM_OUTPUT(c_in[(batch * m + row) * ldc + col]);
            x.value += c;
            x.magnitude += fabs(c);
        }
        const Output *bias_row = bias ? bias + row / (m / groups) * n : bias;
        if (bias) {
            const double c = FROM_OUTPUT(bias_row[col]);
            x.value += c;
            x.magnitude += fabs(c);
        }
#if GK_ACT == GK_ACT_GELU
        x.value *= normal_below(x.value);
        x.magnitude *= 1.13;
#elif GK_ACT == GK_ACT_SILU
        x.value = silu(x.value);
        x.magnitude *= 1.10;
#elif GATED
        Pair other = dot(matrices, batch, row, col + columns);
        other.value *= alpha;
        other.magnitude *= fabs(alpha);
        if (bias) {
            const double c = FROM_OUTPUT(bias_row[col + columns]);
            other.value += c;
            other.magnitude += fabs(c);
        }
        const double gate = silu(x.value);
        x.magnitude = 1.10 * x.magnitude * fabs(other.value) + fabs(gate) * other.magnitude;
        x.value = gate * other.value;
#endif
        double *pair = result + 2 * ((batch * m + row) * columns + col);
        pair[0] = x.value;
        pair[1] = x.magnitude;
    }
}
