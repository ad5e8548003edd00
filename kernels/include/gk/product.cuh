// The product in the middle of a fused kernel, by mma.m16n8k16 on sm_80 and newer:
// sums[m, n] = sum over k of A[m, k] B[n, k], for one B or for two at once (gate and up of a gated
// layer) that A is read once for. Both run along k, as the matrices of a linear layer do. What
// becomes of the sums is the kernel's.
//
// C, the config, gives Element (bf16 or f16); kTileM, kTileN, kTileK; kMatrices, 1 or 2: kTileN is
// of each; kWarpsM, kWarpsN; kStages; kLoadBytes, the widest access that every row of A and B
// allows; kReadA, kReadB, how the caches treat them.
//
// Work      A block has kTileM rows of A and walks over tiles of kTileN columns (rows of B) in
//           order; each is a run of tiles along k. The ring does not stop between two column tiles:
//           while the last products of one are summed, the operands of the next are on their way.
// Roles     All warps do the same: each copies its share of every tile, and owns a rectangle of the
//           block's tile, kWarpTileM x kWarpTileN of each matrix, in registers.
// Stages    A ring of kStages tiles. Groups of cp.async are counted, one a tile and an empty one
//           past the end, so that "all but the youngest kStages-2 groups" always means "the tile to
//           be multiplied has landed".
// Barrier   One __syncthreads a tile, after the wait: (1) every thread's copies of the tile are
//           visible to all, (2) all warps have finished reading the tile before it, whose stage is
//           refilled right after it.
// Ragged    Elements past the last row, column or k are zero-filled by the copy, never read: what
//           lies between rows or behind the matrix may be NaN.
#pragma once

#include <gk/mma.cuh>
#include <gk/stream.cuh>

namespace gk
{

template <typename C> struct ProductShape {
    static constexpr u32 kThreads = C::kWarpsM * C::kWarpsN * kWarpSize;
    static constexpr u32 kWarpTileM = C::kTileM / C::kWarpsM, kWarpTileN = C::kTileN / C::kWarpsN;
    static constexpr u32 kFragmentsM = kWarpTileM / kMmaM; // 16 rows each
    static constexpr u32 kFragmentsN = kWarpTileN / kMmaN; // 8 columns each, of each matrix
    static constexpr u32 kStepsK = C::kTileK / kMmaK;

    using TileA = SwizzledTile<C::kTileM, C::kTileK>;
    using TileB = SwizzledTile<C::kTileN, C::kTileK>;

    // What a thread needs at once: sums, one set of fragments, and addresses, counters and
    // pointers.
    static constexpr u32 kRegistersOfBlock = 65536, kRegistersOfThread = 255;
    static constexpr u32 kRegisters = 4 * kFragmentsM * kFragmentsN * C::kMatrices +
                                      4 * kFragmentsM + 2 * kFragmentsN * C::kMatrices +
                                      C::kOtherRegisters;
    static constexpr u32 kSharedMax = 232448;

    static_assert(C::kTileM % (C::kWarpsM * kMmaM) == 0, "a warp owns whole fragments along M");
    static_assert(C::kTileN % (C::kWarpsN * 2 * kMmaN) == 0,
                  "ldmatrix brings two fragments along N at once");
    static_assert(C::kTileK % kMmaK == 0, "a tile is whole steps along K");
    static_assert(C::kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kRegisters <= kRegistersOfThread && kRegisters * kThreads <= kRegistersOfBlock,
                  "sums and fragments stay in registers");
};

template <typename C> struct ProductStage {
    alignas(128) u8 a[ProductShape<C>::TileA::kBytes];
    alignas(128) u8 b[C::kMatrices][ProductShape<C>::TileB::kBytes];
};

// The part of the product that a block computes: `rows` of A and `cols` of B, of which the last
// column tile may be ragged, over `depth` steps of k.
struct ProductWork {
    i32 rows, cols, depth;
};

// The copying half of the ring: brings tiles in order, one a call.
template <typename C> class ProductFeed
{
    using Shape = ProductShape<C>;
    using FeedA = TileStream<typename Shape::TileA, Shape::kThreads, C::kLoadBytes, C::kReadA>;
    using FeedB = TileStream<typename Shape::TileB, Shape::kThreads, C::kLoadBytes, C::kReadB>;
    static constexpr i32 kTileN = C::kTileN, kTileK = C::kTileK;
    FeedA a_;
    FeedB b_, b_second_; // the second one of two matrices
    i32 rows_left_, cols_left_;
    i32 depth_, depth_left_;
    i64 rewind_, next_cols_; // elements from the end of a run back to its beginning; to the next

  public:
    // a, b: the first element of the block's rows; b_second: the same of the second matrix.
    GK_DEVICE ProductFeed(const typename C::Element *a, i64 lda, const typename C::Element *b,
                          const typename C::Element *b_second, i64 ldb, const ProductWork &work)
        : a_(a, lda, threadIdx.x), b_(b, ldb, threadIdx.x), b_second_(b_second, ldb, threadIdx.x),
          rows_left_(work.rows), cols_left_(work.cols), depth_(work.depth), depth_left_(work.depth),
          rewind_(static_cast<i64>(ceil_div(work.depth, kTileK) - 1) * kTileK),
          next_cols_(kTileN * ldb)
    {
    }

    // Starts the next tile into `stage`, or nothing past the end; one commit group either way.
    GK_DEVICE void start_next(ProductStage<C> &stage)
    {
        if (cols_left_ > 0) {
            a_.issue(ptx::shared_address(stage.a), rows_left_, depth_left_);
            b_.issue(ptx::shared_address(stage.b[0]), cols_left_, depth_left_);
            if constexpr (C::kMatrices == 2) {
                b_second_.issue(ptx::shared_address(stage.b[1]), cols_left_, depth_left_);
            }
            const bool last = depth_left_ <= kTileK; // of a run along k
            move(last ? -rewind_ : kTileK, last ? next_cols_ - rewind_ : kTileK);
            depth_left_ = last ? depth_ : depth_left_ - kTileK;
            cols_left_ -= last ? kTileN : 0;
        }
        ptx::cp_async_commit();
    }

  private:
    GK_DEVICE void move(i64 a, i64 b)
    {
        a_.advance(a);
        b_.advance(b);
        if constexpr (C::kMatrices == 2) {
            b_second_.advance(b);
        }
    }
};

// A warp's rectangle of each product in registers.
template <typename C> struct ProductSums {
    static constexpr u32 kMatrices = C::kMatrices;
    FragmentD d[kMatrices][ProductShape<C>::kFragmentsM][ProductShape<C>::kFragmentsN];

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 m = 0; m < kMatrices; ++m) {
#pragma unroll
            for (u32 i = 0; i < ProductShape<C>::kFragmentsM; ++i) {
#pragma unroll
                for (u32 j = 0; j < ProductShape<C>::kFragmentsN; ++j) {
                    d[m][i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
                }
            }
        }
    }
};

