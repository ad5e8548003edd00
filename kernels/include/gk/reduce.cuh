// Reductions over the lanes of a warp and the threads of a block. The order of the additions is
// fixed, so a result depends on the data alone.
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

struct SumOp {
    static GK_DEVICE float neutral()
    {
        return 0.0f;
    }
    static GK_DEVICE float apply(float a, float b)
    {
        return a + b;
    }
};

// NaN loses against a number, as in fmaxf.
struct MaxOp {
    static GK_DEVICE float neutral()
    {
        return __uint_as_float(0xff800000u); // minus infinity
    }
    static GK_DEVICE float apply(float a, float b)
    {
        return fmaxf(a, b);
    }
};

// Over groups of kLanes neighbouring lanes (a power of two); every lane gets its group's result.
template <typename Op, u32 kLanes = kWarpSize> GK_DEVICE float warp_reduce(float value)
{
    static_assert(is_pow2(kLanes) && kLanes <= kWarpSize, "a butterfly over part of a warp");
#pragma unroll
    for (u32 distance = kLanes / 2; distance > 0; distance /= 2) {
        value = Op::apply(value, ptx::shuffle_xor(value, distance));
    }
    return value;
}

// Over all kThreads threads of the block; every thread gets the result. `scratch` holds one value a
// warp and may be used again after the next barrier.
template <typename Op, u32 kThreads>
GK_DEVICE float block_reduce(float value, float (&scratch)[kBlockWarpsMax])
{
    static_assert(kThreads % kWarpSize == 0, "whole warps");
    constexpr u32 kWarps = kThreads / kWarpSize;
    value = warp_reduce<Op>(value);
    if constexpr (kWarps == 1) {
        return value;
    }
    if (lane_index() == 0) {
        scratch[threadIdx.x / kWarpSize] = value;
    }
    __syncthreads();
    float result = lane_index() < kWarps ? scratch[lane_index()] : Op::neutral();
    return warp_reduce<Op>(result);
}

} // namespace gk
