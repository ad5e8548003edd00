// C[M, N] = act(alpha * A[M, K] B[K, N] + beta * C_in[M, N] + bias[N]) on the tensor cores of sm_80
// and newer: mma.m16n8k16 on registers, operands through shared memory by cp.async. bf16 or f16 in,
// sums in fp32, bf16, f16 or f32 out. With partial sums asked for (split K) it stops before the
// last step and writes raw sums to the workspace; gemm_splitk_reduce.cuh finishes them.
//
// Layouts   A letter T of `trans` says that the operand is stored transposed. A is stored as M rows
//           of K (N) or K rows of M (T); B as K rows of N (N) or N rows of K (T). A tile lies in
//           shared memory the way it lies in global memory, in chunks of 16 bytes permuted by
//           gk::SwizzledTile; ldmatrix transposes where the stored direction is not the tensor
//           core's.
// Grid      x: tiles of C, in groups of `group` tile rows, so that blocks that run at the same time
//           share operands in L2; y: splits of K; z: batch.
// Roles     All warps do the same: each copies its share of every tile, and owns a rectangle of the
//           block's tile of C, kWarpTileM x kWarpTileN, held in registers from first to last
//           product.
// Stages    A ring of kStages tile pairs. While tile t is multiplied, tiles t+1 .. t+kStages-1 are
//           on their way. Groups of cp.async are counted, one a tile and an empty one past the end,
//           so that "all but the youngest kStages-2 groups" always means "tile t has landed".
// Barrier   One __syncthreads a tile, after the wait: (1) every thread's copies of tile t are
//           visible to all, (2) all warps have finished reading tile t-1, whose stage is refilled
//           right after it.
// Ragged    Elements past M, N or K are zero-filled by the copy, never read: what lies between rows
//           or behind the matrix may be NaN. Stores are guarded.
//
// Parameters (gemm_mma.kernel.json has their values and rules): BM BN BK tile, WM WN warps along M
// and N, STAGES, LOAD_BYTES and STORE_BYTES the widest access that the problem's alignment allows,
// EPILOGUE direct (registers to global, pairs) or staged (through shared memory, 16 bytes of a row
// a thread). GROUP and SPLITK are run-time arguments: one binary serves all their values.

#include <gk/copy.cuh>
#include <gk/epilogue.cuh>
#include <gk/mma.cuh>

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    using Output = GK_DTYPE_OUT;
    static constexpr u32 kTileM = GK_BM, kTileN = GK_BN, kTileK = GK_BK;
    static constexpr u32 kWarpsM = GK_WM, kWarpsN = GK_WN;
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kLoadBytes = GK_LOAD_BYTES, kStoreBytes = GK_STORE_BYTES;
    static constexpr bool kStaged = GK_EPILOGUE == GK_EPILOGUE_STAGED;
    static constexpr bool kAAlongK = GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_NN;
    static constexpr bool kBAlongK = GK_TRANS == GK_TRANS_NT || GK_TRANS == GK_TRANS_TT;
    static constexpr bool kHasBias = GK_BIAS;
    static constexpr Activation kActivation = static_cast<Activation>(GK_ACT);

    static constexpr u32 kThreads = kWarpsM * kWarpsN * kWarpSize;
    static constexpr u32 kWarpTileM = kTileM / kWarpsM, kWarpTileN = kTileN / kWarpsN;
    static constexpr u32 kFragmentsM = kWarpTileM / kMmaM; // 16 rows each
    static constexpr u32 kFragmentsN = kWarpTileN / kMmaN; // 8 columns each
    static constexpr u32 kStepsK = kTileK / kMmaK;

    using TileA = SwizzledTile<kAAlongK ? kTileM : kTileK, kAAlongK ? kTileK : kTileM>;
    using TileB = SwizzledTile<kBAlongK ? kTileN : kTileK, kBAlongK ? kTileK : kTileN>;

    // Staging holds raw sums. A row is 32 bytes longer than the tile's, so that the 8-byte stores
    // of four rows fall into different banks.
    static constexpr u32 kStagingPitch = kTileN * sizeof(float) + 2 * kChunkBytes;
    static constexpr u32 kStagingBytes = kStaged ? kTileM * kStagingPitch : 0;

    // What a thread needs at once: sums, one set of fragments, and addresses, counters and
    // pointers.
    static constexpr u32 kOtherRegisters = 40, kRegistersOfBlock = 65536, kRegistersOfThread = 255;
    static constexpr u32 kRegisters =
        4 * kFragmentsM * kFragmentsN + 4 * kFragmentsM + 2 * kFragmentsN + kOtherRegisters;
    static constexpr u32 kSharedMax = 232448;

    static_assert(kTileM % (kWarpsM * kMmaM) == 0, "a warp owns whole fragments along M");
    static_assert(kTileN % (kWarpsN * 2 * kMmaN) == 0,
                  "ldmatrix brings two fragments along N at once");
    static_assert(kTileK % kMmaK == 0, "a tile is whole steps along K");
    static_assert(kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kRegisters <= kRegistersOfThread && kRegisters * kThreads <= kRegistersOfBlock,
                  "sums and fragments stay in registers");
    static_assert(kActivation == Activation::kNone || kActivation == Activation::kGelu ||
                      kActivation == Activation::kSilu,
                  "gated activations need two products");
};

