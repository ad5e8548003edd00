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
//
// A set of rows that the threads' pieces fill exactly goes a way of its own, where the number of
// columns is a constant: no piece asks there whether it is inside, and no register is cleared for
// one that is not, between loads that should leave together; and its 16-bit sums are made two at a
// time.
//
// The weight, which all blocks read, comes out of memory once. ptxas sends its loads when the row
// has come (seen with 13.0), so each block calls one line of it into L2 before.

#define RMSNORM_GROUP GK_GROUP
#define RMSNORM_HELD  (GK_ROW == GK_ROW_HELD)
#define RMSNORM_STORE static_cast<StoreUse>(GK_STORE)
#include "rmsnorm_body.cuh"

constexpr u32 kRows = Config::kThreads / Config::kGroup; // at a time
constexpr i32 kFilled = Config::kPieces * kStride;       // columns that a group has at a time
// As many blocks as sets of rows: no loop, whose bounds would stand before the first loads.
constexpr bool kOneSet = GK_BLOCKS == 0;

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

// The reciprocal root of the row's mean square. The whole block calls it, in step.
GK_DEVICE float scale_of(const Squares &squares, WarpValues &scratch, float mean, float eps)
{
    const float sum =
        group_reduce<SumOp, Config::kGroup, Config::kThreads>(squares.total(), scratch);
    return rsqrtf(sum * mean + eps);
}

// The block's line of the weight, or none.
GK_DEVICE void call_weight(const Config::Weight *weight, i32 cols)
{
    constexpr u32 kLine = 128 / sizeof(Config::Weight); // columns
    const u32 column = blockIdx.x * kLine;
    if (Config::kWeighted && threadIdx.x == 0 && column < static_cast<u32>(cols)) {
        ptx::prefetch_l2(weight + column);
    }
}

// The matrices, ld elements from row to row.
struct Matrices {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    const Config::Weight *weight;
    u32 rows, cols;
    i64 ld;

    // Row number `index`, with its first `count` columns.
    GK_DEVICE Row row(u32 index, u32 count) const
    {
        const i64 begin = index * ld;
        return Row{x + begin, Config::kResidual ? residual + begin : nullptr,
                   Config::kResidual ? residual_out + begin : nullptr, y + begin,
                   static_cast<i32>(count)};
    }
};

// One row of each group; kWhole: pieces fill it. `first`: of the thread's columns; `mean`: 1 / cols
// of the matrix.
template <bool kWhole>
GK_DEVICE void norm_row(const Row &row, i32 first, const Config::Weight *weight,
                        const Policies &policies, WarpValues &scratch, float mean, float eps)
{
    Squares squares;
    Weights weights;
    RowPiece h[Config::kPieces];
    const i32 end = Config::kHeld ? first + 1 : row.cols; // of the walk: once where all is held
    if constexpr (Config::kHeld) { // on its way with the row: behind it a second wait would come
        weights.fetch(weight, row, first, policies);
    }
    for (i32 at = first; at < end; at += kFilled) {
        bring<kWhole>(h, row, at, policies);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            squares.add(h[p]);
        }
    }
    const float scale = scale_of(squares, scratch, mean, eps);
    for (i32 at = first; at < end; at += kFilled) {
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

// Rows from `set` on, one of each group: `set` is one that there is.
GK_DEVICE void norm_set(const Matrices &matrices, u32 set, const Policies &policies,
                        WarpValues &scratch, float mean, float eps)
{
    const u32 index = set + threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    if (Config::kHeld && matrices.cols == kFilled && set + kRows <= matrices.rows) {
        norm_row<true>(matrices.row(index, kFilled), first, matrices.weight, policies, scratch,
                       mean, eps);
    } else {
        const bool inside = index < matrices.rows; // a row that is not there has no columns
        norm_row<false>(matrices.row(inside ? index : 0, inside ? matrices.cols : 0), first,
                        matrices.weight, policies, scratch, mean, eps);
    }
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_rmsnorm_rows(const Config::T *x, const Config::T *residual, const Config::Weight *weight,
                    Config::T *residual_out, Config::T *y, i32 rows, i32 cols, i64 ld, float mean,
                    float eps)
{
    __shared__ WarpValues scratch[2];
    const Matrices matrices{
        x, residual, residual_out, y, weight, static_cast<u32>(rows), static_cast<u32>(cols), ld};
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
    u32 set = blockIdx.x * kRows; // 2^30 rows at most, and a grid has no more sets than they make
    call_weight(weight, cols);
    if constexpr (kOneSet) {
        norm_set(matrices, set, policies, scratch[0], mean, eps);
    } else {
        u32 turn = 0;
        // All threads of a block make the same turns: a reduction has a barrier in it.
        for (; set < matrices.rows; set += gridDim.x * kRows) {
            norm_set(matrices, set, policies, scratch[turn], mean, eps);
            turn ^= 1u;
        }
    }
}
