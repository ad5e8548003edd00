// What the kernels of softmax share: a thread's pieces of a row, and how they become exponentials
// and results. Who includes this says how many threads a row has (SOFTMAX_GROUP), and how caches
// treat y (SOFTMAX_STORE).
#pragma once

#include <gk/softmax.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    using Out = GK_DTYPE_OUT;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = SOFTMAX_GROUP; // threads a row, or a part of one
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = SOFTMAX_STORE;
};

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

using OutPiece = PieceBeside<Config::Out, kCount, Config::kPieceBytes>;

struct Row {
    const Config::T *x;
    Config::Out *y;
    i32 cols;
};

struct Policies {
    u64 load, reuse;
};

// A thread's pieces from `first` on.
template <CacheUse use>
GK_DEVICE void bring(RowPiece (&piece)[Config::kPieces], const Row &row, i32 first, u64 policy)
{
    Fetched<RowPiece, Config::kPieces> fetched;
    // e^-inf adds nothing
    fetched.template fetch<use>(row.x, first, kStride, row.cols, policy, MaxOp::neutral());
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        piece[p].open<use>(fetched.raw[p], row.x, first + static_cast<i32>(p) * kStride, row.cols,
                           policy);
    }
}

GK_DEVICE void write(const Row &row, const RowPiece &piece, i32 at, float factor)
{
#pragma unroll
    for (u32 part = 0; part < kCount; part += OutPiece::kCount) {
        OutPiece out;
#pragma unroll
        for (u32 i = 0; i < OutPiece::kCount; ++i) {
            out.v[i] = piece.v[part + i] * factor;
        }
        out.store<Config::kStore>(row.y, at + static_cast<i32>(part), row.cols);
    }
}

GK_DEVICE void write_all(const Row &row, const RowPiece (&piece)[Config::kPieces], i32 first,
                         float factor)
{
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        write(row, piece[p], first + static_cast<i32>(p) * kStride, factor);
    }
}

// Makes exponentials of the pieces; returns their sum.
GK_DEVICE float all_exponentials(RowPiece (&piece)[Config::kPieces], float most, float scale_log2)
{
    float sum = 0.0f;
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        sum += exponentials(piece[p], most, scale_log2);
    }
    return sum;
}
