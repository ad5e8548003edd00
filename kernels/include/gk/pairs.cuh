// Arithmetic on two elements of a 16-bit type in one register, as they lie in memory.
#pragma once

#include <gk/types.cuh>

namespace gk
{
namespace ptx
{

// PTX ISA: fma and add of f16x2 and bf16x2 round each half once, to nearest even, and keep
// subnormals. add of bf16x2 needs sm_90; fma with a factor of one is the same sum and needs sm_80.
template <typename T> GK_DEVICE u32 add_x2(u32 a, u32 b);

template <> GK_DEVICE u32 add_x2<bf16>(u32 a, u32 b)
{
    constexpr u32 kOnes = 0x3f803f80u;
    u32 sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(kOnes), "r"(b));
    return sum;
}

template <> GK_DEVICE u32 add_x2<f16>(u32 a, u32 b)
{
    u32 sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

} // namespace ptx

// Sums of two elements each, rounded to the element type: what a sum in fp32 gives that is rounded
// afterwards, bit for bit. fp32 holds the sum of two such elements exactly, or one of them is so
// small that the sum is no nearer to a tie than the other one.
template <typename T, u32 kWords>
GK_DEVICE void add_pairs(u32 (&sum)[kWords], const u32 (&a)[kWords], const u32 (&b)[kWords])
{
    static_assert(sizeof(T) == 2, "a register holds two elements of a 16-bit type");
#pragma unroll
    for (u32 w = 0; w < kWords; ++w) {
        sum[w] = ptx::add_x2<T>(a[w], b[w]);
    }
}

} // namespace gk
