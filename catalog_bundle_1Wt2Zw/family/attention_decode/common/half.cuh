// 16-bit storage to float for the decode fixture, without any header.
#pragma once

#define kInfinity __int_as_float(0x7f800000)

__device__ inline float decode_load(unsigned short bits)
{
#if defined(DEC_DTYPE_BF16)
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
}

__device__ inline unsigned short decode_store(float value)
{
#if defined(DEC_DTYPE_BF16)
    const unsigned bits = __float_as_uint(value);
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
#else
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#endif
}
