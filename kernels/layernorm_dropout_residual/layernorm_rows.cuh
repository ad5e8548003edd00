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
//
// A matrix whose rows the threads' pieces fill goes a way of its own, where the number of columns
// is a constant: no piece asks there whether it is inside, and no register is cleared for one that
// is not, between loads that should leave together.

#define LAYERNORM_GROUP GK_GROUP
#define LAYERNORM_STORE static_cast<StoreUse>(GK_STORE)
#include "layernorm_body.cuh"

constexpr bool kHeld = GK_ROW == GK_ROW_HELD;
constexpr u32 kRows = Config::kThreads / Config::kGroup; // at a time
constexpr i32 kFilled = Config::kPieces * kStride;       // columns that a group has at a time

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

struct Scratch {
    WarpValues sums, squares;
};

GK_DEVICE float row_total(float value, WarpValues &scratch)
{
    return group_reduce<SumOp, Config::kGroup, Config::kThreads>(value, scratch);
}

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
    const float squares = row_total(seen.squares_from(mean), scratch.squares);
    return Norm{mean, rsqrtf(squares * share + eps)};
}

struct Scalars {
    float share; // 1 / cols
    float eps;
};

// One row of each group. `first`: of the thread's columns.
GK_DEVICE void norm_row(const Row &row, i32 first, const Affine &affine, const Policies &policies,
                        Scratch &scratch, const Dropout &dropout, const Scalars &scalars)
{
    RowPiece h[Config::kPieces];
    Weights weights;
    Norm norm;
    if constexpr (kHeld) {
        // On their way with the row: behind it a second wait would come.
        weights.fetch(affine, row, first, policies.reuse);
        bring<Config::kLoad, true>(h, row, first, policies.load, dropout);
        norm = norm_of(h, row, first, scratch, scalars.share, scalars.eps);
    } else {
        Moments seen;
        for (i32 at = first; at < row.cols; at += kFilled) {
            bring<Config::kReuse, true>(h, row, at, policies.reuse, dropout);
#pragma unroll
            for (u32 p = 0; p < Config::kPieces; ++p) {
                seen.add(h[p], inside(row, at + static_cast<i32>(p) * kStride));
            }
        }
        norm = norm_of(seen, scratch, scalars.share, scalars.eps);
    }
    const i32 end = kHeld ? first + 1 : row.cols; // once where all is held
    for (i32 at = first; at < end; at += kFilled) {
        if constexpr (!kHeld) {
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

struct Matrix {
    const Config::T *x, *residual;
    Config::T *residual_out, *y;
    u8 *mask;
    i32 rows, cols;
    i64 ld;
};

// All rows of a block. kFull: every set is whole, and pieces fill its rows. All threads make the
// same turns: the reductions have barriers in them.
template <bool kFull>
GK_DEVICE void norm_rows(const Matrix &of, const Affine &affine, Scratch &scratch,
                         const Dropout &dropout, const Scalars &scalars)
{
    const i32 group = threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
    const i32 cols = kFull ? kFilled : of.cols;
    for (i64 set = static_cast<i64>(blockIdx.x) * kRows; set < of.rows;
         set += static_cast<i64>(gridDim.x) * kRows) {
        const bool there = kFull || set + group < of.rows;
        const i64 index = there ? set + group : 0, begin = index * of.ld;
        const Row row{of.x + begin,
                      Config::kResidual ? of.residual + begin : nullptr,
                      Config::kResidual ? of.residual_out + begin : nullptr,
                      of.y + begin,
                      Config::kMask ? of.mask + begin : nullptr,
                      static_cast<u64>(index) * static_cast<u64>(cols),
                      there ? cols : 0};
        norm_row(row, first, affine, policies, scratch, dropout, scalars);
    }
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_layernorm_rows(const Config::T *x, const Config::T *residual, const Config::Weight *weight,
                      const Config::Weight *bias, Config::T *residual_out, u8 *mask, Config::T *y,
                      i32 rows, i32 cols, i64 ld, float share, float eps, double drop,
                      float kept_scale, i64 seed)
{
    __shared__ Scratch scratch;
    const Matrix of{x, residual, residual_out, y, mask, rows, cols, ld};
    const Affine affine{weight, bias};
    const Dropout dropout(seed, drop, kept_scale);
    const Scalars scalars{share, eps};
    if (kHeld && cols == kFilled && rows % static_cast<i32>(kRows) == 0) {
        norm_rows<true>(of, affine, scratch, dropout, scalars);
    } else {
        norm_rows<false>(of, affine, scratch, dropout, scalars);
    }
}
