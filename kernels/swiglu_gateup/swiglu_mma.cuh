// out[M, N] = silu(X Wg^T) * (X Wu^T) on the tensor cores of sm_80 and newer: the first half of a
// gated layer in one pass. X is M rows of K, Wg and Wu are N rows of K each, one behind the other
// in one matrix or apart; sums in fp32, out rounded once. The gate's sums and those of up lie in
// the same lanes, so that silu and the product touch registers alone.
//
// Grid      x: tiles of out, in groups of `group` tile rows, so that blocks that run at the same
//           time share operands in L2; y: splits of K.
// Roles, stages, barriers, ragged edges: <gk/product.cuh>.
// Epilogue  DIRECT: each lane finishes its own sums and stores pairs. STAGED: results pass through
//           the shared memory of the ring, and leave as whole pieces of rows. With partial sums
//           asked for (split K) raw sums of both products go to the workspace;
//           swiglu_splitk_reduce.cuh finishes them.
//
// Parameters (swiglu_mma.kernel.json has their values and rules): BM BN BK tile, BN of each of the
// two products; WM, WN warps along M and N; STAGES; LOAD_BYTES and STORE_BYTES the widest access
// that the problem's alignment allows; READ_X, READ_W how caches treat the operands. GROUP and
// SPLITK are run-time arguments: one binary serves all their values.

#include <gk/activation.cuh>
#include <gk/product.cuh>

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kTileM = GK_BM, kTileN = GK_BN, kTileK = GK_BK;
    static constexpr u32 kMatrices = 2; // gate, then up
    static constexpr u32 kWarpsM = GK_WM, kWarpsN = GK_WN;
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kLoadBytes = GK_LOAD_BYTES, kStoreBytes = GK_STORE_BYTES;
    static constexpr bool kStaged = GK_EPILOGUE == GK_EPILOGUE_STAGED;
    static constexpr CacheUse kReadA = static_cast<CacheUse>(GK_READ_X);
    static constexpr CacheUse kReadB = static_cast<CacheUse>(GK_READ_W);
    static constexpr u32 kOtherRegisters = 48;

    // A row of staged results is 32 bytes longer than the tile's, so that the 8-byte stores of four
    // rows fall into different banks.
    static constexpr u32 kStagingPitch = kTileN + 8; // floats
    static constexpr u32 kStagingFloats = kStaged ? kTileM * kStagingPitch : 1;
};

using Shape = ProductShape<Config>;
using Sums = ProductSums<Config>;

struct alignas(128) Smem {
    union {
        ProductStage<Config> stages[Config::kStages];
        // Used after the last product, when no copy is in flight and no warp reads a stage.
        float staging[Config::kStagingFloats];
    };
};
static_assert(sizeof(Smem) <= Shape::kSharedMax, "shared memory of a block");

struct Problem {
    i32 m, n, k;
    i64 ldo; // elements between rows of out
};

// The part of the products that a block computes: the tile at (row, col), K from k_begin to k_end.
struct Work {
    i32 row, col;
    i32 k_begin, k_end;
};

// Tiles are numbered down groups of `group` tile rows, column by column inside a group; the last
// group has as many rows as are left.
GK_DEVICE Work find_work(const Problem &problem, i32 group, i32 split_tiles)
{
    constexpr i32 kTileM = Config::kTileM, kTileN = Config::kTileN, kTileK = Config::kTileK;
    const i32 tiles_m = ceil_div(problem.m, kTileM), tiles_n = ceil_div(problem.n, kTileN);
    const i32 index = static_cast<i32>(blockIdx.x), split = static_cast<i32>(blockIdx.y);
    const i32 first_row = index / (group * tiles_n) * group;
    const i32 rows = min_of(group, tiles_m - first_row);
    const i32 inside = index - first_row * tiles_n;
    Work work;
    work.row = (first_row + inside % rows) * kTileM;
    work.col = inside / rows * kTileN;
    work.k_begin = split * split_tiles * kTileK;
    // The space leaves no split empty, and the last one ends with K.
    work.k_end =
        split + 1 == static_cast<i32>(gridDim.y) ? problem.k : work.k_begin + split_tiles * kTileK;
    return work;
}

// Calls visit(row, col, m, i, j, half) for each pair of neighbours that this lane holds of each
// product; row and col are those of the first of them, counted from the warp's rectangle.
template <typename Visit> GK_DEVICE void for_each_pair(Visit visit)
{
#pragma unroll
    for (u32 j = 0; j < Shape::kFragmentsN; ++j) {
#pragma unroll
        for (u32 i = 0; i < Shape::kFragmentsM; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                visit(fragment_row(i) + static_cast<i32>(half) * kFragmentHalf, fragment_col(j), i,
                      j, half);
            }
        }
    }
}

GK_DEVICE float gated(const Sums &sums, u32 i, u32 j, u32 place)
{
    return silu(sums.d[0][i][j].v[place]) * sums.d[1][i][j].v[place];
}

// Raw sums to the workspace: M rows of `pitch` floats of each product, those of the gate first.
GK_DEVICE void store_partial(const Sums &sums, float *partial, i64 pitch, const Problem &problem,
                             i32 row0, i32 col0)
{
    for_each_pair([&](i32 row, i32 col, u32 i, u32 j, u32 half) {
        row += row0;
        col += col0;
        if (row >= problem.m || col >= problem.n) {
            return;
        }
#pragma unroll
        for (u32 m = 0; m < Config::kMatrices; ++m) {
            const float *v = sums.d[m][i][j].v + 2 * half;
            // The pitch is a multiple of four floats, and col is even: both belong to the row.
            ptx::st_global_v2(partial + (m * static_cast<i64>(problem.m) + row) * pitch + col,
                              __float_as_uint(v[0]), __float_as_uint(v[1]));
        }
    });
}

