// C[M, N] = act(alpha * A[M, K] B[N, K]^T + beta * C_in[M, N] + bias[N]) for few rows of A, bound
// by reading B: TMA keeps a ring of pieces of B in shared memory full, from the first moment of a
// block to its last, and the tensor cores take them from there. sm_90. bf16 or f16 in, sums in
// fp32. gemv_mma does the same product from global memory: what it has in flight are registers, and
// every block begins with none; here nothing but the ring bounds it, and where there are more tiles
// than blocks that an H200 holds at once, blocks stay and the ring runs on from one tile into the
// next. Rejected: a queue of small tiles, so that quick SMs do more; it was no faster.
//
// Layouts   A piece of B is kRows rows and kStepsK steps of 16 elements along K: boxes of 64
//           elements, whose rows are the 128 bytes of one swizzle span, so that ldmatrix meets no
//           conflicts. The same elements of A travel with it, as boxes of 8 rows a group: those
//           past M are zeros, which the hardware writes without reading anything.
// Tiles     kRows columns of C (rows of B) of a batch entry, numbered along N and then the batch.
// Grid      x: blocks, each of which takes every gridDim.x-th tile; y: parts of K.
// Roles     The last warp copies: one elected lane starts everything. Those before it multiply,
//           kWarpsN side by side along N and kWarpsK along K, which take turns of 32 elements.
// Barriers  full[s]   1 arrival and the bytes of the stage, copies -> products: stage s holds a
//                     piece. The arrival is the copying lane's, before its copies.
//           empty[s]  1 arrival of each multiplying warp, products -> copies: stage s may be
//                     overwritten.
//           block     after the barriers are set up.
//           1         of the multiplying warps: a tile's sums are in shared memory; two more around
//                     the counter of a split tile. Planes of sums are taken in turn, so a warp
//                     that comes to put down the next tile's does not disturb one that still
//                     reads this tile's.
// Ragged    TMA fills what is outside of A and B with zeros and never reads it; columns of C past
//           N are not stored.
//
// Parameters (gemv_tma.kernel.json): ROWS columns of C of a block, WN WK warps, BOXES of 64
// elements of K in a stage, BLOCKS of an SM, RING the KB of shared memory that they have together,
// HINT whether L2 drops B first, M_TILES groups of eight rows of A. SPLITK and REDUCE are run-time
// arguments, and so is SPREAD: neighbouring tiles begin with that many different parts of K.

#include <gk/hopper.cuh>
#include <gk/mma.cuh>
#include <gk/tma.cuh>

#include "gemv_parts.cuh"

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kRows = GK_ROWS, kWarpsN = GK_WN, kWarpsK = GK_WK;
    static constexpr u32 kBoxes = GK_BOXES, kBlocks = GK_BLOCKS;
    static constexpr u32 kRing = GK_RING; // KB
    static constexpr u32 kMTiles = GK_M_TILES;
    static constexpr bool kDropsFirst = GK_HINT == GK_HINT_DROP_FIRST;
    static constexpr bool kHasBias = GK_BIAS;
    static constexpr Activation kActivation = static_cast<Activation>(GK_ACT);

    static constexpr u32 kBoxK = kBankLineBytes / sizeof(Element); // one swizzle span
    static constexpr u32 kStageK = kBoxes * kBoxK;
    static constexpr u32 kTurnK = 2 * kMmaK;         // what one ldmatrix of A brings
    static constexpr u32 kTurns = kStageK / kTurnK;  // of a stage
    static constexpr u32 kBoxTurns = kBoxK / kTurnK; // of a box
    static constexpr u32 kRowsOfA = kMTiles * kMmaN;
    static constexpr u32 kUnits = kRows / kWarpsN / kMmaM; // 16 rows of B, of a warp
    static constexpr u32 kMultiplying = kWarpsN * kWarpsK; // warps
    static constexpr u32 kThreads = (kMultiplying + 1) * kWarpSize;
    using TileB = SwizzledTile<kRows, kBoxK>;
    using TileA = SwizzledTile<kRowsOfA, kBoxK>;
    using Planes = gemv::Planes<kWarpsK, kRowsOfA, kRows>;
    using Multipliers = gemv::PartOfBlock<kMultiplying * kWarpSize, 1>;
    static constexpr u32 kStageBytes = kBoxes * (TileA::kBytes + TileB::kBytes);
    static constexpr u32 kSharedMax = 232448;

    // As many stages as the block's share holds beside the sums, the barriers and the padding.
    static constexpr u32 kStagesMax = 32, kOtherBytes = 2048;
    static constexpr u32 kShare = kRing * 1024 / kBlocks;
    static constexpr u32 kStages = min_of(
        kStagesMax, (kShare - 2 * static_cast<u32>(sizeof(Planes)) - kOtherBytes) / kStageBytes);

    static_assert(sizeof(Element) == 2, "16-bit operands");
    static_assert(kRows % (kWarpsN * kMmaM) == 0, "a warp owns whole fragments");
    static_assert(kRows <= 256 && kRowsOfA <= 256, "a box of TMA");
    static_assert(kTurns % kWarpsK == 0, "the warps along K have as many turns each");
    static_assert(2 * sizeof(Planes) + kOtherBytes + 2 * kStageBytes <= kShare,
                  "a piece is copied while another is multiplied");
    static_assert(kUnits * kMTiles <= 16, "sums are registers");
};

