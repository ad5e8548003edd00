// loss and lse of each row of logits, and, with GRAD, the gradient in place of the logits: one pass
// over memory where registers hold the row.
//
// A row belongs to GROUP neighbouring threads; a block has THREADS / GROUP rows at a time and takes
// one such set, or, with a grid smaller than the matrix, every gridDim.x-th. Piece p of thread t is
// number p * GROUP + t of the row, so that neighbours read neighbours.
//
// The thread that holds the label's column finds its logit as it goes by and writes loss and lse:
// no other thread reads a logit that the gradient overwrites, so nothing has to wait for it. Of a
// row with the ignored label the group's first thread writes.
//
// A thread has its PIECES pieces on their way before it uses the first. ROW = held: they are the
// whole row, and stay in registers. ROW = again: a first pass keeps a running sum; the second one,
// for the gradient alone, reads again what the same thread has read before, and REUSE says how the
// caches keep it until then.
//
// Shared memory holds one float a warp for each reduction of a row; the barrier in one orders the
// reads of the one before.

#include <gk/softmax.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kGroup = GK_GROUP;
    static constexpr u32 kPieces = GK_PIECES;
    static constexpr bool kHeld = GK_ROW == GK_ROW_HELD;
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr u32 kRows = kThreads / kGroup; // at a time
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
    static constexpr bool kGradient = GK_GRAD;
};

static_assert(Config::kThreads % Config::kGroup == 0, "a block is whole rows");

using RowPiece = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = RowPiece::kCount;
constexpr i32 kStride = Config::kGroup * kCount; // elements between the pieces of one thread
constexpr i32 kStep = Config::kPieces * kStride; // columns that a group has at a time
constexpr i32 kSpan = kStep - kStride + kCount;  // from a thread's first column to behind its last
constexpr i32 kNoEnd = 0x7fffffff;               // of a row that all pieces are inside of

struct Scalars {
    i64 ignore;
    float smoothing, z_loss, grad_scale;
};

struct Row {
    Config::T *x; // const without the gradient
    float *loss, *lse;
    i32 label; // -1: none of the columns
    i32 cols;  // 0: there is no such row
    bool ignored;
};

struct Scratch {
    WarpValues maxima, sums, logits;
};

// What a thread learns of its pieces beside their exponentials.
struct Seen {
    float target = 0.0f; // the label's logit
    float logits = 0.0f; // their sum, for the smoothing
    bool owns = false;   // the label's column

    // The pieces of one step; one thread of a row meets its label, once. `smoothed` is the same for
    // all threads; columns from `end` on are none.
    GK_DEVICE void look(const RowPiece (&piece)[Config::kPieces], i32 first, const Row &row,
                        bool smoothed, i32 end)
    {
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            const i32 at = first + static_cast<i32>(p) * kStride;
            const u32 place = static_cast<u32>(row.label) - static_cast<u32>(at);
            if (place < kCount) {
                owns = true;
#pragma unroll
                for (u32 i = 0; i < kCount; ++i) {
                    target = place == i ? piece[p].v[i] : target;
                }
            }
            if (smoothed) {
#pragma unroll
                for (u32 i = 0; i < kCount; ++i) {
                    logits += at + static_cast<i32>(i) < end ? piece[p].v[i] : 0.0f;
                }
            }
        }
    }
};

struct Policies {
    u64 load, reuse;
};

// A thread's pieces from `first` on, of a row that ends at `end`.
template <CacheUse use>
GK_DEVICE void bring(RowPiece (&piece)[Config::kPieces], const Row &row, i32 first, i32 end,
                     u64 policy)
{
    Fetched<RowPiece, Config::kPieces> fetched;
    // e^-inf adds nothing
    fetched.template fetch<use>(row.x, first, kStride, end, policy, MaxOp::neutral());
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        piece[p].open<use>(fetched.raw[p], row.x, first + static_cast<i32>(p) * kStride, end,
                           policy);
    }
}

// Gradient of one piece: its exponentials come in, `factor` makes probabilities of them, scaled.
GK_DEVICE void write_gradient(const Row &row, RowPiece piece, i32 at, float factor,
                              const Scalars &scalars)
{
    const float even = scalars.smoothing / static_cast<float>(row.cols);
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) {
        const float share =
            at + static_cast<i32>(i) == row.label ? even + (1.0f - scalars.smoothing) : even;
        piece.v[i] = row.ignored ? 0.0f : piece.v[i] * factor - share * scalars.grad_scale;
    }
    piece.store<Config::kStore>(row.x, at, row.cols);
}

// loss and lse, by the thread that knows the label's logit.
GK_DEVICE void write_loss(const Row &row, const Seen &seen, float lse, float mean,
                          const Scalars &scalars)
{
    const bool first = threadIdx.x % Config::kGroup == 0;
    if (row.cols == 0 || !(row.ignored ? first : seen.owns)) {
        return;
    }
    const float loss = (1.0f - scalars.smoothing) * (lse - seen.target) +
                       scalars.smoothing * (lse - mean) + scalars.z_loss * lse * lse;
    *row.loss = row.ignored ? 0.0f : loss;
    *row.lse = lse;
}

// What the whole group must know of its row, from what its threads saw. Whole blocks call it.
struct Totals {
    float most, sum, lse, mean;

