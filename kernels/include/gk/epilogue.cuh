// The last step of a matrix product, shared by the kernels that may come last:
// C = act(alpha * sum + beta * C_in + bias), in float, rounded once.
#pragma once

#include <gk/activation.cuh>
#include <gk/types.cuh>

namespace gk
{

// The order is that of the values of op.json's field `act`.
enum class Activation : u32 { kNone = 0, kGelu = 1, kSilu = 2 };

template <typename Output, bool kHasBias, Activation kActivation> struct GemmEpilogue {
    float alpha;
    float beta;
    const Output *c_in; // this batch entry's matrix, null if beta is 0: then nothing is read
    const Output *bias; // of all N columns; read only if kHasBias

    GK_DEVICE float bias_of(i32 col) const
    {
        if constexpr (kHasBias) {
            return to_float(bias[col]);
        } else {
            return 0.0f;
        }
    }

    // `c` is the value of C_in, 0 where there is none.
    GK_DEVICE float finish(float sum, float c, float bias_of_column) const
    {
        const float x = alpha * sum + beta * c + bias_of_column;
        if constexpr (kActivation == Activation::kGelu) {
            return gelu(x);
        } else if constexpr (kActivation == Activation::kSilu) {
            return silu(x);
        } else {
            return x;
        }
    }
};

// Two neighbours in a row by one access, whose address is a multiple of both together; else one by
// one, and the second only if `both` lie inside the matrix.
template <typename T, bool kTogether>
GK_DEVICE void store_pair(T *address, bool both, float low, float high)
{
    if (kTogether && both) {
        if constexpr (sizeof(T) == 4) {
            ptx::st_global_v2(address, __float_as_uint(low), __float_as_uint(high));
        } else {
            ptx::st_global_u32(address, pack_pair<T>(low, high));
        }
        return;
    }
    address[0] = from_float<T>(low);
    if (both) {
        address[1] = from_float<T>(high);
    }
}

// Values of 16 bytes of a row: of `count` of them the rest lies outside the matrix and is left
// alone.
template <typename T> struct RowPiece {
    static constexpr i32 kElements = kChunkBytes / sizeof(T);
    float v[kElements];

    // kTogether: the address is a multiple of 16 bytes.
    template <bool kTogether> GK_DEVICE void load(const T *address, i32 count)
    {
        if (kTogether && count >= kElements) {
            const uint4 bits = ptx::ld_global_v4_ca(address);
            unpack(bits.x, 0);
            unpack(bits.y, 1);
            unpack(bits.z, 2);
            unpack(bits.w, 3);
            return;
        }
#pragma unroll
        for (i32 i = 0; i < kElements; ++i) {
            v[i] = i < count ? to_float(address[i]) : 0.0f;
        }
    }

    template <bool kTogether> GK_DEVICE void store(T *address, i32 count) const
    {
        if (kTogether && count >= kElements) {
            ptx::st_global_v4(address, make_uint4(pack(0), pack(1), pack(2), pack(3)));
            return;
        }
#pragma unroll
        for (i32 i = 0; i < kElements; ++i) {
            if (i < count) {
                address[i] = from_float<T>(v[i]);
            }
        }
    }

  private:
    GK_DEVICE u32 pack(u32 word) const
    {
        if constexpr (sizeof(T) == 4) {
            return __float_as_uint(v[word]);
        } else {
            return pack_pair<T>(v[2 * word], v[2 * word + 1]);
        }
    }

    GK_DEVICE void unpack(u32 bits, u32 word)
    {
        if constexpr (sizeof(T) == 4) {
            v[word] = __uint_as_float(bits);
        } else {
            unpack_pair<T>(bits, v[2 * word], v[2 * word + 1]);
        }
    }
};

} // namespace gk