struct Stage {
    u8 b[Config::kBoxes][Config::TileB::kBytes];
    u8 a[Config::kBoxes][Config::TileA::kBytes];
};

struct alignas(1024) Smem {
    Stage stages[Config::kStages];
    Config::Planes planes[2];
    Barrier full[Config::kStages], empty[Config::kStages];
    u32 ticket;
};
static_assert(sizeof(Stage) == Config::kStageBytes, "boxes begin with a swizzle pattern");
static_assert(sizeof(Smem) <= Config::kSharedMax, "shared memory of a block");

using Ring = RingPosition<Config::kStages>;

// Which part of the product is this block's.
struct Work {
    i32 tiles, tiles_n; // of the problem, and of one batch entry
    i32 first, end;     // pieces of K
    i32 spread;

    GK_DEVICE i32 tile() const
    {
        return static_cast<i32>(blockIdx.x);
    } // the first
    GK_DEVICE i32 step() const
    {
        return static_cast<i32>(gridDim.x);
    }
    GK_DEVICE i32 column(i32 tile) const
    {
        return tile % tiles_n * static_cast<i32>(Config::kRows);
    }
    GK_DEVICE i32 batch(i32 tile) const
    {
        return tile / tiles_n;
    }
    // The piece that is copied first; the others follow, round and round.
    GK_DEVICE i32 begin(i32 tile) const
    {
        return first + tile % spread * (end - first) / spread;
    }
};

// ---------------------------------------------------------------------------- copies

// One piece of K of a tile: boxes of B, and of A beside them.
GK_DEVICE void copy_piece(Stage &stage, Barrier &full, const TensorMap &a, const TensorMap &b,
                          i32 piece, i32 column, i32 batch, u64 policy)
{
    full.arrive_expect_bytes(Config::kStageBytes);
#pragma unroll
    for (u32 box = 0; box < Config::kBoxes; ++box) {
        const i32 k =
            piece * static_cast<i32>(Config::kStageK) + static_cast<i32>(box * Config::kBoxK);
        const i32 at_b[3] = {k, column, batch};
        if constexpr (Config::kDropsFirst) {
            tma_load_hinted(ptx::shared_address(stage.b[box]), b, at_b, full, policy);
        } else {
            tma_load(ptx::shared_address(stage.b[box]), b, at_b, full);
        }
    }
#pragma unroll
    for (u32 box = 0; box < Config::kBoxes; ++box) {
        const i32 k =
            piece * static_cast<i32>(Config::kStageK) + static_cast<i32>(box * Config::kBoxK);
        const i32 at_a[3] = {k, 0, batch};
        tma_load(ptx::shared_address(stage.a[box]), a, at_a, full);
    }
}