struct alignas(128) Smem {
    struct Stage {
        alignas(128) u8 a[Config::TileA::kBytes];
        alignas(128) u8 b[Config::TileB::kBytes];
    };
    union {
        Stage stages[Config::kStages];
        // Used after the last product, when no copy is in flight and no warp reads a stage.
        u8 staging[max_of(Config::kStagingBytes, 1u)];
    };
};
static_assert(sizeof(Smem) <= Config::kSharedMax, "shared memory of a block");

struct Problem {
    i32 m, n, k;
    i64 lda, ldb, ldc;
};

// The part of the product that a block computes: C's tile at (row, col), K from k_begin to k_end.
struct Work {
    i32 row, col;
    i32 k_begin, k_end;
};

// Tiles are numbered down groups of `group` tile rows, column by column inside a group; the last
// group has as many rows as are left.
GK_DEVICE Work find_work(const Problem &problem, i32 group, i32 split_tiles)
{
    constexpr i32 kTileM = Config::kTileM, kTileN = Config::kTileN, kTileK = Config::kTileK;
    const i32 tiles_m = ceil_div(problem.m, kTileM);
    const i32 tiles_n = ceil_div(problem.n, kTileN);
    const i32 index = static_cast<i32>(blockIdx.x);
    const i32 first_row = index / (group * tiles_n) * group;
    const i32 rows = min_of(group, tiles_m - first_row);
    const i32 inside = index - first_row * tiles_n;
    const i32 split = static_cast<i32>(blockIdx.y);
    Work work;
    work.row = (first_row + inside % rows) * kTileM;
    work.col = inside / rows * kTileN;
    work.k_begin = split * split_tiles * kTileK;
    // The space leaves no split empty, and the last one ends with K.
    work.k_end =
        split + 1 == static_cast<i32>(gridDim.y) ? problem.k : work.k_begin + split_tiles * kTileK;
    return work;
}

// The copying half of the ring: brings tile pairs in order, one a call.
class TileFeed
{
    using CopyA = TileCopy<Config::TileA, Config::kThreads, Config::kLoadBytes>;
    using CopyB = TileCopy<Config::TileB, Config::kThreads, Config::kLoadBytes>;
    CopyA copy_a_;
    CopyB copy_b_;
    i64 advance_a_, advance_b_; // elements from one tile to the next
    i32 m_left_, n_left_;       // rows and columns of the matrix from the tile's origin on
    i32 k_left_;                // of this block's part of K, not yet copied

  public:
    GK_DEVICE TileFeed(const Config::Element *a, const Config::Element *b, const Problem &problem,
                       const Work &work)
        : copy_a_(a + (Config::kAAlongK ? work.row * problem.lda + work.k_begin
                                        : work.k_begin * problem.lda + work.row),
                  problem.lda, threadIdx.x),
          copy_b_(b + (Config::kBAlongK ? work.col * problem.ldb + work.k_begin
                                        : work.k_begin * problem.ldb + work.col),
                  problem.ldb, threadIdx.x),
          advance_a_(Config::kTileK * (Config::kAAlongK ? 1 : problem.lda)),
          advance_b_(Config::kTileK * (Config::kBAlongK ? 1 : problem.ldb)),
          m_left_(problem.m - work.row), n_left_(problem.n - work.col),
          k_left_(work.k_end - work.k_begin)
    {
    }

