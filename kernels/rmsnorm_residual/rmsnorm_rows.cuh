// y = h / sqrt(mean(h^2) + eps) * weight, h = x + residual: one pass over memory.
//
// A row belongs to GROUP neighbouring threads; a block has THREADS / GROUP rows at a time and takes
// one such set, or, with a grid smaller than the matrix, every gridDim.x-th.
//
// Steps of a row
//   1 each thread has its PIECES pieces of x and residual on their way before it uses the first:
//     piece p of thread t is number p * GROUP + t, so that neighbours read neighbours. h is their
//     sum, rounded to the element type, as it is written to residual_out.
//   2 squares are summed per place in a piece, then over the thread, then over the group.
//   3 h times the reciprocal root times weight, and out.
// ROW = held: the pieces of h, which are the whole row, stay in registers between 1 and 3. ROW =
// again: the row is too long for that. 1 walks over it, GROUP * PIECES pieces at a time, and 3
// reads h again: what this very thread wrote to residual_out, or x where nothing was added. Both
// come out of L2 for rows that fit there.
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
    static constexpr bool kHeld = GK_ROW == GK_ROW_HELD;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr u32 kRows = kThreads / kGroup; // at a time
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    // Of the weight, which every row reads, and of the first reading of a row that is read again.
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
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
constexpr u32 kWeightParts = kCount / kWeightCount; // accesses to it, of a piece of h

struct Row {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    i32 cols;
};

struct Policies {
    u64 load, reuse;
};

// How x is read for the first time: where registers do not hold it, it is read again.
constexpr CacheUse kFirst = Config::kHeld || Config::kResidual ? Config::kLoad : Config::kReuse;

// h of a thread's pieces from `first` on; writes it out where a residual was added.
GK_DEVICE void bring(RowPiece (&h)[Config::kPieces], const Row &row, i32 first,
                     const Policies &policies)
{
    Fetched<RowPiece, Config::kPieces> x, r;
    const u64 policy = kFirst == Config::kLoad ? policies.load : policies.reuse;
    x.template fetch<kFirst>(row.x, first, kStride, row.cols, policy);
    if constexpr (Config::kResidual) {
        r.template fetch<Config::kLoad>(row.residual, first, kStride, row.cols, policies.load);
    }
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        const i32 at = first + static_cast<i32>(p) * kStride;
        h[p].open<kFirst>(x.raw[p], row.x, at, row.cols, policy);
        if constexpr (Config::kResidual) {
            RowPiece other;
            other.open<Config::kLoad>(r.raw[p], row.residual, at, row.cols, policies.load);
#pragma unroll
            for (u32 i = 0; i < kCount; ++i) {
                h[p].v[i] += other.v[i];
            }
            h[p].round();
            h[p].store<StoreUse::kKeep>(row.residual_out, at, row.cols); // the next layer reads it
        }
    }
}

// h of the same pieces once more, for rows that registers do not hold.
GK_DEVICE void bring_again(RowPiece (&h)[Config::kPieces], const Row &row, i32 first,
                           const Policies &policies)
{
    const Config::T *from = Config::kResidual ? row.residual_out : row.x;
    Fetched<RowPiece, Config::kPieces> fetched;
    fetched.template fetch<Config::kLoad>(from, first, kStride, row.cols, policies.load);
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        h[p].open<Config::kLoad>(fetched.raw[p], from, first + static_cast<i32>(p) * kStride,
                                 row.cols, policies.load);
    }
}

// The weight of a thread's pieces, on its way while the row is summed.
struct Weights {
    WeightPiece::Raw raw[Config::kPieces][kWeightParts];

    GK_DEVICE void fetch(const Config::Weight *weight, const Row &row, i32 first,
                         const Policies &policies)
    {
        if constexpr (Config::kWeighted) {
#pragma unroll
            for (u32 p = 0; p < Config::kPieces; ++p) {
#pragma unroll
                for (u32 part = 0; part < kWeightParts; ++part) {
                    const i32 at = first + static_cast<i32>(p) * kStride +
                                   static_cast<i32>(part * kWeightCount);
                    raw[p][part] =
                        WeightPiece::fetch<Config::kReuse>(weight, at, row.cols, policies.reuse);
                }
            }
        }
    }
};

GK_DEVICE void finish(const Row &row, RowPiece h, i32 at, float scale,
                      const WeightPiece::Raw (&raw)[kWeightParts], const Config::Weight *weight,
                      const Policies &policies)
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
        for (u32 part = 0; part < kWeightParts; ++part) {
            const u32 begin = part * kWeightCount;
            WeightPiece w;
            w.open<Config::kReuse>(raw[part], weight, at + static_cast<i32>(begin), row.cols,
                                   policies.reuse);
#pragma unroll
            for (u32 i = 0; i < kWeightCount; ++i) {
                h.v[begin + i] *= Config::kOnePlus ? 1.0f + w.v[i] : w.v[i];
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
GK_DEVICE void norm_row(const Row &row, i32 first, const Config::Weight *weight,
                        const Policies &policies, float (&scratch)[kBlockWarpsMax], float mean,
                        float eps)
{
    constexpr i32 kStep = Config::kPieces * kStride; // columns that a group has at a time
    Squares squares;
    Weights weights;
    RowPiece h[Config::kPieces];
    const i32 end = Config::kHeld ? first + 1 : row.cols; // of the walk: once where all is held
    for (i32 at = first; at < end; at += kStep) {
        bring(h, row, at, policies);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            squares.add(h[p]);
        }
    }
    if constexpr (Config::kHeld) {
        weights.fetch(weight, row, first, policies);
    }
    const float scale = scale_of(squares, scratch, mean, eps);
    for (i32 at = first; at < end; at += kStep) {
        if constexpr (!Config::kHeld) {
            bring_again(h, row, at, policies);
            weights.fetch(weight, row, at, policies);
        }
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            finish(row, h[p], at + static_cast<i32>(p) * kStride, scale, weights.raw[p], weight,
                   policies);
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
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
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
        norm_row(row, first, weight, policies, scratch[turn], mean, eps);
        turn ^= 1u;
    }
}
