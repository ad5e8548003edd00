// C[M, N] = act(alpha * A[M, K] B[K, N] + beta * C_in[M, N] + bias[N]) for few rows of A, on the
// tensor cores of sm_80 and newer. The product is bound by reading B, which is stored along K (NT,
// TT): its rows are the 16-row operand of mma.m16n8k16, and up to eight rows of A the other, so
// that a row of A costs nothing and no weight is converted. bf16 or f16 in, sums in fp32.
//
// Layouts   A lane (g = lane / 4, t = lane % 4) reads 16 bytes of row g of B, and of row g + 8, at
//           K = 8 t: which steps of K sit in which of a fragment's places does not matter as long
//           as A agrees, so both operands come straight from global memory and feed two products.
//           A warp's step is 32 elements of K, 64 bytes of each row.
// Grid      x: tiles of kColumns columns of C (rows of B); y: parts of K; z: batch.
// Roles     All warps do the same. Warps of a block are kWarpsN side by side along N and kWarpsK
//           along K; those along K take turns, kUnroll steps each, so that a block reads K in
//           order.
// Flight    The loads of a turn are issued together: kUnroll x kRowTiles x 32 bytes of B a lane.
//           With kPipe 2 the next turn's are issued before this one's are multiplied.
// Barrier   One after the sums are in shared memory; two more around the counter of a split tile.
// Ragged    Rows past M or N are read again from the last row, and their sums dropped. Steps past K
//           are zeros, never read, since what lies behind a row may be NaN.
//
// Parameters (gemv_mma.kernel.json): ROWS columns of C of a warp, WN WK warps, UNROLL, PIPE,
// RESIDENT the threads of an SM that registers are left for, LOAD the cache policy of B, M_TILES
// groups of eight rows of A, LOAD_BYTES the widest access that the alignment allows. SPLITK and
// REDUCE are run-time arguments.

#include <gk/mma.cuh>

#include "gemv_parts.cuh"

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kRows = GK_ROWS, kWarpsN = GK_WN, kWarpsK = GK_WK;
    static constexpr u32 kUnroll = GK_UNROLL, kPipe = GK_PIPE, kMTiles = GK_M_TILES;
    static constexpr u32 kResident = GK_RESIDENT, kLoadBytes = GK_LOAD_BYTES;
    static constexpr gemv::Cache kCache = static_cast<gemv::Cache>(GK_LOAD);
    static constexpr bool kAAlongK = GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_NN;
    static constexpr bool kBAlongK = GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_TT;
    static constexpr bool kHasBias = GK_BIAS;
    static constexpr Activation kActivation = static_cast<Activation>(GK_ACT);

    static constexpr u32 kThreads = kWarpsN * kWarpsK * kWarpSize;
    static constexpr u32 kBlocks = kResident / kThreads; // of an SM, at least
    static constexpr u32 kColumns = kRows * kWarpsN;     // of C, of a block
    static constexpr u32 kRowTiles = kRows / kMmaM;
    static constexpr u32 kRowsOfA = kMTiles * kMmaN;
    static constexpr u32 kStepK = 2 * kMmaK; // 16 bytes a lane, two products
    static constexpr u32 kTurnK = kUnroll * kStepK;
    using Planes = gemv::Planes<kWarpsK, kRowsOfA, kColumns>;

    static constexpr u32 kOtherRegisters = 28, kRegistersOfSm = 65536, kRegistersOfThread = 255;
    static constexpr u32 kRegisters = kPipe * kUnroll * 4 * (2 * kRowTiles + kMTiles) +
                                      4 * kRowTiles * kMTiles + 4 * kRowTiles + kOtherRegisters;
    static constexpr u32 kSharedMax = 48 * 1024 - 16; // static, and the ticket

    static_assert(kBAlongK, "rows of B are fragments as they are stored");
    static_assert(kRows % kMmaM == 0, "a warp owns whole fragments");
    static_assert(kRegisters <= kRegistersOfThread && kRegisters * kResident <= kRegistersOfSm,
                  "loads in flight are registers");
    static_assert(kResident % kThreads == 0, "whole blocks fill an SM");
    static_assert(sizeof(Planes) <= kSharedMax, "sums of the warps along K");
};