// One lane: fills stages in order, tile after tile.
GK_DEVICE void copy_role(Smem &smem, const TensorMap &a, const TensorMap &b, const Work &work)
{
    const u64 policy = Config::kDropsFirst ? policy_evict_first() : 0;
    Ring at;
    for (i32 tile = work.tile(); tile < work.tiles; tile += work.step()) {
        const i32 column = work.column(tile), batch = work.batch(tile);
        i32 piece = work.begin(tile);
#pragma unroll 1
        for (i32 count = work.first; count < work.end; ++count) {
            smem.empty[at.stage].wait(at.parity ^ 1);
            copy_piece(smem.stages[at.stage], smem.full[at.stage], a, b, piece, column, batch,
                       policy);
            piece = piece + 1 == work.end ? work.first : piece + 1;
            at.advance();
        }
    }
}

// ---------------------------------------------------------------------------- products

// A turn's elements of eight rows of A, for two products.
struct FragmentsOfTurn {
    FragmentB step[2];

    GK_DEVICE void load(u32 tile_address, u32 row, u32 k)
    {
        const u32 lane = lane_index();
        const u32 offset =
            Config::TileA::offset(row + lane % kMatrixRows, k / kMatrixRows + lane / kMatrixRows);
        ptx::ldmatrix_x4(tile_address + offset, step[0].r[0], step[0].r[1], step[1].r[0],
                         step[1].r[1]);
    }
};

struct Sums {
    FragmentD d[Config::kUnits][Config::kMTiles];

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kUnits; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kMTiles; ++j) {
                d[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }

    // One turn: 32 elements of K at k of a box, all of the warp's rows of B from `row` on.
    GK_DEVICE void add(u32 b_address, u32 a_address, u32 row, u32 k)
    {
        FragmentsOfTurn x[Config::kMTiles];
#pragma unroll
        for (u32 j = 0; j < Config::kMTiles; ++j) {
            x[j].load(a_address, j * kMmaN, k);
        }
#pragma unroll
        for (u32 i = 0; i < Config::kUnits; ++i) {
#pragma unroll
            for (u32 step = 0; step < 2; ++step) {
                FragmentA w;
                load_fragment_a<Config::TileB, true>(w, b_address, row + i * kMmaM,
                                                     k + step * kMmaK);
#pragma unroll
                for (u32 j = 0; j < Config::kMTiles; ++j) {
                    mma_m16n8k16(d[i][j], w, x[j].step[step], Config::Element{});
                }
            }
        }
    }

    // `column` is the warp's first, counted from the block's.
    GK_DEVICE void put_down(Config::Planes &planes, u32 plane, u32 column) const
    {
        const u32 lane = lane_index();
        const u32 col = column + lane / 4, row = lane % 4 * 2;
        constexpr u32 kHalf = kMmaM / 2;
#pragma unroll
        for (u32 i = 0; i < Config::kUnits; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kMTiles; ++j) {
                auto &corner = planes.v[plane];
                const FragmentD &sum = d[i][j];
                corner[j * kMmaN + row][col + i * kMmaM] = sum.v[0];
                corner[j * kMmaN + row + 1][col + i * kMmaM] = sum.v[1];
                corner[j * kMmaN + row][col + i * kMmaM + kHalf] = sum.v[2];
                corner[j * kMmaN + row + 1][col + i * kMmaM + kHalf] = sum.v[3];
            }
        }
    }
};

// One warp: its turns of every piece of a tile, its rows of B. Which part of K a stage holds it
// need not know.
GK_DEVICE void multiply_tile(Sums &sums, Smem &smem, Ring &at, i32 pieces, u32 warp_k, u32 row)
{
    sums.clear();
#pragma unroll 1
    for (i32 count = 0; count < pieces; ++count) {
        Stage &stage = smem.stages[at.stage];
        smem.full[at.stage].wait(at.parity);
        __syncwarp(); // lanes leave the wait one by one, and ldmatrix takes whole warps
#pragma unroll
        for (u32 i = 0; i < Config::kTurns / Config::kWarpsK; ++i) {
            const u32 turn = i * Config::kWarpsK + warp_k;
            const u32 box = turn / Config::kBoxTurns, k = turn % Config::kBoxTurns * Config::kTurnK;
            sums.add(ptx::shared_address(stage.b[box]), ptx::shared_address(stage.a[box]), row, k);
        }
        __syncwarp(); // all lanes have read the stage
        if (lane_index() == 0) {
            smem.empty[at.stage].arrive();
        }
        at.advance();
    }
}

