// What gemm means: one element of C a thread, products and sums in double. For each element two
// doubles are written, packed over [batch, M, columns of C]: the value, and its magnitude, the same
// sum over absolute values times the steepest slope of the activation: what the rounding errors of
// any order of summation are measured against.
//
// Kept plain on purpose: one thread adds one element's products in the order of k, nothing of
// <gk/...>, conversions of its own. A block covers 16 x 16 elements and brings its rows and columns
// in pieces through shared memory, already as doubles: without that a GPU spends seconds on the
// largest problems, reading one 2-byte element a cache line. Products of two 16- or 8-bit numbers
// are exact in double.

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

constexpr int kTile = 16, kPiece = 32, kThreads = kTile * kTile;

struct Matrices {
    const Input *a, *b;
    const float *a_scale, *b_scale;
    i64 m, n, k, groups, lda, ldb;
};

// A piece of 16 rows or columns, [line][k]; what lies outside is 0. The odd pitch spreads the lines
// over the banks.
typedef double Piece[kTile][kPiece + 1];

FUNCTION void bring(Piece piece, const Input *matrix, i64 first_line, i64 lines, i64 first_k,
                    i64 k_count, i64 pitch, bool along_k)
{
    for (int e = (int)threadIdx.x; e < kTile * kPiece; e += kThreads) {
        const int line = along_k ? e / kPiece : e % kTile; // neighbours read neighbours
        const int k = along_k ? e % kPiece : e / kTile;
        const bool inside = first_line + line < lines && first_k + k < k_count;
        const i64 at = along_k ? (first_line + line) * pitch + first_k + k
                               : (first_k + k) * pitch + first_line + line;
        piece[line][k] = inside ? FROM_INPUT(matrix[at]) : 0.0;
    }
}

// Row `row` of A times column `col` of B in one entry of the batch, scaled, before alpha. The whole
// block calls it; rows are those of one group. A thread outside the matrix helps to bring, and what
// it returns is of no use.
FUNCTION Pair dot(const Matrices &x, i64 batch, i64 row, i64 row_end, i64 col)
{
    __shared__ Piece a_piece, b_piece;
    const int tile_row = threadIdx.x / kTile, tile_col = threadIdx.x % kTile;
    const i64 first_row = row - tile_row, first_col = col - tile_col;
    const i64 matrix_b = batch * x.groups + first_row / (x.m / x.groups);
    const Input *a = x.a + batch * x.lda * (A_ALONG_K ? x.m : x.k);
    const Input *b = x.b + matrix_b * x.ldb * (B_ALONG_K ? x.n : x.k);
#if GK_SCALE == GK_SCALE_BLOCK128
    const bool inside = row < row_end && col < x.n;
    const i64 blocks_k = (x.k + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const i64 blocks_n = (x.n + SCALE_BLOCK - 1) / SCALE_BLOCK;
    const float *a_scale = x.a_scale + (batch * x.m + row) * blocks_k;
    const float *b_scale = x.b_scale + (matrix_b * blocks_n + col / SCALE_BLOCK) * blocks_k;
#endif
    Pair sum = {0.0, 0.0};
    for (i64 k = 0; k < x.k; k += kPiece) {
        __syncthreads(); // the piece before has been used
        bring(a_piece, a, first_row, row_end, k, x.k, x.lda, A_ALONG_K);
        bring(b_piece, b, first_col, x.n, k, x.k, x.ldb, B_ALONG_K);
        __syncthreads();
        for (int i = 0; i < kPiece; ++i) {
            double term = a_piece[tile_row][i] * b_piece[tile_col][i];
#if GK_SCALE == GK_SCALE_BLOCK128
            if (inside && k + i < x.k) {
                const i64 block = (k + i) / SCALE_BLOCK;
                term *= (double)a_scale[block] * b_scale[block];
            }
#endif
            sum.value += term;
            sum.magnitude += fabs(term);
        }
    }
#if GK_SCALE == GK_SCALE_TENSOR
    const double factor = (double)x.a_scale[batch] * x.b_scale[matrix_b];
    sum.value *= factor;
    sum.magnitude *= fabs(factor);
#endif
    return sum;
}

extern "C" __global__ void gk_gemm_reference(const Input *a, const Input *b, const float *a_scale,
                                             const float *b_scale, const Output *c_in,
                                             const Output *bias, double *result, i64 m, i64 n,
                                             i64 k, i64 batch_count, i64 groups, i64 lda, i64 ldb,
                                             i64 ldc, double alpha, double beta)
{
    // Tiles go along the columns, then down the rows of a group, then through the groups.
    const i64 columns = GATED ? n / 2 : n, rows = m / groups;
    const i64 tiles_n = (columns + kTile - 1) / kTile, tiles_m = (rows + kTile - 1) / kTile;
    const i64 group = blockIdx.x / tiles_n / tiles_m, row_end = (group + 1) * rows;
    const i64 row =
        group * rows + blockIdx.x / tiles_n % tiles_m * kTile + threadIdx.x / kTile;
    const i64 col = blockIdx.x % tiles_n * kTile + threadIdx.x % kTile;
    const Matrices matrices = {a, b, a_scale, b_scale, m, n, k, groups, lda, ldb};
    for (i64 batch = blockIdx.z; batch < batch_count; batch += gridDim.z) {
        Pair x = dot(matrices, batch, row, row_end, col);
#if GATED
        Pair other = dot(matrices, batch, row, row_end, col + columns);
#endif
        if (row >= row_end || col >= columns) {
            continue; // as all threads do that bring pieces: the next entry's barriers are met
        }
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
