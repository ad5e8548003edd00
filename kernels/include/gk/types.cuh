// 16- and 8-bit element types as their bits. They hold values; arithmetic is done in float.
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

// 8 bits of exponent, 7 of fraction: the upper half of a float.
struct bf16 {
    u16 bits;
};

// IEEE binary16.
struct f16 {
    u16 bits;
};

// 4 bits of exponent (bias 7), 3 of fraction, no infinity; 0x7f and 0xff are NaN, 448 is the
// largest.
struct e4m3 {
    u8 bits;
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2 && sizeof(e4m3) == 1, "arrays are packed");

// ---------------------------------------------------------------------------- to float, exact

GK_DEVICE float to_float(float x)
{
    return x;
}

GK_DEVICE float to_float(bf16 x)
{
    return __uint_as_float(static_cast<u32>(x.bits) << 16);
}

GK_DEVICE float to_float(f16 x)
{
    return ptx::cvt_f32_from_f16(x.bits);
}

GK_DEVICE float to_float(e4m3 x)
{
#if __CUDA_ARCH__ >= 890
    const u32 pair = ptx::cvt_f16x2_from_e4m3x2(x.bits);
    return ptx::cvt_f32_from_f16(static_cast<u16>(pair));
#else
    const u32 sign = static_cast<u32>(x.bits & 0x80u) << 24;
    const u32 rest = x.bits & 0x7fu;
    constexpr u32 kNan = 0x7fu, kFractionBits = 3;
    constexpr u32 kFirstNormal = 8;            // smallest code with an implicit leading one
    constexpr u32 kRebias = (127u - 7u) << 23; // between the biases of float and e4m3
    if (rest == kNan) {
        return __uint_as_float(sign | 0x7fc00000u);
    }
    if (rest < kFirstNormal) {
        const float magnitude = static_cast<float>(rest) * 0x1p-9f;
        return __uint_as_float(sign | __float_as_uint(magnitude));
    }
    return __uint_as_float(sign | ((rest << (23 - kFractionBits)) + kRebias));
#endif
}

// ---------------------------------------------------------------------------- from float, nearest
// even

template <typename T> struct FromFloat;

template <> struct FromFloat<float> {
    static GK_DEVICE float one(float x)
    {
        return x;
    }
};

template <> struct FromFloat<bf16> {
    static GK_DEVICE bf16 one(float x)
    {
        return bf16{ptx::cvt_bf16(x)};
    }
    static GK_DEVICE u32 pair(float low, float high)
    {
        return ptx::cvt_bf16x2(low, high);
    }
};

template <> struct FromFloat<f16> {
    static GK_DEVICE f16 one(float x)
    {
        return f16{ptx::cvt_f16(x)};
    }
    static GK_DEVICE u32 pair(float low, float high)
    {
        return ptx::cvt_f16x2(low, high);
    }
};

// Saturates at +-448; NaN stays NaN.
template <> struct FromFloat<e4m3> {
    static GK_DEVICE e4m3 one(float x)
    {
#if __CUDA_ARCH__ >= 890
        return e4m3{static_cast<u8>(ptx::cvt_e4m3x2(x, 0.0f))};
#else
        const u32 bits = __float_as_uint(x);
        const u8 sign = static_cast<u8>((bits >> 24) & 0x80u);
        const u32 magnitude = bits & 0x7fffffffu;
        constexpr u32 kInfinity = 0x7f800000u;
        constexpr u32 kLargest = 0x43e00000u;        // 448
        constexpr u32 kSmallestNormal = 0x3c800000u; // 2^-6
        constexpr u32 kDropped = 23 - 3;             // fraction bits that e4m3 lacks
        constexpr u32 kRebias = (127u - 7u) << 3;
        if (magnitude > kInfinity) {
            return e4m3{static_cast<u8>(sign | 0x7fu)};
        }
        if (magnitude >= kLargest) {
            return e4m3{static_cast<u8>(sign | 0x7eu)};
        }
        if (magnitude < kSmallestNormal) {
            // Steps of 2^-9. Adding 2^14 puts a float's last place on 2^-9: the sum rounds for us.
            const float aligned = __uint_as_float(magnitude) + 0x1p14f;
            return e4m3{static_cast<u8>(sign | (__float_as_uint(aligned) & 0xffu))};
        }
        const u32 odd = (magnitude >> kDropped) & 1u;
        const u32 rounded = magnitude + ((1u << (kDropped - 1)) - 1u) + odd;
        return e4m3{static_cast<u8>(sign | ((rounded >> kDropped) - kRebias))};
#endif
    }
};

template <typename T> GK_DEVICE T from_float(float x)
{
    return FromFloat<T>::one(x);
}

// Two neighbours in memory as one register: `low` is the one at the lower address.
template <typename T> GK_DEVICE u32 pack_pair(float low, float high)
{
    return FromFloat<T>::pair(low, high);
}

// The reverse: two values of a 16-bit type out of one register.
template <typename T> GK_DEVICE void unpack_pair(u32 pair, float &low, float &high)
{
    static_assert(sizeof(T) == 2, "a register holds two elements of a 16-bit type");
    low = to_float(T{static_cast<u16>(pair)});
    high = to_float(T{static_cast<u16>(pair >> 16)});
}

} // namespace gk