    // Starts the next tile pair into `stage`, or nothing past the end; one commit group either way.
    GK_DEVICE void start_next(Smem::Stage &stage)
    {
        if (k_left_ > 0) {
            copy_a_.issue(ptx::shared_address(stage.a), Config::kAAlongK ? m_left_ : k_left_,
                          Config::kAAlongK ? k_left_ : m_left_);
            copy_b_.issue(ptx::shared_address(stage.b), Config::kBAlongK ? n_left_ : k_left_,
                          Config::kBAlongK ? k_left_ : n_left_);
            copy_a_.advance(advance_a_);
            copy_b_.advance(advance_b_);
            k_left_ -= static_cast<i32>(Config::kTileK);
        }
        ptx::cp_async_commit();
    }
};

// A warp's rectangle of C in registers.
struct Sums {
    FragmentD d[Config::kFragmentsM][Config::kFragmentsN];

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsN; ++j) {
                d[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }
};

// The fragments of one step of 16 along K.
struct Operands {
    FragmentA a[Config::kFragmentsM];
    FragmentB b[Config::kFragmentsN];

    GK_DEVICE void load(u32 tile_a, u32 tile_b, u32 warp_row, u32 warp_col, u32 k)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
            load_fragment_a<Config::TileA, Config::kAAlongK>(a[i], tile_a, warp_row + i * kMmaM, k);
        }
#pragma unroll
        for (u32 j = 0; j < Config::kFragmentsN; j += 2) {
            load_fragments_b<Config::TileB, Config::kBAlongK>(b[j], b[j + 1], tile_b,
                                                              warp_col + j * kMmaN, k);
        }
    }
};

// Multiplies one tile pair. The next step's fragments are loaded while this step's are multiplied.
GK_DEVICE void multiply_tile(Sums &sums, const Smem::Stage &stage, u32 warp_row, u32 warp_col)
{
    const u32 tile_a = ptx::shared_address(stage.a);
    const u32 tile_b = ptx::shared_address(stage.b);
    Operands operands[2];
    operands[0].load(tile_a, tile_b, warp_row, warp_col, 0);
#pragma unroll
    for (u32 step = 0; step < Config::kStepsK; ++step) {
        if (step + 1 < Config::kStepsK) {
            operands[(step + 1) % 2].load(tile_a, tile_b, warp_row, warp_col, (step + 1) * kMmaK);
        }
        const Operands &now = operands[step % 2];
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsN; ++j) {
                mma_m16n8k16(sums.d[i][j], now.a[i], now.b[j], Config::Element{});
            }
        }
    }
}

GK_DEVICE void run_ring(Smem &smem, TileFeed &feed, Sums &sums, i32 tiles, u32 warp_row,
                        u32 warp_col)
{
#pragma unroll
    for (u32 stage = 0; stage + 1 < Config::kStages; ++stage) {
        feed.start_next(smem.stages[stage]);
    }
    u32 full = 0;                    // stage of the tile to multiply
    u32 empty = Config::kStages - 1; // stage of the tile before it, to be refilled
#pragma unroll 1
    for (i32 tile = 0; tile < tiles; ++tile) {
        ptx::cp_async_wait<Config::kStages - 2>();
        __syncthreads();
        feed.start_next(smem.stages[empty]);
        multiply_tile(sums, smem.stages[full], warp_row, warp_col);
        empty = full;
        full = full + 1 == Config::kStages ? 0 : full + 1;
    }
}

