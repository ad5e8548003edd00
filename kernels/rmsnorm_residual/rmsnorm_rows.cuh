// y = h / sqrt(mean(h^2) + eps) * weight, h = x + residual: one pass over memory.
//
// A row belongs to GROUP neighbouring threads; a block has THREADS / GROUP rows at a time and takes
// one such set, or, with a grid smaller than the matrix, every gridDim.x-th.
//
// Steps of a row
//   1 each thread loads its pieces of x and residual: piece p of thread t is number p * GROUP + t
//   of
//     the row, so that neighbours read neighbours. h is their sum, rounded to the element type,
//     as it is written to residual_out.
//   2 squares are summed per place in a piece, then over the thread, then over the group.
//   3 h times the reciprocal root times weight, and out.
// PIECES > 0: the pieces of h stay in registers between 1 and 3. PIECES = 0: the row is too long
// for that, and 3 reads h again: what this very thread wrote to residual_out, or x where nothing
// was added. Both come out of L2 for rows that fit there.
//
// Shared memory holds one float a warp, in two sets that rows use in turn.

#include <gk/rows.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    using Weight = GK_DTYPE_WEIGHT;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = GK_GROUP;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr u32 kRows = kThreads / kGroup; // at a time
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = CacheUse::kAll; // of the weight, which every row reads
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
    static constexpr bool kResidual = GK_RESIDUAL;
    static constexpr bool kWeighted = GK_WEIGHT != GK_WEIGHT_NONE;
    static constexpr bool kOnePlus = GK_WEIGHT == GK_WEIGHT_ONE_PLUS;
    static constexpr bool kCastFirst = GK_CAST == GK_CAST_BEFORE;
};

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

// Of the weight.
using WeightPiece = PieceBeside<Config::Weight, kCount, Config::kPieceBytes>;
constexpr u32 kWeightCount = WeightPiece::kCount;

struct Row {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    i32 cols;
};

// h of one piece; writes it out where a residual was added.
GK_DEVICE RowPiece bring(const Row &row, i32 at, u64 policy)
{
    RowPiece h;
    h.load<Config::kLoad>(row.x, at, row.cols, policy);
    if constexpr (Config::kResidual) {
        RowPiece r;
        r.load<Config::kLoad>(row.residual, at, row.cols, policy);
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            h.v[i] += r.v[i];
        }
        h.round();
        h.store<StoreUse::kKeep>(row.residual_out, at, row.cols); // the next layer reads it
    }
    return h;
}

// h of one piece once more, for rows that registers do not hold.
GK_DEVICE RowPiece bring_again(const Row &row, i32 at, u64 policy)
{
    RowPiece h;
    h.load<Config::kLoad>(Config::kResidual ? row.residual_out : row.x, at, row.cols, policy);
    return h;
}

GK_DEVICE void finish(const Row &row, RowPiece h, i32 at, float scale, const Config::Weight *weight)
{
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        h.v[i] *= scale;
    }
    if constexpr (Config::kWeighted) {
        if constexpr (Config::kCastFirst) {
            h.round();
        }
#pragma unroll
        for (u32 part = 0; part < kCount; part += kWeightCount) {
            WeightPiece w;
            w.load<Config::kReuse>(weight, at + static_cast<i32>(part), row.cols, 0);
#pragma unroll
            for (u32 i = 0; i < kWeightCount; ++i) {
                h.v[part + i] *= Config::kOnePlus ? 1.0f + w.v[i] : w.v[i];
            }
        }
    }
    h.store<Config::kStore>(row.y, at, row.cols);
}

struct Squares {
    float sum[kCount] = {};

    GK_DEVICE void add(const RowPiece &h)
    {
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            sum[i] += h.v[i] * h.v[i];
        }
    }

    GK_DEVICE float total() const
    {
        float all = 0.0f;
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            all += sum[i];
        }
        return all;
    }
};

// The reciprocal root of the row's mean square. The whole block calls it, in step.
GK_DEVICE float scale_of(const Squares &squares, float (&scratch)[kBlockWarpsMax], float mean,
                         float eps)
{
    const float sum =
        group_reduce<SumOp, Config::kGroup, Config::kThreads>(squares.total(), scratch);
    return rsqrtf(sum * mean + eps);
}

// One row of each group. `first`: of the thread's columns; `mean`: 1 / cols of the matrix.
template <u32 kPieces>
GK_DEVICE void norm_row(const Row &row, i32 first, const Config::Weight *weight, u64 policy,
                        float (&scratch)[kBlockWarpsMax], float mean, float eps)
{
    Squares squares;
    if constexpr (kPieces > 0) {
        RowPiece h[kPieces];
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) { // all loads are on their way before one is used
            h[p] = bring(row, first + static_cast<i32>(p) * kStride, policy);
        }
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            squares.add(h[p]);
        }
        const float scale = scale_of(squares, scratch, mean, eps);
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            finish(row, h[p], first + static_cast<i32>(p) * kStride, scale, weight);
        }
    } else {
        for (i32 at = first; at < row.cols; at += kStride) {
            squares.add(bring(row, at, policy));
        }
        const float scale = scale_of(squares, scratch, mean, eps);
        for (i32 at = first; at < row.cols; at += kStride) {
            finish(row, bring_again(row, at, policy), at, scale, weight);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_rmsnorm_rows(const Config::T *x, const Config::T *residual, const Config::Weight *weight,
                    Config::T *residual_out, Config::T *y, i32 rows, i32 cols, i64 ld, float eps)
{
    __shared__ float scratch[2][kBlockWarpsMax];
    const i32 group = threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    const u64 policy = ptx::cache_policy<Config::kLoad>();
    const float mean = 1.0f / static_cast<float>(cols);
    u32 turn = 0;

    // All threads of a block make the same turns: a reduction has a barrier in it.
    for (i64 set = static_cast<i64>(blockIdx.x) * Config::kRows; set < rows;
         set += static_cast<i64>(gridDim.x) * Config::kRows) {
        const bool inside = set + group < rows;
        const i64 begin = inside ? (set + group) * ld : 0;
        const Row row{x + begin, Config::kResidual ? residual + begin : nullptr,
                      Config::kResidual ? residual_out + begin : nullptr, y + begin,
                      inside ? cols : 0}; // a row that is not there has no columns
        norm_row<Config::kPieces>(row, first, weight, policy, scratch[turn], mean, eps);
        turn ^= 1u;
    }
}
