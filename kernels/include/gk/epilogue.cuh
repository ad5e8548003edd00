// The last step of a matrix product, shared by the kernels that may come last:
// C = act(alpha * sum + beta * C_in + bias), in float, rounded once.
#pragma once

#include <gk/activation.cuh>
#include <gk/types.cuh>

namespace gk {

// The order is that of the values of op.json's field `act`.
enum class Activation : u32 { kNone = 0, kGelu = 1, kSilu = 2 };

template <typename Output, bool kHasBias, Activation kActivation>
struct GemmEpilogue {
    float alpha;
    float beta;
    const Output *c_in;  // this batch entry's matrix, null if beta is 0: then nothing is read
    const Output *bias;  // of all N columns; read only if kHasBias

    GK_DEVICE float bias_of(i32 col) const
    {
        if constexpr (kHasBias) {
            return to_float(bias[col]);
        } else {
            return 0.0f;
        }
    }

    // `element` is the index into C_in and C; the column's bias is the caller's, who has many rows.
    GK_DEVICE float finish(float sum, i64 element, float bias_of_column) const
    {
        float x = alpha * sum;
        if (c_in != nullptr) {
            x += beta * to_float(c_in[element]);
        }
        x += bias_of_column;
        if constexpr (kActivation == Activation::kGelu) {
            x = gelu(x);
        } else if constexpr (kActivation == Activation::kSilu) {
            x = silu(x);
        }
        return x;
    }
};

// Two neighbours in a row by one store; the address is a multiple of both together.
template <typename Output>
GK_DEVICE void store_pair(Output *address, float low, float high)
{
    if constexpr (sizeof(Output) == 4) {
        ptx::st_global_v2(address, __float_as_uint(low), __float_as_uint(high));
    } else {
        ptx::st_global_u32(address, pack_pair<Output>(low, high));
    }
}

}  // namespace gk