// Calls visit(row, col, low, high) for each pair of neighbours that this lane holds; row and col
// are those of `low`, counted from the warp's rectangle. Columns outermost: begin_column(col) comes
// first.
template <typename BeginColumn, typename Visit>
GK_DEVICE void for_each_pair(const Sums &sums, BeginColumn begin_column, Visit visit)
{
    const i32 lane = static_cast<i32>(lane_index());
    const i32 lane_row = lane / 4, lane_col = lane % 4 * 2;
    constexpr i32 kHalf = kMmaM / 2;
#pragma unroll
    for (u32 j = 0; j < Config::kFragmentsN; ++j) {
        const i32 col = static_cast<i32>(j * kMmaN) + lane_col;
        begin_column(col);
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
            const i32 row = static_cast<i32>(i * kMmaM) + lane_row;
            const FragmentD &d = sums.d[i][j];
            visit(row, col, d.v[0], d.v[1]);
            visit(row + kHalf, col, d.v[2], d.v[3]);
        }
    }
}

// Raw sums to the workspace, M rows of `pitch` floats (a multiple of 4); (row0, col0) is the warp's
// corner.
GK_DEVICE void store_partial(const Sums &sums, float *partial, i64 pitch, const Problem &problem,
                             i32 row0, i32 col0)
{
    const i32 rows = problem.m - row0, cols = problem.n - col0;
    float *corner = partial + row0 * pitch + col0;
    for_each_pair(
        sums, [](i32) {},
        [&](i32 row, i32 col, float low, float high) {
            if (row < rows && col < cols) {
                store_pair<float, true>(corner + row * pitch + col, col + 1 < cols, low, high);
            }
        });
}

using Epilogue = GemmEpilogue<Config::Output, Config::kHasBias, Config::kActivation>;

// Each lane finishes its own sums and stores them by pairs. No barrier, no shared memory, but a
// warp writes no more than 16 bytes of a row at once where C has 16-bit elements.
GK_DEVICE void store_direct(const Sums &sums, const Epilogue &epilogue, const Problem &problem,
                            Config::Output *c, i32 row0, i32 col0)
{
    using Output = Config::Output;
    constexpr bool kTogether = Config::kStoreBytes >= 2 * sizeof(Output);
    const i32 rows = problem.m - row0, cols = problem.n - col0;
    const i64 corner = row0 * problem.ldc + col0;
    float bias_low = 0.0f, bias_high = 0.0f;
    for_each_pair(
        sums,
        [&](i32 col) {
            bias_low = col < cols ? epilogue.bias_of(col0 + col) : 0.0f;
            bias_high = col + 1 < cols ? epilogue.bias_of(col0 + col + 1) : 0.0f;
        },
        [&](i32 row, i32 col, float low, float high) {
            if (row >= rows || col >= cols) {
                return;
            }
            const bool both = col + 1 < cols;
            const i64 element = corner + row * problem.ldc + col;
            float c_low = 0.0f, c_high = 0.0f;
            if (epilogue.c_in != nullptr) {
                c_low = to_float(epilogue.c_in[element]);
                c_high = both ? to_float(epilogue.c_in[element + 1]) : 0.0f;
            }
            low = epilogue.finish(low, c_low, bias_low);
            high = epilogue.finish(high, c_high, bias_high);
            store_pair<Output, kTogether>(c + element, both, low, high);
        });
}

// One piece of 16 bytes of C: sums from the staging buffer at `address`, finished and stored.
GK_DEVICE void finish_piece(u32 address, const Epilogue &epilogue, Config::Output *c, i64 element,
                            i32 col, i32 count)
{
    using Piece = RowPiece<Config::Output>;
    constexpr bool kTogether = Config::kStoreBytes == kChunkBytes;
    constexpr i32 kSumsOfRead = kChunkBytes / sizeof(float);
    Piece piece, c_in = {};
    if (epilogue.c_in != nullptr) {
        c_in.template load<kTogether>(epilogue.c_in + element, count);
    }
#pragma unroll
    for (i32 i = 0; i < Piece::kElements; i += kSumsOfRead) {
        const uint4 sums = ptx::ld_shared_v4(address + i * sizeof(float));
        piece.v[i] = __uint_as_float(sums.x);
        piece.v[i + 1] = __uint_as_float(sums.y);
        piece.v[i + 2] = __uint_as_float(sums.z);
        piece.v[i + 3] = __uint_as_float(sums.w);
    }
#pragma unroll
    for (i32 i = 0; i < Piece::kElements; ++i) {
        const float bias = i < count ? epilogue.bias_of(col + i) : 0.0f;
        piece.v[i] = epilogue.finish(piece.v[i], c_in.v[i], bias);
    }
    piece.template store<kTogether>(c + element, count);
}

