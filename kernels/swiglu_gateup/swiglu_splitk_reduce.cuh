// Second launch of a split: adds the partial sums of gate and of up over all splits in order, then
// out = silu(gate) * up. The order is fixed, so the result is the same bit for bit in every run.
//
// Layouts   partial[split][gate, up][M][pitch] floats, pitch = N rounded up to 4; of the columns
//           past N those that belong to a pair were written, and none is used.
// Grid      x: groups of four neighbouring columns, over all rows, one a thread: reads of 16 bytes
//           a split and product, all of them in flight at once.

#include <gk/activation.cuh>
#include <gk/rows.cuh>

using namespace gk;

struct Config {
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kSplits = GK_SPLITK;
    static constexpr u32 kThreads = 256;
    static constexpr i32 kColumns = 4;
    // A store is no wider than four columns, nor than the alignment of out allows.
    static constexpr u32 kStoreBytes = min_of<u32>(kColumns * sizeof(Output), GK_STORE_BYTES);
};

using Four = Piece<float, 16>;
using Out = Piece<Config::Output, Config::kStoreBytes>;

// Sums of one product at four columns, of which those from `cols` on are not read. `slice` floats
// lie between splits.
GK_DEVICE Four add_splits(const float *partial, i64 slice, i32 col, i32 cols)
{
    Four parts[Config::kSplits], sum{{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
    for (u32 split = 0; split < Config::kSplits; ++split) {
        parts[split].load<CacheUse::kL2>(partial + split * slice, col, cols, 0);
    }
#pragma unroll
    for (u32 split = 0; split < Config::kSplits; ++split) {
#pragma unroll
        for (i32 i = 0; i < Config::kColumns; ++i) {
            sum.v[i] += parts[split].v[i];
        }
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_swiglu_splitk_reduce(const float *partial, Config::Output *out, i32 m, i32 n, i64 ldo)
{
    const i32 groups = ceil_div(n, Config::kColumns);
    const i64 index = static_cast<i64>(blockIdx.x) * Config::kThreads + threadIdx.x;
    if (index >= static_cast<i64>(groups) * m) {
        return;
    }
    const i64 row = index / groups, pitch = static_cast<i64>(groups) * Config::kColumns;
    const i32 col = static_cast<i32>(index - row * groups) * Config::kColumns;
    const i64 product = m * pitch; // floats between gate and up
    const Four gate = add_splits(partial + row * pitch, 2 * product, col, n);
    const Four up = add_splits(partial + product + row * pitch, 2 * product, col, n);
#pragma unroll
    for (u32 part = 0; part < Config::kColumns; part += Out::kCount) {
        Out piece;
#pragma unroll
        for (u32 i = 0; i < Out::kCount; ++i) {
            piece.v[i] = silu(gate.v[part + i]) * up.v[part + i];
        }
        piece.store<StoreUse::kKeep>(out + row * ldo, col + static_cast<i32>(part), n);
    }
}
