// Activations on a float, accurate to a few units of 2^-23 of |x|, branch-free and short: an
// epilogue inlines one a value, so the library's erff and expf would multiply the compile time.
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

constexpr float kLog2E = 1.4426950408889634f;

GK_DEVICE float exp_approx(float x)
{
    return ptx::exp2_approx(x * kLog2E);
}

// x / (1 + e^-x).
GK_DEVICE float silu(float x)
{
    return x * ptx::rcp_approx(1.0f + exp_approx(-x));
}

// 1 - erf(x) for x >= 0 by the rational approximation of Hastings (Abramowitz and Stegun 7.1.26),
// absolute error 1.5e-7.
GK_DEVICE float erfc_of_positive(float x)
{
    const float t = ptx::rcp_approx(1.0f + 0.3275911f * x);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return p * t * exp_approx(-x * x);
}

// x * P(Z <= x) for a standard normal Z: the exact GELU, not the one by tanh.
GK_DEVICE float gelu(float x)
{
    constexpr float kHalfSqrt2 = 0.70710678118654752f;
    const float tail = 0.5f * erfc_of_positive(fabsf(x) * kHalfSqrt2);
    return x < 0.0f ? x * tail : x - x * tail;
}

} // namespace gk