// Where results go: the problem's C, or partial sums of a split of K.
struct Target {
    const Config::Output *c_in, *bias;
    Config::Output *c;
    float *partial;
    u32 *arrivals;
    i32 m, n;
    i64 ldc;
    float alpha, beta;

    GK_DEVICE void finish(Smem &smem, const Config::Planes &planes, const Work &work,
                          i32 index) const
    {
        using Epilogue = GemmEpilogue<Config::Output, Config::kHasBias, Config::kActivation>;
        const i64 batch = work.batch(index), pitch = ceil_div(n, 4) * 4;
        const i64 rows = static_cast<i64>(m) * pitch;
        const i64 batches = work.tiles / work.tiles_n;
        const gemv::Partial part{partial == nullptr ? nullptr : partial + batch * rows, arrivals,
                                 pitch, batches * rows};
        const gemv::Tile<Config::Output, Epilogue> tile{
            m,
            n,
            work.column(index),
            ldc,
            c + batch * m * ldc,
            Epilogue{alpha, beta, c_in == nullptr ? nullptr : c_in + batch * m * ldc, bias}};
        gemv::finish_tile<Config::Multipliers, Config::kRows>(
            planes, tile, part, arrivals == nullptr ? nullptr : arrivals + index, smem.ticket);
    }
};

GK_DEVICE void multiply_role(Smem &smem, const Work &work, const Target &target, u32 warp)
{
    const u32 warp_k = warp % Config::kWarpsK, warp_n = warp / Config::kWarpsK;
    const u32 row = warp_n * Config::kUnits * kMmaM;
    Sums sums;
    Ring at;
    u32 turn = 0;
    for (i32 tile = work.tile(); tile < work.tiles; tile += work.step()) {
        Config::Planes &planes = smem.planes[turn];
        multiply_tile(sums, smem, at, work.end - work.first, warp_k, row);
        sums.put_down(planes, warp_k, row);
        Config::Multipliers::meet(); // all sums of the tile are there
        target.finish(smem, planes, work, tile);
        turn ^= 1;
    }
}

// ---------------------------------------------------------------------------- kernel

GK_DEVICE void set_up_barriers(Smem &smem)
{
    if (threadIdx.x == 0) {
#pragma unroll
        for (u32 stage = 0; stage < Config::kStages; ++stage) {
            smem.full[stage].init(1);
            smem.empty[stage].init(Config::kMultiplying);
        }
        fence_barrier_init();
    }
    __syncthreads();
}

// Boxes of the maps, innermost first: a (64, 8 M_TILES, 1), b (64, ROWS, 1), swizzled by 128 bytes.
// partial is null for the whole product; else this launch is one of a split of K into gridDim.y
// parts of split_stages stages. arrivals is null where a second launch adds the parts.
extern "C" __global__ void __launch_bounds__(Config::kThreads, Config::kBlocks)
    gk_gemv_tma(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
                const Config::Output *c_in, const Config::Output *bias, Config::Output *c,
                float *partial, u32 *arrivals, i32 m, i32 n, i32 k, i32 batch, i64 ldc, float alpha,
                float beta, i32 split_stages, i32 spread)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    GK_TRAP_IF(ptx::shared_address(&smem) % alignof(Smem) != 0);
    const i32 tiles_n = ceil_div(n, static_cast<i32>(Config::kRows));
    const i32 first = static_cast<i32>(blockIdx.y) * split_stages;
    const i32 end = min_of(first + split_stages, ceil_div(k, static_cast<i32>(Config::kStageK)));
    const Work work{tiles_n * batch, tiles_n, first, end, spread};

    set_up_barriers(smem);
    const u32 warp = warp_index();
    if (warp == Config::kMultiplying) {
        if (elect_one()) {
            copy_role(smem, a_map, b_map, work);
        }
    } else {
        const Target target{c_in, bias, c, partial, arrivals, m, n, ldc, alpha, beta};
        multiply_role(smem, work, target, warp);
    }
}
