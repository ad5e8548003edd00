// y = (h - mean) / sqrt(variance + eps) * weight + bias, h = residual + dropout(x): one pass over
// memory where registers hold the row.
//
// A row belongs to GROUP neighbouring threads; a block has THREADS / GROUP rows at a time and takes
// one such set, or, with a grid smaller than the matrix, every gridDim.x-th. Piece p of thread t is
// number p * GROUP + t of the row, so that neighbours read neighbours.
//
// Which elements are dropped depends on their index in the matrix and the seed alone
// (<gk/philox.cuh>), so neither on the config nor on strides. h stays in fp32: the norm is that of
// the numbers before residual_out's rounding.
//
// A thread has its PIECES pieces of x and residual on their way before it uses the first.
// ROW = held: they are the whole row, and stay in registers; the variance is that of differences
// from the mean. ROW = again: the row is too long for that. A first pass keeps mean and squared
// differences of what each thread has seen, merged piece by piece (Chan, Golub, LeVeque 1983); a
// second one makes h again.
//
// Shared memory holds one float a warp for each of the two reductions of a row: the barrier in one
// orders the reads of the other.

#include <gk/philox.cuh>
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
    // Of weight and bias, which every row reads, and of the first reading of a row that is read
    // again.
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
    static constexpr bool kResidual = GK_RESIDUAL;
    static constexpr bool kDropout = GK_DROPOUT;
    static constexpr bool kMask = GK_MASK;
    static constexpr bool kAffine = GK_AFFINE;
};

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

// Of weight and bias.
using WeightPiece = PieceBeside<Config::Weight, kCount, Config::kPieceBytes>;
constexpr u32 kWeightCount = WeightPiece::kCount;
constexpr u32 kWeightParts = kCount / kWeightCount; // accesses to it, of a piece of h

struct Dropout {
    u64 seed;
    u64 threshold; // a word below it drops its element: p * 2^32
    float scale;   // of what is kept
};

struct Row {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    u8 *mask;
    u64 first_element; // index of column 0 in the matrix without padding
    i32 cols;          // 0: there is no such row
};

struct Scratch {
    float sums[kBlockWarpsMax], squares[kBlockWarpsMax];
};

// 1 where an element is kept. Rows of the mask have the stride of the others, so that a piece of it
// is aligned to its size.
GK_DEVICE void write_mask(const Row &row, i32 at, const bool (&kept)[kCount])
{
    if (kCount % 4 == 0 && at + static_cast<i32>(kCount) <= row.cols) {
#pragma unroll
        for (u32 i = 0; i < kCount; i += 4) {
            const u32 word[1] = {kept[i] | static_cast<u32>(kept[(i + 1) % kCount]) << 8 |
                                 static_cast<u32>(kept[(i + 2) % kCount]) << 16 |
                                 static_cast<u32>(kept[(i + 3) % kCount]) << 24};
            ptx::store<Config::kStore>(row.mask + at + i, word);
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        if (at + static_cast<i32>(i) < row.cols) {
            row.mask[at + i] = kept[i];
        }
    }
}

struct Policies {
    u64 load, reuse;
};

// h of one piece from what its loads brought. `writes`: residual_out and mask too.
template <CacheUse use, bool writes>
GK_DEVICE RowPiece make(const RowPiece::Raw &raw_x, const RowPiece::Raw &raw_r, const Row &row,
                        i32 at, u64 policy, const Dropout &dropout)
{
    RowPiece h, r;
    h.open<use>(raw_x, row.x, at, row.cols, policy);
    if constexpr (Config::kResidual) {
        r.open<use>(raw_r, row.residual, at, row.cols, policy);
    }
    if constexpr (Config::kDropout) {
        u32 words[kCount];
        bool kept[kCount];
        element_words(words, row.first_element + at, dropout.seed);
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            kept[i] = words[i] >= dropout.threshold;
            h.v[i] = kept[i] ? h.v[i] * dropout.scale : 0.0f;
        }
        if constexpr (writes && Config::kMask) {
            write_mask(row, at, kept);
        }
    }
    if constexpr (Config::kResidual) {
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            h.v[i] += r.v[i];
        }
        if constexpr (writes) {
            h.store<StoreUse::kKeep>(row.residual_out, at, row.cols); // the next layer reads it
        }
    }
    return h;
}

