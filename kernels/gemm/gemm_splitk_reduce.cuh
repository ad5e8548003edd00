// Second launch of a split product: adds the partial sums of all splits in order and finishes them,
// C = act(alpha * sum + beta * C_in + bias). The order is fixed, so the result is the same bit for
// bit in every run.
//
// Layouts   partial[split][batch][M][pitch] floats, pitch = N rounded up to 4; the columns past N
//           were never written and are not read.
// Grid      x: groups of four neighbouring columns, over all rows; z: batch. One group a thread:
//           reads of 16 bytes a split, all splits in flight at once.

#include <gk/epilogue.cuh>

using namespace gk;

struct Config {
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kSplits = GK_SPLITK;
    static constexpr u32 kStoreBytes = GK_STORE_BYTES;
    static constexpr bool kHasBias = GK_BIAS;
    static constexpr Activation kActivation = static_cast<Activation>(GK_ACT);
    static constexpr u32 kThreads = 256;
    static constexpr i32 kColumns = 4; // of a thread: 16 bytes of partial sums
    static constexpr bool kPairs = kStoreBytes >= 2 * sizeof(Output);
};

using Epilogue = GemmEpilogue<Config::Output, Config::kHasBias, Config::kActivation>;

struct Four {
    float v[Config::kColumns];
};

// Sums of four whole columns; `slice` floats lie between splits.
GK_DEVICE Four add_splits(const float *partial, i64 slice)
{
    uint4 parts[Config::kSplits];
#pragma unroll
    for (u32 split = 0; split < Config::kSplits; ++split) {
        parts[split] = ptx::ld_global_v4_cs(partial + split * slice);
    }
    Four sums{{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
    for (u32 split = 0; split < Config::kSplits; ++split) {
        sums.v[0] += __uint_as_float(parts[split].x);
        sums.v[1] += __uint_as_float(parts[split].y);
        sums.v[2] += __uint_as_float(parts[split].z);
        sums.v[3] += __uint_as_float(parts[split].w);
    }
    return sums;
}

// The last group of a row whose N is no multiple of four.
GK_DEVICE Four add_splits_ragged(const float *partial, i64 slice, i32 columns)
{
    Four sums{{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
    for (i32 i = 0; i < Config::kColumns; ++i) {
        if (i < columns) {
            for (u32 split = 0; split < Config::kSplits; ++split) {
                sums.v[i] += partial[split * slice + i];
            }
        }
    }
    return sums;
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_gemm_splitk_reduce(const float *partial, const Config::Output *c_in,
                          const Config::Output *bias, Config::Output *c, i32 m, i32 n, i64 ldc,
                          float alpha, float beta)
{
    const i32 groups = ceil_div(n, Config::kColumns);
    const i64 index = static_cast<i64>(blockIdx.x) * Config::kThreads + threadIdx.x;
    if (index >= static_cast<i64>(groups) * m) {
        return;
    }
    const i64 row = index / groups;
    const i32 col = static_cast<i32>(index - row * groups) * Config::kColumns;
    const i64 pitch = static_cast<i64>(groups) * Config::kColumns;
    const i64 batch = blockIdx.z;
    const i64 slice = gridDim.z * (m * pitch);
    const i32 columns = min_of(n - col, Config::kColumns);
    partial += (batch * m + row) * pitch + col;
    Four sums = columns == Config::kColumns ? add_splits(partial, slice)
                                            : add_splits_ragged(partial, slice, columns);

    c += batch * m * ldc;
    const Epilogue epilogue{alpha, beta, c_in == nullptr ? nullptr : c_in + batch * m * ldc, bias};
    const i64 element = row * ldc + col;
#pragma unroll
    for (i32 i = 0; i < Config::kColumns; ++i) {
        const bool inside = i < columns;
        const float before =
            c_in != nullptr && inside ? to_float(epilogue.c_in[element + i]) : 0.0f;
        const float bias_of_column = inside ? epilogue.bias_of(col + i) : 0.0f;
        sums.v[i] = epilogue.finish(sums.v[i], before, bias_of_column);
    }
#pragma unroll
    for (i32 i = 0; i < Config::kColumns; i += 2) {
        if (i < columns) {
            store_pair<Config::Output, Config::kPairs>(c + element + i, i + 1 < columns, sums.v[i],
                                                       sums.v[i + 1]);
        }
    }
}