struct Problem {
    i32 m, n, k;
    i64 lda, ldb;
};

// What a lane reads: row g of A, and rows g, g + 8, .. of B, at its own place in a step.
struct Source {
    const Config::Element *a[Config::kMTiles];
    const Config::Element *b[2 * Config::kRowTiles];
    i64 a_step; // elements between neighbours along K in A

    GK_DEVICE Source(const Config::Element *a0, const Config::Element *b0, const Problem &problem,
                     i32 column)
    {
        const i32 lane = static_cast<i32>(lane_index());
        const i32 row = lane / 4, place = lane % 4 * gemv::kEight;
        a_step = Config::kAAlongK ? 1 : problem.lda;
#pragma unroll
        for (u32 i = 0; i < Config::kMTiles; ++i) {
            const i32 m = min_of(row + static_cast<i32>(i * kMmaN), problem.m - 1);
            a[i] = a0 + (Config::kAAlongK ? m * problem.lda + place : m + place * problem.lda);
        }
#pragma unroll
        for (u32 i = 0; i < 2 * Config::kRowTiles; ++i) {
            const i32 n = min_of(column + row + static_cast<i32>(i * kMmaM / 2), problem.n - 1);
            b[i] = b0 + n * problem.ldb + place;
        }
    }
};

// The operands of kSteps steps.
template <u32 kSteps> struct Operands {
    uint4 a[kSteps][Config::kMTiles];
    uint4 b[kSteps][2 * Config::kRowTiles];

    // Whole steps from k on. B comes first: it is what takes long.
    GK_DEVICE void load(const Source &source, i32 k)
    {
#pragma unroll
        for (u32 step = 0; step < kSteps; ++step) {
            const i32 at = k + static_cast<i32>(step * Config::kStepK);
#pragma unroll
            for (u32 i = 0; i < 2 * Config::kRowTiles; ++i) {
                b[step][i] = gemv::load_eight<Config::kLoadBytes, Config::kCache>(source.b[i] + at);
            }
        }
#pragma unroll
        for (u32 step = 0; step < kSteps; ++step) {
            const i32 at = k + static_cast<i32>(step * Config::kStepK);
#pragma unroll
            for (u32 i = 0; i < Config::kMTiles; ++i) {
                a[step][i] = load_a(source, i, at);
            }
        }
    }

    // Steps of which K may end inside the last: a lane has all eight of its elements, some, or
    // none.
    GK_DEVICE void load_ragged(const Source &source, i32 k, i32 k_end)
    {
        static_assert(kSteps == 1, "the rest of K is walked by steps");
        const i32 place = static_cast<i32>(lane_index()) % 4 * gemv::kEight;
        const i32 left = k_end - k - place;
        if (left >= gemv::kEight) {
            load(source, k);
            return;
        }
#pragma unroll
        for (u32 i = 0; i < 2 * Config::kRowTiles; ++i) {
            b[0][i] = gemv::gather_some(source.b[i] + k, 1, left);
        }
#pragma unroll
        for (u32 i = 0; i < Config::kMTiles; ++i) {
            a[0][i] = gemv::gather_some(source.a[i] + k * source.a_step, source.a_step, left);
        }
    }

  private:
    static GK_DEVICE uint4 load_a(const Source &source, u32 i, i32 k)
    {
        if constexpr (Config::kAAlongK) {
            return gemv::load_eight<Config::kLoadBytes, gemv::Cache::kAll>(source.a[i] + k);
        } else {
            return gemv::gather_eight(source.a[i] + k * source.a_step, source.a_step);
        }
    }
};

