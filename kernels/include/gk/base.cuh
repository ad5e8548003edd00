// What every kernel needs before the first instruction: fixed-width integers, the machine's
// constants, small arithmetic. No header of CUDA or of the standard library is included, here or
// above: their text costs NVRTC three to ten times the compile time of a kernel.
#pragma once

#define GK_DEVICE __device__ __forceinline__

// Stops the kernel with a device-side trap (the launch then fails with an error that a host sees).
// For conditions that a caller promised; never for data.
#define GK_TRAP_IF(condition)                                                                      \
    do {                                                                                           \
        if (condition) {                                                                           \
            __trap();                                                                              \
        }                                                                                          \
    } while (false)

namespace gk
{

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

static_assert(sizeof(i16) == 2 && sizeof(i32) == 4 && sizeof(i64) == 8, "the ABI of CUDA C++");

constexpr u32 kWarpSize = 32;
constexpr u32 kFullMask = 0xffffffffu; // all lanes of a warp
constexpr u32 kBlockWarpsMax = 32;     // 1,024 threads
constexpr u32 kChunkBytes = 16;        // widest access of one thread, unit of ldmatrix rows
constexpr u32 kBankLineBytes = 128;    // 32 banks of 4 bytes: one wavefront of shared memory

template <typename T> constexpr GK_DEVICE T min_of(T a, T b)
{
    return a < b ? a : b;
}

template <typename T> constexpr GK_DEVICE T max_of(T a, T b)
{
    return a < b ? b : a;
}

// Both operands not negative, b > 0.
template <typename T> constexpr GK_DEVICE T ceil_div(T a, T b)
{
    return (a + b - 1) / b;
}

template <typename T> constexpr GK_DEVICE T clamp_of(T x, T low, T high)
{
    return min_of(max_of(x, low), high);
}

constexpr GK_DEVICE bool is_pow2(u32 x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

GK_DEVICE u32 lane_index()
{
    return threadIdx.x % kWarpSize; // blocks of gk kernels are one-dimensional
}

// The warp's number as a value that the compiler knows to be equal in all lanes, so that what
// depends on it lands in uniform registers and uniform branches.
GK_DEVICE u32 warp_index()
{
    return __shfl_sync(kFullMask, threadIdx.x / kWarpSize, 0);
}

} // namespace gk