// h of a thread's pieces from `first` on.
template <CacheUse use, bool writes>
GK_DEVICE void bring(RowPiece (&h)[Config::kPieces], const Row &row, i32 first, u64 policy,
                     const Dropout &dropout)
{
    Fetched<RowPiece, Config::kPieces> x, r;
    x.template fetch<use>(row.x, first, kStride, row.cols, policy);
    if constexpr (Config::kResidual) {
        r.template fetch<use>(row.residual, first, kStride, row.cols, policy);
    }
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        h[p] = make<use, writes>(x.raw[p], r.raw[p], row, first + static_cast<i32>(p) * kStride,
                                 policy, dropout);
    }
}

// Weight and bias of all columns, null where there are none.
struct Affine {
    const Config::Weight *weight, *bias;
};

// Those of a thread's pieces, on their way while the row is summed.
struct Weights {
    WeightPiece::Raw weight[Config::kPieces][kWeightParts], bias[Config::kPieces][kWeightParts];

    GK_DEVICE void fetch(const Affine &affine, const Row &row, i32 first, u64 policy)
    {
        if constexpr (Config::kAffine) {
#pragma unroll
            for (u32 p = 0; p < Config::kPieces; ++p) {
#pragma unroll
                for (u32 part = 0; part < kWeightParts; ++part) {
                    const i32 at = first + static_cast<i32>(p) * kStride +
                                   static_cast<i32>(part * kWeightCount);
                    weight[p][part] =
                        WeightPiece::fetch<Config::kReuse>(affine.weight, at, row.cols, policy);
                    bias[p][part] =
                        WeightPiece::fetch<Config::kReuse>(affine.bias, at, row.cols, policy);
                }
            }
        }
    }
};

// Piece p of a thread.
GK_DEVICE void finish(const Row &row, RowPiece h, u32 p, i32 at, float mean, float scale,
                      const Weights &weights, const Affine &affine, u64 policy)
{
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        h.v[i] = (h.v[i] - mean) * scale;
    }
    if constexpr (Config::kAffine) {
#pragma unroll
        for (u32 part = 0; part < kWeightParts; ++part) {
            const u32 begin = part * kWeightCount;
            const i32 from = at + static_cast<i32>(begin);
            WeightPiece w, b;
            w.open<Config::kReuse>(weights.weight[p][part], affine.weight, from, row.cols, policy);
            b.open<Config::kReuse>(weights.bias[p][part], affine.bias, from, row.cols, policy);
#pragma unroll
            for (u32 i = 0; i < kWeightCount; ++i) {
                h.v[begin + i] = h.v[begin + i] * w.v[i] + b.v[i];
            }
        }
    }
    h.store<Config::kStore>(row.y, at, row.cols);
}

// Elements of the piece at `at` that the row has.
GK_DEVICE i32 inside(const Row &row, i32 at)
{
    return clamp_of(row.cols - at, 0, static_cast<i32>(kCount));
}

// Sum of squared differences from `mean`; elements outside the row count for nothing.
GK_DEVICE float squares_of(const RowPiece &h, float mean, i32 count)
{
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        const float difference = static_cast<i32>(i) < count ? h.v[i] - mean : 0.0f;
        sum += difference * difference;
    }
    return sum;
}

GK_DEVICE float sum_of(const RowPiece &h) // what lies outside the row is 0
{
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        sum += h.v[i];
    }
    return sum;
}

// Mean and squared differences of what a thread has seen so far.
struct Moments {
    float count = 0.0f, mean = 0.0f, squares = 0.0f;

    GK_DEVICE void add(const RowPiece &h, i32 more)
    {
        if (more == 0) {
            return; // a piece behind the end of the row
        }
        const float n = static_cast<float>(more), all = count + n;
        const float piece_mean = sum_of(h) / n;
        const float apart = piece_mean - mean;
        squares += squares_of(h, piece_mean, more) + apart * apart * (count * n / all);
        mean += apart * (n / all);
        count = all;
    }
};

GK_DEVICE float row_total(float value, float (&scratch)[kBlockWarpsMax])
{
    return group_reduce<SumOp, Config::kGroup, Config::kThreads>(value, scratch);
}

