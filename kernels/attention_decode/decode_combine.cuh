// Last launch of attention_decode: adds the parts of each row, weighted by their sums of
// exponentials (decode_parts.cuh). The order of the parts is fixed, so a result is the same bit for
// bit in every run. Rows of a single part were stored by the first launch; their blocks leave at
// once.
//
// Grid      x: rows of the output, one a block.
// Roles     Warp 0 weighs the parts; then a thread has four columns and every SLICES-th part, and
// the
//           first slice adds what the others found.
// Barriers  __syncthreads behind the weights, and before slices are added.
// Overlap   On sm_90 it may begin while the launch ahead still runs: it waits before it reads the
//           workspace and before it writes.

#include <gk/hopper.cuh>

#include "decode_parts.cuh"

using namespace decode;

struct Config {
    using Element = GK_DTYPE;
    static constexpr u32 kDim = GK_HEAD_DIM;
    static constexpr u32 kColumns = 4; // of a thread
    static constexpr u32 kRowThreads = kDim / kColumns;
    static constexpr u32 kSlices = GK_SLICES;
    static constexpr u32 kThreads = kRowThreads * kSlices;

    static_assert(kThreads % kWarpSize == 0, "whole warps");
};

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_decode_combine(float *partial_sums, float2 *partial_stats, const i32 *lengths,
                      Config::Element *out, float *lse, i32 row_of_request, i32 chunk,
                      i32 prefix_parts, i64 partial_rows)
{
    __shared__ float weights[kPartsMax];
    __shared__ float inverse;
    __shared__ float4 slices[Config::kSlices][Config::kRowThreads];
#if __CUDA_ARCH__ >= 900
    wait_for_earlier_launches();
#endif
    const i64 row = blockIdx.x;
    const i32 parts = prefix_parts + parts_of(lengths[row / row_of_request], chunk);
    if (prefix_parts == 0 && parts <= 1) {
        return;
    }
    const Partial partial{partial_sums, partial_stats, partial_rows};
    const Output<Config::Element, Config::kDim> output{out, lse};
    if (warp_index() == 0) {
        const float2 stats = weigh_parts(partial, row, parts, weights);
        if (lane_index() == 0) {
            inverse = inverse_of(stats.y);
            output.store_lse(row, stats.x, stats.y);
        }
    }
    __syncthreads(); // weights are there

    const u32 slice = threadIdx.x / Config::kRowThreads, piece = threadIdx.x % Config::kRowThreads;
    float v[Config::kColumns] = {0.0f, 0.0f, 0.0f, 0.0f};
    add_parts<Config::kDim>(v, partial, row, piece * Config::kColumns, static_cast<i32>(slice),
                            Config::kSlices, parts, weights);
    if constexpr (Config::kSlices > 1) {
        slices[slice][piece] = make_float4(v[0], v[1], v[2], v[3]);
        __syncthreads(); // slices are there
        if (slice != 0) {
            return;
        }
#pragma unroll
        for (u32 i = 1; i < Config::kSlices; ++i) {
            const float4 more = slices[i][piece];
            v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
        }
    }
#pragma unroll
    for (u32 i = 0; i < Config::kColumns; ++i) {
        v[i] *= inverse;
    }
    output.store(row, piece * Config::kColumns, v);
}