// The fragments of one step of 16 along k.
template <typename C> struct ProductOperands {
    using Shape = ProductShape<C>;
    FragmentA a[Shape::kFragmentsM];
    FragmentB b[C::kMatrices][Shape::kFragmentsN];

    GK_DEVICE void load(const ProductStage<C> &stage, u32 warp_row, u32 warp_col, u32 k)
    {
#pragma unroll
        for (u32 i = 0; i < Shape::kFragmentsM; ++i) {
            load_fragment_a<typename Shape::TileA, true>(a[i], ptx::shared_address(stage.a),
                                                         warp_row + i * kMmaM, k);
        }
#pragma unroll
        for (u32 m = 0; m < C::kMatrices; ++m) {
#pragma unroll
            for (u32 j = 0; j < Shape::kFragmentsN; j += 2) {
                load_fragments_b<typename Shape::TileB, true>(
                    b[m][j], b[m][j + 1], ptx::shared_address(stage.b[m]), warp_col + j * kMmaN, k);
            }
        }
    }
};

// Adds the products of one tile. The next step's fragments are loaded while this step's are
// multiplied.
template <typename C>
GK_DEVICE void multiply_stage(ProductSums<C> &sums, const ProductStage<C> &stage, u32 warp_row,
                              u32 warp_col)
{
    using Shape = ProductShape<C>;
    ProductOperands<C> operands[2];
    operands[0].load(stage, warp_row, warp_col, 0);
#pragma unroll
    for (u32 step = 0; step < Shape::kStepsK; ++step) {
        if (step + 1 < Shape::kStepsK) {
            operands[(step + 1) % 2].load(stage, warp_row, warp_col, (step + 1) * kMmaK);
        }
        const ProductOperands<C> &now = operands[step % 2];
#pragma unroll
        for (u32 m = 0; m < C::kMatrices; ++m) {
#pragma unroll
            for (u32 i = 0; i < Shape::kFragmentsM; ++i) {
#pragma unroll
                for (u32 j = 0; j < Shape::kFragmentsN; ++j) {
                    mma_m16n8k16(sums.d[m][i][j], now.a[i], now.b[m][j], typename C::Element{});
                }
            }
        }
    }
}

// The ring. begin() fills it, then each call of run() sums one run of tiles along k.
template <typename C> class ProductRing
{
    ProductStage<C> (&stages_)[C::kStages];
    ProductFeed<C> &feed_;
    u32 full_ = 0;               // stage of the tile to multiply
    u32 empty_ = C::kStages - 1; // stage of the tile before it, to be refilled

  public:
    GK_DEVICE ProductRing(ProductStage<C> (&stages)[C::kStages], ProductFeed<C> &feed)
        : stages_(stages), feed_(feed)
    {
    }

    GK_DEVICE void begin()
    {
#pragma unroll
        for (u32 stage = 0; stage + 1 < C::kStages; ++stage) {
            feed_.start_next(stages_[stage]);
        }
    }

    GK_DEVICE void run(ProductSums<C> &sums, i32 tiles, u32 warp_row, u32 warp_col)
    {
#pragma unroll 1
        for (i32 tile = 0; tile < tiles; ++tile) {
            ptx::cp_async_wait<C::kStages - 2>();
            __syncthreads();
            feed_.start_next(stages_[empty_]);
            multiply_stage<C>(sums, stages_[full_], warp_row, warp_col);
            empty_ = full_;
            full_ = full_ + 1 == C::kStages ? 0 : full_ + 1;
        }
    }
};

// Where a lane's values of a fragment lie in the warp's rectangle: v[0] and v[1] of fragment (i, j)
// are neighbours at (fragment_row(i), fragment_col(j)), v[2] and v[3] kFragmentHalf rows below.
constexpr i32 kFragmentHalf = kMmaM / 2;

GK_DEVICE i32 fragment_row(u32 i)
{
    return static_cast<i32>(i * kMmaM + lane_index() / 4);
}

GK_DEVICE i32 fragment_col(u32 j)
{
    return static_cast<i32>(j * kMmaN + lane_index() % 4 * 2);
}

} // namespace gk
