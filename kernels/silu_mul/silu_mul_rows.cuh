// out = silu(gate) * up over rows. The work is that of <gk/gated.cuh>; here are its parameters.

#include <gk/gated.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = GK_GROUP;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);

    static GK_DEVICE float act(float x)
    {
        return silu(x);
    }
};

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole chunks");

// packed: [rows][2 * cols], the gate's half of a row before that of up; or gate and up apart.
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_silu_mul_rows(const Config::T *packed, const Config::T *gate, const Config::T *up,
                     Config::T *out, i32 rows, i32 cols, i32 chunks, i64 ld, i64 ld_out)
{
    gated_rows<Config>(GK_PACKED ? packed : gate, GK_PACKED ? packed + cols : up, out, rows, cols,
                       chunks, ld, ld_out);
}
