// What the kernels of rmsnorm_residual share: how h of a thread's pieces comes to be, is read
// again, summed, and becomes y. Who includes this says how many threads a row has (RMSNORM_GROUP),
// whether their registers hold it (RMSNORM_HELD), and how caches treat y (RMSNORM_STORE).
#pragma once

#include <gk/pairs.cuh>
#include <gk/rows.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    using Weight = GK_DTYPE_WEIGHT;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = RMSNORM_GROUP; // threads a row, or a part of one
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr bool kHeld = RMSNORM_HELD; // registers hold the row
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    // Of the weight, which every row reads, and of the first reading of a row that is read again.
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = RMSNORM_STORE;
    static constexpr bool kResidual = GK_RESIDUAL;
    static constexpr bool kWeighted = GK_WEIGHT != GK_WEIGHT_NONE;
    static constexpr bool kOnePlus = GK_WEIGHT == GK_WEIGHT_ONE_PLUS;
    static constexpr bool kCastFirst = GK_CAST == GK_CAST_BEFORE;
};

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

// Of the weight.
using WeightPiece = PieceBeside<Config::Weight, kCount, Config::kPieceBytes>;
constexpr u32 kWeightCount = WeightPiece::kCount;
constexpr u32 kWeightParts = kCount / kWeightCount; // accesses to it, of a piece of h

// Of a row that is not there: no columns.
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

// h of one piece, the sum of what came of x and of residual, rounded; writes it out too, for the
// next layer, which reads it. kWhole: the piece is inside the row, and 16-bit elements are added as
// they came, two at a time. Where that is not known, both ways would cost registers.
template <bool kWhole>
GK_DEVICE void add_residual(RowPiece &h, const RowPiece::Raw &x, const RowPiece::Raw &residual,
                            const Row &row, i32 at, u64 policy)
{
    if constexpr (kWhole && sizeof(Config::T) == 2 && kCount > 1) {
        RowPiece::Raw sum;
        add_pairs<Config::T>(sum.w, x.w, residual.w);
        ptx::store<StoreUse::kKeep>(row.residual_out + at, sum.w);
        h.open<Config::kLoad>(sum, row.residual_out, at, row.cols, policy);
    } else {
        RowPiece other;
        h.open<Config::kLoad>(x, row.x, at, row.cols, policy);
        other.open<Config::kLoad>(residual, row.residual, at, row.cols, policy);
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            h.v[i] += other.v[i];
        }
        h.round();
        h.store<StoreUse::kKeep>(row.residual_out, at, row.cols);
    }
}

// h of a thread's pieces from `first` on; writes it out where a residual was added. kWhole: all of
// them are inside the row.
template <bool kWhole>
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
        if constexpr (Config::kResidual) {
            add_residual<kWhole>(h[p], x.raw[p], r.raw[p], row, at, policies.load);
        } else {
            h[p].open<kFirst>(x.raw[p], row.x, at, row.cols, policy);
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

// The weight of a thread's pieces.
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
