// What the kernels of layernorm_dropout_residual share: how h of a thread's pieces is made, what is
// known of the part of a row that a thread has seen, and how h becomes y. Who includes this says
// how many threads a row has (LAYERNORM_GROUP), and how caches treat y and the mask
// (LAYERNORM_STORE).
#pragma once

#include <gk/philox.cuh>
#include <gk/rows.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    using Weight = GK_DTYPE_WEIGHT;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = LAYERNORM_GROUP; // threads a row, or a part of one
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    // Of weight and bias, which every row reads, and of the first reading of a row that is read
    // again.
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = LAYERNORM_STORE;
    static constexpr bool kResidual = GK_RESIDUAL;
    static constexpr bool kDropout = GK_DROPOUT;
    static constexpr bool kMask = GK_MASK;
    static constexpr bool kAffine = GK_AFFINE;
};

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

// Of weight and bias.
using WeightPiece = PieceBeside<Config::Weight, kCount, Config::kPieceBytes>;
constexpr u32 kWeightCount = WeightPiece::kCount;
constexpr u32 kWeightParts = kCount / kWeightCount; // accesses to it, of a piece of h

// Random bits of a piece, two elements a word.
struct Halves {
    u32 word[ceil_div(kCount, 2u)];
};

struct Dropout {
    u64 seed;
    u32 threshold; // 16 bits below it drop their element: p * 2^16, rounded, in the upper half
    bool all;      // that is 2^16, which the half does not hold
    float scale;   // of what is kept

    // The scale comes from the host: a double's reciprocal is a chain of instructions that every
    // block would wait for before its first load.
    GK_DEVICE Dropout(i64 key, double drop, float kept_scale)
        : seed(static_cast<u64>(key)), threshold(static_cast<u32>(drop * 65536.0 + 0.5) << 16),
          all(drop * 65536.0 + 0.5 >= 65536.0), scale(kept_scale)
    {
    }

    // Of the piece that begins at element `first` of the matrix.
    GK_DEVICE Halves halves_of(u64 first) const
    {
        Halves halves;
        element_halves<kCount>(halves.word, first, seed);
        return halves;
    }

    GK_DEVICE bool keeps(const Halves &halves, u32 i) const
    {
        const u32 word = halves.word[i / 2]; // below its upper half nothing counts
        return !all && (i % 2 == 0 ? word << 16 : word) >= threshold;
    }
};

struct Row {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    u8 *mask;
    u64 first_element; // index of column 0 in the matrix without padding
    i32 cols;          // 0: there is no such row
};

// 1 where an element is kept. Rows of the mask have the stride of the others, so that a piece of it
// is aligned to its size.
GK_DEVICE void write_mask(const Row &row, i32 at, const Halves &halves, const Dropout &dropout)
{
    if (kCount % 4 == 0 && at + static_cast<i32>(kCount) <= row.cols) {
#pragma unroll
        for (u32 i = 0; i < kCount; i += 4) {
            u32 word[1] = {0};
#pragma unroll
            for (u32 byte = 0; byte < 4; ++byte) {
                word[0] |= static_cast<u32>(dropout.keeps(halves, (i + byte) % kCount)) << 8 * byte;
            }
            ptx::store<Config::kStore>(row.mask + at + i, word);
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        if (at + static_cast<i32>(i) < row.cols) {
            row.mask[at + i] = dropout.keeps(halves, i);
        }
    }
}

struct Policies {
    u64 load, reuse;
};

// h of one piece from what its loads brought. `writes`: residual_out and mask too.
template <CacheUse use, bool writes>
GK_DEVICE RowPiece make(const RowPiece::Raw &raw_x, const RowPiece::Raw &raw_r, const Row &row,
                        i32 at, u64 policy, const Halves &halves, const Dropout &dropout)
{
    RowPiece h, r;
    h.open<use>(raw_x, row.x, at, row.cols, policy);
    if constexpr (Config::kResidual) {
        r.open<use>(raw_r, row.residual, at, row.cols, policy);
    }
    if constexpr (Config::kDropout) {
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            h.v[i] = dropout.keeps(halves, i) ? h.v[i] * dropout.scale : 0.0f;
        }
        if constexpr (writes && Config::kMask) {
            write_mask(row, at, halves, dropout);
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
    Halves halves[Config::kPieces] = {}; // of all pieces, while their loads are on their way
    if constexpr (Config::kDropout) {
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            halves[p] =
                dropout.halves_of(row.first_element + first + static_cast<i32>(p) * kStride);
        }
    }
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        h[p] = make<use, writes>(x.raw[p], r.raw[p], row, first + static_cast<i32>(p) * kStride,
                                 policy, halves[p], dropout);
    }
}

// Weight and bias of all columns, null where there are none.
struct Affine {
    const Config::Weight *weight, *bias;
};

// Those of a thread's pieces.
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

    // Squared differences from the mean of more than this.
    GK_DEVICE float squares_from(float mean_of_all) const
    {
        const float apart = mean - mean_of_all;
        return squares + apart * apart * count;
    }
};

// Mean and reciprocal root of a row.
struct Norm {
    float mean, scale;
};