    GK_DEVICE void finish(const Seen &seen, const Row &row, const Scalars &scalars,
                          Scratch &scratch)
    {
        sum = group_reduce<SumOp, Config::kGroup, Config::kThreads>(sum, scratch.sums);
        mean = 0.0f;
        if (scalars.smoothing != 0.0f) { // the same for all threads
            mean =
                group_reduce<SumOp, Config::kGroup, Config::kThreads>(seen.logits, scratch.logits) /
                static_cast<float>(row.cols);
        }
        lse = most + logf(sum);
    }

    // From an exponential to its part of the gradient.
    GK_DEVICE float factor(const Scalars &scalars) const
    {
        return scalars.grad_scale * (1.0f + 2.0f * scalars.z_loss * lse) / sum;
    }
};

// Makes exponentials of the pieces; returns their sum.
GK_DEVICE float all_exponentials(RowPiece (&piece)[Config::kPieces], float most)
{
    float sum = 0.0f;
#pragma unroll
    for (u32 p = 0; p < Config::kPieces; ++p) {
        sum += exponentials(piece[p], most, kLog2E);
    }
    return sum;
}

// One row of each group. `first`: of the thread's columns.
GK_DEVICE void row_loss(const Row &row, i32 first, const Policies &policies, Scratch &scratch,
                        const Scalars &scalars)
{
    const bool smoothed = scalars.smoothing != 0.0f;
    Seen seen;
    Totals totals;
    RowPiece piece[Config::kPieces];
    if constexpr (Config::kHeld) {
        float most = MaxOp::neutral();
        bring<Config::kLoad>(piece, row, first, row.cols, policies.load);
        seen.look(piece, first, row, smoothed, row.cols);
#pragma unroll
        for (u32 p = 0; p < Config::kPieces; ++p) {
            most = fmaxf(most, max_of_piece(piece[p]));
        }
        totals.most = group_reduce<MaxOp, Config::kGroup, Config::kThreads>(most, scratch.maxima);
        totals.sum = all_exponentials(piece, totals.most);
    } else {
        // Without the gradient nothing is read again.
        constexpr CacheUse kFirst = Config::kGradient ? Config::kReuse : Config::kLoad;
        const u64 policy = Config::kGradient ? policies.reuse : policies.load;
        RunningSum running;
        i32 at = first;
        // Steps that lie inside the row ask of no piece whether it does, and clear no register for
        // one that does not; at most one step is left for each thread.
        for (; at <= row.cols - kSpan; at += kStep) {
            bring<kFirst>(piece, row, at, kNoEnd, policy);
            seen.look(piece, at, row, smoothed, kNoEnd);
            running.add(piece, kLog2E);
        }
        if (at < row.cols) {
            bring<kFirst>(piece, row, at, row.cols, policy);
            seen.look(piece, at, row, smoothed, row.cols);
            running.add(piece, kLog2E);
        }
        totals.most =
            group_reduce<MaxOp, Config::kGroup, Config::kThreads>(running.most, scratch.maxima);
        totals.sum = running.below(totals.most, kLog2E);
    }
    totals.finish(seen, row, scalars, scratch);
    if constexpr (Config::kGradient) {
        const i32 end = Config::kHeld ? first + 1 : row.cols; // once where all is held
        for (i32 at = first; at < end; at += kStep) {
            if constexpr (!Config::kHeld) {
                bring<Config::kLoad>(piece, row, at, row.cols, policies.load);
                (void)all_exponentials(piece, totals.most);
            }
#pragma unroll
            for (u32 p = 0; p < Config::kPieces; ++p) {
                write_gradient(row, piece[p], at + static_cast<i32>(p) * kStride,
                               totals.factor(scalars), scalars);
            }
        }
    }
    write_loss(row, seen, totals.lse, totals.mean, scalars);
}

// Without the gradient logits are read alone, through `logits`; with it they are in `in_place`.
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_cross_entropy_rows(const Config::T *logits, Config::T *in_place, const i64 *labels,
                          float *loss, float *lse, i32 rows, i32 cols, i64 ld, i64 ignore,
                          float smoothing, float z_loss, float grad_scale)
{
    __shared__ Scratch scratch;
    const Scalars scalars{ignore, smoothing, z_loss, grad_scale};
    const i32 group = threadIdx.x / Config::kGroup;
    const i32 first = threadIdx.x % Config::kGroup * kCount;
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kReuse>()};
    Config::T *x = Config::kGradient ? in_place : const_cast<Config::T *>(logits);

    // All threads of a block make the same turns: the reductions have barriers in them.
    for (i64 set = static_cast<i64>(blockIdx.x) * Config::kRows; set < rows;
         set += static_cast<i64>(gridDim.x) * Config::kRows) {
        const bool inside = set + group < rows;
        const i64 index = inside ? set + group : 0;
        const i64 label = labels[index];
        const bool ignored = label == ignore; // any other is one of the columns
        const Row row{x + index * ld,
                      loss + index,
                      lse + index,
                      ignored ? -1 : static_cast<i32>(label),
                      inside ? cols : 0,
                      ignored};
        row_loss(row, first, policies, scratch, scalars);
    }
}