struct Sums {
    FragmentD d[Config::kRowTiles][Config::kMTiles];

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kRowTiles; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kMTiles; ++j) {
                d[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }

    template <u32 kSteps> GK_DEVICE void add(const Operands<kSteps> &turn)
    {
#pragma unroll
        for (u32 step = 0; step < kSteps; ++step) {
#pragma unroll
            for (u32 i = 0; i < Config::kRowTiles; ++i) {
                const uint4 upper = turn.b[step][2 * i], lower = turn.b[step][2 * i + 1];
#pragma unroll
                for (u32 j = 0; j < Config::kMTiles; ++j) {
                    const uint4 x = turn.a[step][j];
                    mma_m16n8k16(d[i][j], FragmentA{{upper.x, lower.x, upper.y, lower.y}},
                                 FragmentB{{x.x, x.y}}, Config::Element{});
                    mma_m16n8k16(d[i][j], FragmentA{{upper.z, lower.z, upper.w, lower.w}},
                                 FragmentB{{x.z, x.w}}, Config::Element{});
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
        for (u32 i = 0; i < Config::kRowTiles; ++i) {
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

// All of a warp's turns between k and k_end, `stride` elements of K apart.
GK_DEVICE void run_turns(Sums &sums, const Source &source, i32 k, i32 k_end, i32 stride)
{
    using Turn = Operands<Config::kUnroll>;
    constexpr i32 kTurnK = Config::kTurnK, kStepK = Config::kStepK;
    if constexpr (Config::kPipe == 1) {
#pragma unroll 1
        for (; k + kTurnK <= k_end; k += stride) {
            Turn turn;
            turn.load(source, k);
            sums.add(turn);
        }
    } else if (k + kTurnK <= k_end) {
        Turn now, next;
        now.load(source, k);
        k += stride;
#pragma unroll 1
        for (; k + kTurnK <= k_end; k += stride) {
            next.load(source, k);
            sums.add(now);
            now = next;
        }
        sums.add(now);
    }
    // Only the warp whose turn K ends in has anything left.
#pragma unroll 1
    for (; k < k_end; k += kStepK) {
        Operands<1> step;
        step.load_ragged(source, k, k_end);
        sums.add(step);
    }
}

// partial is null for the whole product; else this launch is one of a split of K into gridDim.y
// parts of split_turns turns. arrivals is null where a second launch adds the parts.
extern "C" __global__ void __launch_bounds__(Config::kThreads, Config::kBlocks)
    gk_gemv_mma(const Config::Element *a, const Config::Element *b, const Config::Output *c_in,
                const Config::Output *bias, Config::Output *c, float *partial, u32 *arrivals, i32 m,
                i32 n, i32 k, i64 lda, i64 ldb, i64 ldc, float alpha, float beta, i32 split_turns)
{
    __shared__ Config::Planes planes;
    __shared__ u32 ticket;
    using Epilogue = GemmEpilogue<Config::Output, Config::kHasBias, Config::kActivation>;
    constexpr i32 kTurnK = Config::kTurnK, kWarpsK = Config::kWarpsK;
    const i64 batch = blockIdx.z;
    const Problem problem{m, n, k, lda, ldb};
    const i32 column = static_cast<i32>(blockIdx.x * Config::kColumns);
    const u32 warp = warp_index();
    const u32 warp_k = warp % Config::kWarpsK, warp_n = warp / Config::kWarpsK;
    const i32 split_k = split_turns * kTurnK;
    const i32 k_begin = static_cast<i32>(blockIdx.y) * split_k;
    const i32 k_end = blockIdx.y + 1 == gridDim.y ? k : k_begin + split_k;

    const Source source(a + batch * lda * (Config::kAAlongK ? m : k), b + batch * ldb * n, problem,
                        column + static_cast<i32>(warp_n * Config::kRows));
    Sums sums;
    sums.clear();
    run_turns(sums, source, k_begin + static_cast<i32>(warp_k) * kTurnK, k_end, kWarpsK * kTurnK);
    sums.put_down(planes, warp_k, warp_n * Config::kRows);
    __syncthreads(); // all sums of the block are there

    const i64 pitch = ceil_div(n, 4) * 4;
    const i64 rows = static_cast<i64>(m) * pitch;
    const gemv::Partial part{partial == nullptr ? nullptr : partial + batch * rows, arrivals, pitch,
                             gridDim.z * rows};
    const gemv::Tile<Config::Output, Epilogue> tile{
        m,
        n,
        column,
        ldc,
        c + batch * m * ldc,
        Epilogue{alpha, beta, c_in == nullptr ? nullptr : c_in + batch * m * ldc, bias}};
    u32 *const counter = arrivals == nullptr ? nullptr : arrivals + batch * gridDim.x + blockIdx.x;
    gemv::finish_tile<gemv::WholeBlock<Config::kThreads>, Config::kColumns>(planes, tile, part,
                                                                            counter, ticket);
}
