// For references alone: elements as doubles, and functions that libraries would bring, in double.
// No template includes this, and nothing here knows <gk/types.cuh>: what is right must not depend
// on what it judges. Kept plain on purpose.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;

#define FUNCTION [[maybe_unused]] static __device__ __forceinline__

// Bits of a 16-bit type; a reference's element types are Bf16, F16 and float.
struct Bf16 {
    u16 bits;
};
struct F16 {
    u16 bits;
};

FUNCTION double number(float x)
{
    return x;
}

FUNCTION double number(Bf16 x)
{
    return __uint_as_float((u32)x.bits << 16);
}

FUNCTION double number(F16 x)
{
    const u32 exponent = x.bits >> 10 & 0x1f, fraction = x.bits & 0x3ff;
    double magnitude;
    if (exponent == 0) {
        magnitude = fraction * 0x1p-24;
    } else if (exponent == 0x1f) {
        magnitude = __uint_as_float(0x7f800000u | fraction << 13);
    } else {
        magnitude = __uint_as_float(exponent + 112 << 23 | fraction << 13);
    }
    return x.bits & 0x8000 ? -magnitude : magnitude;
}

// The types of the fields dtype and, where an op has it, dtype_weight.
#if GK_DTYPE_BF16
typedef Bf16 Element;
#elif GK_DTYPE_F16
typedef F16 Element;
#else
typedef float Element;
#endif

#if GK_DTYPE_WEIGHT_BF16
typedef Bf16 Weight;
#elif GK_DTYPE_WEIGHT_F16
typedef F16 Weight;
#elif GK_DTYPE_WEIGHT_F32
typedef float Weight;
#endif

// Significant binary digits of a type, and the exponent of its smallest step.
template <typename T> struct Digits;
template <> struct Digits<Bf16> {
    static constexpr int kCount = 8, kLeast = -133;
};
template <> struct Digits<F16> {
    static constexpr int kCount = 11, kLeast = -24;
};
template <> struct Digits<float> {
    static constexpr int kCount = 24, kLeast = -149;
};

// The type's number nearest to x, ties to even: x is brought to where the type's last place is 1
// and rounded there. x is a normal double, far from the type's largest number.
template <typename T> FUNCTION double rounded(double x)
{
    if (x == 0.0 || !(fabs(x) < 1e300)) {
        return x;
    }
    const int exponent = (int)((u32)(__double_as_longlong(x) >> 52) & 0x7ff) - 1022;
    const int place = exponent - Digits<T>::kCount;
    const int last = place > Digits<T>::kLeast ? place : Digits<T>::kLeast;
    const double unit = __longlong_as_double((i64)(last + 1023) << 52);
    return rint(x / unit) * unit;
}

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
#pragma unroll
    for (int i = 1; i < 20; ++i) {
        term *= r * (1.0 / i); // by a constant: no division
        sum += term;
    }
    return sum * __longlong_as_double((i64)(n + 1023.0) << 52);
}

// The natural logarithm of a normal x > 0: x = 2^n m, 2 atanh((m - 1) / (m + 1)) for 1 <= m < 2.
FUNCTION double logarithm(double x)
{
    const i64 bits = __double_as_longlong(x);
    const double n = (double)((int)((u32)(bits >> 52) & 0x7ff) - 1023);
    const double m = __longlong_as_double((bits & 0xfffffffffffffLL) | 0x3ff0000000000000LL);
    const double z = (m - 1.0) / (m + 1.0);
    double power = z, sum = 0.0;
    for (int i = 1; i < 70; i += 2) {
        sum += power / i;
        power *= z * z;
    }
    return n * 0.693147180559945309417 + 2.0 * sum;
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

// The sum of one value of each of kThreads threads, in the order of the threads; all get it.
template <int kThreads> FUNCTION double block_sum(double value)
{
    __shared__ double parts[kThreads];
    __syncthreads(); // an earlier sum has been read
    parts[threadIdx.x] = value;
    __syncthreads();
    double sum = 0.0;
    for (int i = 0; i < kThreads; ++i) {
        sum += parts[i];
    }
    return sum;
}
