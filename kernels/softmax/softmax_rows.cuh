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

#define SOFTMAX_GROUP GK_GROUP
#define SOFTMAX_STORE static_cast<StoreUse>(GK_STORE)
#include "softmax_body.cuh"

constexpr bool kHeld = GK_ROW == GK_ROW_HELD;
constexpr u32 kRows = Config::kThreads / Config::kGroup; // at a time

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

struct Scratch {
    WarpValues maxima, sums;
};

GK_DEVICE float row_max(float value, Scratch &scratch)
{
    return group_reduce<MaxOp, Config::kGroup, Config::kThreads>(value, scratch.maxima);
}

GK_DEVICE float row_sum(float value, Scratch &scratch)
{
    return group_reduce<SumOp, Config::kGroup, Config::kThreads>(value, scratch.sums);
}

// One row of each group. `first`: of the thread's columns.
GK_DEVICE void softmax_row(const Row &row, i32 first, const Policies &policies, Scratch &scratch,
                           float scale_log2)
{
    constexpr i32 kStep = Config::kPieces * kStride; // columns that a group has at a time
    RowPiece piece[Config::kPieces];
    if constexpr (kHeld) {
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
    for (i64 set = static_cast<i64>(blockIdx.x) * kRows; set < rows;
         set += static_cast<i64>(gridDim.x) * kRows) {
        const bool inside = set + group < rows;
        const i64 index = inside ? set + group : 0;
        const Row row{x + index * ld, y + index * ld_out,
                      inside ? cols : 0}; // a row that is not there has no columns
        softmax_row(row, first, policies, scratch, positive_scale(scale * kLog2E));
    }
}