// Mean and reciprocal root of a row.
struct Norm {
    float mean, scale;
};

// Of a row that registers hold. The whole block calls it, in step, as the other one.
GK_DEVICE Norm norm_of(const RowPiece (&h)[Config::kPieces], const Row &row, i32 first,
                       Scratch &scratch, float share, float eps)
{
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        sum += sum_of(h[p]);
    }
    const float mean = row_total(sum, scratch.sums) * share;
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        const i32 at = first + static_cast<i32>(p) * kStride;
        squares += squares_of(h[p], mean, inside(row, at));
    }
    return Norm{mean, rsqrtf(row_total(squares, scratch.squares) * share + eps)};
}

// Of a row of which each thread has seen its part.
GK_DEVICE Norm norm_of(const Moments &seen, Scratch &scratch, float share, float eps)
{
    const float mean = row_total(seen.mean * seen.count, scratch.sums) * share;
    const float apart = seen.mean - mean;
    const float squares = seen.squares + apart * apart * seen.count;
    return Norm{mean, rsqrtf(row_total(squares, scratch.squares) * share + eps)};
}

// One row of each group. `first`: of the thread's columns; `share`: 1 / cols of the matrix.
GK_DEVICE void norm_row(const Row &row, i32 first, const Affine &affine, const Policies &policies,
                        Scratch &scratch, const Dropout &dropout, float share, float eps)
{
    constexpr i32 kStep = Config::kPieces * kStride; // columns that a group has at a time
    RowPiece h[Config::kPieces];
    Weights weights;
    Norm norm;
    if constexpr (Config::kHeld) {
        bring<Config::kLoad, true>(h, row, first, policies.load, dropout);
        weights.fetch(affine, row, first, policies.reuse);
        norm = norm_of(h, row, first, scratch, share, eps);
    } else {
        Moments seen;
        for (i32 at = first; at < row.cols; at += kStep) {
            bring<Config::kReuse, true>(h, row, at, policies.reuse, dropout);
#pragma unroll
            for (u32 p = 0; p < Config::kPieces; ++p) {
                seen.add(h[p], inside(row, at + static_cast<i32>(p) * kStride));
            }
        }
        norm = norm_of(seen, scratch, share, eps);
    }
    const i32 end = Config::kHeld ? first + 1 : row.cols; // once where all is held
    for (i32 at = first; at < end; at += kStep) {
        if constexpr (!Config::kHeld) {
            bring<Config::kLoad, false>(h, row, at, policies.load, dropout);
            weights.fetch(affine, row, at, policies.reuse);
        }
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            finish(row, h[p], p, at + static_cast<i32>(p) * kStride, norm.mean, norm.scale, weights,
                   affine, policies.reuse);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_layernorm_rows(const Config::T *x, const Config::T *residual, const Config::Weight *weight,
                      const Config::Weight *bias, Config::T *residual_out, u8 *mask, Config::T *y,
                      i32 rows, i32 cols, i64 ld, float eps, double drop, i64 seed)
{
    __shared__ Scratch scratch;
    const Dropout dropout{static_cast<u64>(seed), static_cast<u64>(drop * 4294967296.0),
                          drop < 1.0 ? static_cast<float>(1.0 / (1.0 - drop)) : 0.0f};
    const i32 group = threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
    const float share = 1.0f / static_cast<float>(cols);

    // All threads of a block make the same turns: the reductions have barriers in them.
    for (i64 set = static_cast<i64>(blockIdx.x) * Config::kRows; set < rows;
         set += static_cast<i64>(gridDim.x) * Config::kRows) {
        const bool there = set + group < rows;
        const i64 index = there ? set + group : 0, begin = index * ld;
        const Row row{x + begin,
                      Config::kResidual ? residual + begin : nullptr,
                      Config::kResidual ? residual_out + begin : nullptr,
                      y + begin,
                      Config::kMask ? mask + begin : nullptr,
                      static_cast<u64>(index) * static_cast<u64>(cols),
                      there ? cols : 0};
        norm_row(row, first, Affine{weight, bias}, policies, scratch, dropout, share, eps);
    }
}