// The block's whole tile passes through shared memory: warps put their sums down, then all threads
// walk the rows, 16 bytes of C a thread, neighbours side by side, and finish what they pick up.
GK_DEVICE void store_staged(const Sums &sums, const Epilogue &epilogue, const Problem &problem,
                            Smem &smem, Config::Output *c, const Work &work, u32 warp_row,
                            u32 warp_col)
{
    constexpr u32 kPieceElements = RowPiece<Config::Output>::kElements;
    constexpr u32 kRowPieces = Config::kTileN / kPieceElements;
    constexpr u32 kPieces = Config::kTileM * kRowPieces;
    const u32 buffer = ptx::shared_address(smem.staging);
    const u32 corner = buffer + warp_row * Config::kStagingPitch + warp_col * sizeof(float);

    // Every warp has read its last tile: the stages are free. No copy is in flight either, since
    // the groups that the ring has not waited for are the empty ones past the end.
    __syncthreads();
    for_each_pair(
        sums, [](i32) {},
        [&](i32 row, i32 col, float low, float high) {
            ptx::st_shared_v2(corner + row * Config::kStagingPitch + col * sizeof(float),
                              __float_as_uint(low), __float_as_uint(high));
        });
    __syncthreads(); // the tile is whole
#pragma unroll 1
    for (u32 index = threadIdx.x; index < kPieces; index += Config::kThreads) {
        const u32 tile_row = index / kRowPieces, tile_col = index % kRowPieces * kPieceElements;
        const i32 row = work.row + static_cast<i32>(tile_row);
        const i32 col = work.col + static_cast<i32>(tile_col);
        if (row < problem.m && col < problem.n) {
            finish_piece(buffer + tile_row * Config::kStagingPitch + tile_col * sizeof(float),
                         epilogue, c, row * problem.ldc + col, col, problem.n - col);
        }
    }
}

// partial is null for the whole product; else this launch is one of a split of K into gridDim.y
// parts of split_tiles tiles, and c, c_in and bias are not touched.
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_gemm_mma(const Config::Element *a, const Config::Element *b, const Config::Output *c_in,
                const Config::Output *bias, Config::Output *c, float *partial, i32 m, i32 n, i32 k,
                i64 lda, i64 ldb, i64 ldc, float alpha, float beta, i32 group, i32 split_tiles)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    const Problem problem{m, n, k, lda, ldb, ldc};
    const Work work = find_work(problem, group, split_tiles);
    const i64 batch = blockIdx.z;
    a += batch * lda * (Config::kAAlongK ? m : k);
    b += batch * ldb * (Config::kBAlongK ? n : k);

    const u32 warp = warp_index();
    const u32 warp_row = warp % Config::kWarpsM * Config::kWarpTileM;
    const u32 warp_col = warp / Config::kWarpsM * Config::kWarpTileN;
    const i32 tiles = ceil_div(work.k_end - work.k_begin, static_cast<i32>(Config::kTileK));
    TileFeed feed(a, b, problem, work);
    Sums sums;
    sums.clear();
    run_ring(smem, feed, sums, tiles, warp_row, warp_col);

    const i32 row0 = work.row + static_cast<i32>(warp_row);
    const i32 col0 = work.col + static_cast<i32>(warp_col);
    if (partial != nullptr) {
        const i64 pitch = ceil_div(n, 4) * 4;
        const i64 slice = blockIdx.y * static_cast<i64>(gridDim.z) + batch;
        store_partial(sums, partial + slice * m * pitch, pitch, problem, row0, col0);
        return;
    }
    c += batch * m * ldc;
    const Epilogue epilogue{alpha, beta, c_in == nullptr ? nullptr : c_in + batch * m * ldc, bias};
    if constexpr (Config::kStaged) {
        store_staged(sums, epilogue, problem, smem, c, work, warp_row, warp_col);
    } else {
        store_direct(sums, epilogue, problem, c, row0, col0);
    }
}
