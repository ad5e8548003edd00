// y = exp(scale * (x - max)) / sum of the same, for each row: one pass over memory where registers
// hold the row.
//
// A row belongs to GROUP neighbouring threads; a block has THREADS / GROUP rows at a time and takes
// one such set, or, with a grid smaller than the matrix, every gridDim.x-th. Piece p of thread t is
// number p * GROUP + t of the row, so that neighbours read neighbours.
//
// A thread has its PIECES pieces on their way before it uses the first. ROW = held: they are the
// whole row, and stay in registers: maximum, then exponentials and their sum, then the quotient.
// ROW = again: the row is too long for that. A first pass keeps a running sum, and leaves the row
// to the caches as REUSE says; a second one reads it again.
//
// Exponentials are powers of two of arguments scaled by log2 e. Shared memory holds one float a
// warp for each of the two reductions of a row: the barrier in one orders the reads of the other.

#include <gk/softmax.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    using Out = GK_DTYPE_OUT;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = GK_GROUP;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr bool kHeld = GK_ROW == GK_ROW_HELD;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr u32 kRows = kThreads / kGroup; // at a time
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
};

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread

using OutPiece = PieceBeside<Config::Out, kCount, Config::kPieceBytes>;

struct Row {
    const Config::T *x;
    Config::Out *y;
    i32 cols;
};

struct Scratch {
    float maxima[kBlockWarpsMax], sums[kBlockWarpsMax];
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

GK_DEVICE float row_max(float value, Scratch &scratch)
{
    return group_reduce<MaxOp, Config::kGroup, Config::kThreads>(value, scratch.maxima);
}

GK_DEVICE float row_sum(float value, Scratch &scratch)
{
    return group_reduce<SumOp, Config::kGroup, Config::kThreads>(value, scratch.sums);
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

// One row of each group. `first`: of the thread's columns.
GK_DEVICE void softmax_row(const Row &row, i32 first, const Policies &policies, Scratch &scratch,
                           float scale_log2)
{
    constexpr i32 kStep = Config::kPieces * kStride; // columns that a group has at a time
    RowPiece piece[Config::kPieces];
    if constexpr (Config::kHeld) {
        float most = MaxOp::neutral();
        bring<Config::kLoad>(piece, row, first, policies.load);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            most = fmaxf(most, max_of_piece(piece[p]));
        }
        most = row_max(most, scratch);
        const float sum = all_exponentials(piece, most, scale_log2);
        write_all(row, piece, first, 1.0f / row_sum(sum, scratch));
    } else {
        RunningSum running;
        for (i32 at = first; at < row.cols; at += kStep) {
            bring<Config::kReuse>(piece, row, at, policies.reuse);
            running.add(piece, scale_log2);
        }
        const float most = row_max(running.most, scratch);
        const float factor = 1.0f / row_sum(running.below(most, scale_log2), scratch);
        for (i32 at = first; at < row.cols; at += kStep) {
            bring<Config::kLoad>(piece, row, at, policies.load);
            (void)all_exponentials(piece, most, scale_log2);
            write_all(row, piece, at, factor);
        }
    }
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_softmax_rows(const Config::T *x, Config::Out *y, i32 rows, i32 cols, i64 ld, i64 ld_out,
                    float scale)
{
    __shared__ Scratch scratch;
    const i32 group = threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};

    // All threads of a block make the same turns: the reductions have barriers in them.
    for (i64 set = static_cast<i64>(blockIdx.x) * Config::kRows; set < rows;
         set += static_cast<i64>(gridDim.x) * Config::kRows) {
        const bool inside = set + group < rows;
        const i64 index = inside ? set + group : 0;
        const Row row{x + index * ld, y + index * ld_out,
                      inside ? cols : 0}; // a row that is not there has no columns
        softmax_row(row, first, policies, scratch, scale * kLog2E);
    }
}
