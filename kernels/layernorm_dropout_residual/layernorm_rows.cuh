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
// PIECES > 0: the pieces of h stay in registers; the variance is that of differences from the mean.
// PIECES = 0: the row is too long for that. A first pass keeps mean and squared differences of what
// each thread has seen, merged piece by piece (Chan, Golub, LeVeque 1983); a second one makes h
// again.
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
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr u32 kRows = kThreads / kGroup; // at a time
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = CacheUse::kAll; // of weight and bias, which every row reads
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
            const u32 word = kept[i] | kept[(i + 1) % kCount] << 8 | kept[(i + 2) % kCount] << 16 |
                             kept[(i + 3) % kCount] << 24;
            ptx::st_global_u32(row.mask + at + i, word);
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

// h of one piece. `writes`: residual_out and mask too.
template <bool writes>
GK_DEVICE RowPiece bring(const Row &row, i32 at, u64 policy, const Dropout &dropout)
{
    RowPiece h, r;
    h.load<Config::kLoad>(row.x, at, row.cols, policy);
    if constexpr (Config::kResidual) {
        r.load<Config::kLoad>(row.residual, at, row.cols, policy);
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

GK_DEVICE void finish(const Row &row, RowPiece h, i32 at, float mean, float scale,
                      const Config::Weight *weight, const Config::Weight *bias)
{
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        h.v[i] = (h.v[i] - mean) * scale;
    }
    if constexpr (Config::kAffine) {
#pragma unroll
        for (u32 part = 0; part < kCount; part += kWeightCount) {
            WeightPiece w, b;
            w.load<Config::kReuse>(weight, at + static_cast<i32>(part), row.cols, 0);
            b.load<Config::kReuse>(bias, at + static_cast<i32>(part), row.cols, 0);
#pragma unroll
            for (u32 i = 0; i < kWeightCount; ++i) {
                h.v[part + i] = h.v[part + i] * w.v[i] + b.v[i];
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

// One row of each group. `first`: of the thread's columns; `share`: 1 / cols of the matrix.
template <u32 kPieces>
GK_DEVICE void norm_row(const Row &row, i32 first, const Config::Weight *weight,
                        const Config::Weight *bias, u64 policy, Scratch &scratch,
                        const Dropout &dropout, float share, float eps)
{
    if constexpr (kPieces > 0) {
        RowPiece h[kPieces];
        float sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            h[p] = bring<true>(row, first + static_cast<i32>(p) * kStride, policy, dropout);
        }
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            sum += sum_of(h[p]);
        }
        const float mean = row_total(sum, scratch.sums) * share;
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            const i32 at = first + static_cast<i32>(p) * kStride;
            squares += squares_of(h[p], mean, inside(row, at));
        }
        const float scale = rsqrtf(row_total(squares, scratch.squares) * share + eps);
#pragma unroll
        for (u32 p = 0; p < kPieces; ++p) {
            finish(row, h[p], first + static_cast<i32>(p) * kStride, mean, scale, weight, bias);
        }
    } else {
        Moments seen;
        for (i32 at = first; at < row.cols; at += kStride) {
            seen.add(bring<true>(row, at, policy, dropout), inside(row, at));
        }
        const float mean = row_total(seen.mean * seen.count, scratch.sums) * share;
        const float apart = seen.mean - mean;
        const float squares = seen.squares + apart * apart * seen.count;
        const float scale = rsqrtf(row_total(squares, scratch.squares) * share + eps);
        for (i32 at = first; at < row.cols; at += kStride) {
            finish(row, bring<false>(row, at, policy, dropout), at, mean, scale, weight, bias);
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
    const u64 policy = ptx::cache_policy<Config::kLoad>();
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
        norm_row<Config::kPieces>(row, first, weight, bias, policy, scratch, dropout, share, eps);
    }
}