// No barrier, no shared memory, but a warp writes no more than 16 bytes of a row at once where out
// has 16-bit elements.
GK_DEVICE void store_direct(const Sums &sums, const Problem &problem, Config::Output *out, i32 row0,
                            i32 col0)
{
    using Pair = Piece<Config::Output,
                       min_of<u32>(2 * sizeof(Config::Output),
                                   max_of<u32>(Config::kStoreBytes, sizeof(Config::Output)))>;
    for_each_pair([&](i32 row, i32 col, u32 i, u32 j, u32 half) {
        row += row0;
        col += col0;
        if (row >= problem.m) {
            return;
        }
#pragma unroll
        for (u32 part = 0; part < 2; part += Pair::kCount) {
            Pair pair;
#pragma unroll
            for (u32 e = 0; e < Pair::kCount; ++e) {
                pair.v[e] = gated(sums, i, j, 2 * half + part + e);
            }
            pair.template store<StoreUse::kKeep>(out + row * problem.ldo,
                                                 col + static_cast<i32>(part), problem.n);
        }
    });
}

// The block's whole tile passes through shared memory: warps put their results down, then all
// threads walk the rows, one piece a thread, neighbours side by side.
GK_DEVICE void store_staged(const Sums &sums, const Problem &problem, Smem &smem,
                            Config::Output *out, const Work &work, u32 warp_row, u32 warp_col)
{
    using Out = Piece<Config::Output, Config::kStoreBytes>;
    constexpr u32 kRowPieces = Config::kTileN / Out::kCount;
    float *corner = smem.staging + warp_row * Config::kStagingPitch + warp_col;

    // Every warp has read its last tile: the stages are free. No copy is in flight either, since
    // the groups that the ring has not waited for are the empty ones past the end.
    __syncthreads();
    for_each_pair([&](i32 row, i32 col, u32 i, u32 j, u32 half) {
        const u32 at = ptx::shared_address(corner + static_cast<u32>(row) * Config::kStagingPitch +
                                           static_cast<u32>(col));
        ptx::st_shared_v2(at, __float_as_uint(gated(sums, i, j, 2 * half)),
                          __float_as_uint(gated(sums, i, j, 2 * half + 1)));
    });
    __syncthreads(); // the tile is whole
#pragma unroll 1
    for (u32 index = threadIdx.x; index < Config::kTileM * kRowPieces; index += Shape::kThreads) {
        const u32 tile_row = index / kRowPieces, tile_col = index % kRowPieces * Out::kCount;
        const i32 row = work.row + static_cast<i32>(tile_row);
        if (row < problem.m) {
            const float *from = smem.staging + tile_row * Config::kStagingPitch + tile_col;
            Out piece;
#pragma unroll
            for (u32 e = 0; e < Out::kCount; ++e) {
                piece.v[e] = from[e];
            }
            piece.template store<StoreUse::kKeep>(out + row * problem.ldo,
                                                  work.col + static_cast<i32>(tile_col), problem.n);
        }
    }
}

// gate, up: the two weight matrices; packed: one of 2 N rows, the gate's first. partial is null for
// whole products; else this launch is one of a split of K into gridDim.y parts of split_tiles
// tiles, and out is not touched.
extern "C" __global__ void __launch_bounds__(Shape::kThreads)
    gk_swiglu_mma(const Config::Element *x, const Config::Element *packed,
                  const Config::Element *gate, const Config::Element *up, Config::Output *out,
                  float *partial, i32 m, i32 n, i32 k, i64 ldx, i64 ldw, i64 ldo, i32 group,
                  i32 split_tiles)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    const Problem problem{m, n, k, ldo};
    const Work work = find_work(problem, group, split_tiles);
    const Config::Element *w_gate = GK_PACKED ? packed : gate;
    const Config::Element *w_up = GK_PACKED ? packed + n * ldw : up;
    const i64 w_begin = work.col * ldw + work.k_begin;
    const ProductWork part{m - work.row, min_of(n - work.col, static_cast<i32>(Config::kTileN)),
                           work.k_end - work.k_begin};
    const u32 warp = warp_index();
    const u32 warp_row = warp % Config::kWarpsM * Shape::kWarpTileM;
    const u32 warp_col = warp / Config::kWarpsM * Shape::kWarpTileN;

    ProductFeed<Config> feed(x + work.row * ldx + work.k_begin, ldx, w_gate + w_begin,
                             w_up + w_begin, ldw, part);
    ProductRing<Config> ring(smem.stages, feed);
    Sums sums;
    sums.clear();
    ring.begin();
    ring.run(sums, ceil_div(part.depth, static_cast<i32>(Config::kTileK)), warp_row, warp_col);

    const i32 row0 = work.row + static_cast<i32>(warp_row);
    const i32 col0 = work.col + static_cast<i32>(warp_col);
    if (partial != nullptr) {
        const i64 pitch = ceil_div(n, 4) * 4;
        const i64 slice = static_cast<i64>(Config::kMatrices) * m * pitch;
        store_partial(sums, partial + blockIdx.y * slice, pitch, problem, row0, col0);
    } else if constexpr (Config::kStaged) {
        store_staged(sums, problem, smem, out, work, warp_row, warp_col);
    } else {
        store_direct(sums, problem, out, row0, col0);
    }
}
