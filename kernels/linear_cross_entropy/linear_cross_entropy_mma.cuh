// Loss and log-sum-exp of logits X W^T that are never in memory, on the tensor cores of sm_80 and
// newer. X is rows of K hidden values, W is cols (the vocabulary) rows of K. First of two launches:
// the vocabulary is cut into `splits` parts; a block takes kTileM rows of X and one part, and walks
// over it in tiles of kTileN columns. It leaves, for each of its rows, the largest logit, the sum
// of exponentials below it and, with smoothing, the sum of the logits; and the label's logit where
// the label lies in its part. linear_cross_entropy_combine.cuh makes loss and lse of them.
//
// Layouts   partial[row][split] of kParts floats: maximum, sum, then the sum of logits;
//           target[row], written by the one lane that meets the label. No lane writes it where the
//           label is ignored, and nobody reads it there.
// Grid      x: tiles of rows, then splits: blocks that run at the same time read the same part of
//           W, which so passes from memory once.
// Roles, stages, barriers, ragged edges: <gk/product.cuh>.
// Softmax   The sums of a tile stay in the registers that the tensor cores leave them in. Each lane
//           keeps a running maximum and sum of each of its rows, over its own columns of all tiles;
//           only behind the last tile they are put together, four lanes by shuffles and warps along
//           N through shared memory. So a tile costs no barrier but the ring's.

#include <gk/loss.cuh>
#include <gk/product.cuh>

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    static constexpr u32 kTileM = GK_BM, kTileN = GK_BN, kTileK = GK_BK;
    static constexpr u32 kMatrices = 1;
    static constexpr u32 kWarpsM = GK_WM, kWarpsN = GK_WN;
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kLoadBytes = GK_LOAD_BYTES;
    static constexpr CacheUse kReadA = static_cast<CacheUse>(GK_READ_X);
    static constexpr CacheUse kReadB = static_cast<CacheUse>(GK_READ_W);
    static constexpr bool kSmoothing = GK_SMOOTH;
    static constexpr u32 kParts = kLossParts<kSmoothing>; // floats of a row's partial result
    // Addresses and counters, and what a lane keeps of each of its rows: label, maximum, sum, sum
    // of logits.
    static constexpr u32 kOtherRegisters = 48 + 2 * (kParts + 1) * (kTileM / kWarpsM / kMmaM);
};

using Shape = ProductShape<Config>;
using Sums = ProductSums<Config>;

constexpr u32 kLaneRows = 2 * Shape::kFragmentsM; // rows of a lane: two of each fragment

struct alignas(128) Smem {
    union {
        ProductStage<Config> stages[Config::kStages];
        // Used behind the last product: of each warp along N, the results of the tile's rows.
        float parts[Config::kWarpsN][Config::kTileM][Config::kParts];
    };
};
static_assert(sizeof(Smem) <= Shape::kSharedMax, "shared memory of a block");

// What is known of a row so far.
struct RowState {
    float most = MaxOp::neutral(), sum = 0.0f, logits = 0.0f;

    // Takes over what another set of columns has. Nothing is lost where one of them is empty, whose
    // maximum is -inf: differences of two such would be NaN.
    GK_DEVICE void join(float other_most, float other_sum, float other_logits)
    {
        const float more = fmaxf(most, other_most);
        sum = scaled(sum, most, more) + scaled(other_sum, other_most, more);
        most = more;
        logits += other_logits;
    }

    static GK_DEVICE float scaled(float sum, float from, float to)
    {
        return from == to ? sum : sum * ptx::exp2_approx((from - to) * kLog2E);
    }
};

struct Rows {
    RowState state[kLaneRows];
    i32 label[kLaneRows]; // -1: none that a column could be

    // `first`: the row of the block's tile that the warp begins with.
    GK_DEVICE void load_labels(const i64 *labels, i32 first, i32 rows, i32 cols, i64 ignore)
    {
#pragma unroll
        for (u32 r = 0; r < kLaneRows; ++r) {
            const i32 row = first + row_of(r);
            const i64 at = row < rows ? labels[row] : -1;
            label[r] = at >= 0 && at < cols && at != ignore ? static_cast<i32>(at) : -1;
        }
    }

    // Row r of this lane, counted from the warp's rectangle.
    static GK_DEVICE i32 row_of(u32 r)
    {
        return fragment_row(r / 2) + static_cast<i32>(r % 2) * kFragmentHalf;
    }
};

// One row of one lane in one tile: its logits, `col0` the warp's first column. Columns from
// cols_left on, counted from there, lie outside.
template <bool kRagged>
GK_DEVICE void add_tile_row(RowState &state, const Sums &sums, u32 r, i32 cols_left)
{
    float most = state.most, logits = 0.0f;
    float v[2 * Shape::kFragmentsN];
#pragma unroll
    for (u32 j = 0; j < Shape::kFragmentsN; ++j) {
#pragma unroll
        for (u32 e = 0; e < 2; ++e) {
            const bool inside = !kRagged || fragment_col(j) + static_cast<i32>(e) < cols_left;
            const float logit = sums.d[0][r / 2][j].v[r % 2 * 2 + e];
            v[2 * j + e] = inside ? logit : MaxOp::neutral();
            most = fmaxf(most, v[2 * j + e]);
            if constexpr (Config::kSmoothing) {
                logits += inside ? logit : 0.0f;
            }
        }
    }
    state.logits += logits;
    if (most == MaxOp::neutral()) {
        return; // nothing but columns outside so far
    }
    float sum = 0.0f;
#pragma unroll
    for (u32 c = 0; c < 2 * Shape::kFragmentsN; ++c) {
        // The difference first: of large logits it is exact, their products with log2 e are not.
        sum += ptx::exp2_approx((v[c] - most) * kLog2E);
    }
    state.sum = RowState::scaled(state.sum, state.most, most) + sum;
    state.most = most;
}

// Writes the label's logit of each row that has it among this lane's columns of the tile.
// `col0`: the warp's first column of the vocabulary; `target`: of the warp's first row.
GK_DEVICE void find_targets(const Rows &rows, const Sums &sums, i32 col0, float *target)
{
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r) {
        const i32 at = rows.label[r] - col0;
        if (at < 0 || at >= static_cast<i32>(Shape::kWarpTileN)) {
            continue;
        }
#pragma unroll
        for (u32 j = 0; j < Shape::kFragmentsN; ++j) {
#pragma unroll
            for (u32 e = 0; e < 2; ++e) {
                if (at == fragment_col(j) + static_cast<i32>(e)) {
                    target[Rows::row_of(r)] = sums.d[0][r / 2][j].v[r % 2 * 2 + e];
                }
            }
        }
    }
}

GK_DEVICE void add_tile(Rows &rows, const Sums &sums, i32 cols_left)
{
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r) {
        if (cols_left >= static_cast<i32>(Shape::kWarpTileN)) {
            add_tile_row<false>(rows.state[r], sums, r, cols_left);
        } else {
            add_tile_row<true>(rows.state[r], sums, r, cols_left);
        }
    }
}

// The block's result: lanes of a row by shuffles, warps along N through shared memory in order.
GK_DEVICE void store_rows(Rows &rows, Smem &smem, float *partial, u32 warp_row, u32 warp_n,
                          i32 rows_left, i32 split, i32 splits)
{
    // Every warp has read its last tile, and no copy is in flight: the groups that the ring has not
    // waited for are the empty ones past the end.
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < kLaneRows; ++r) {
        RowState state = rows.state[r];
#pragma unroll
        for (u32 distance = 1; distance < 4; distance *= 2) {
            const float most = ptx::shuffle_xor(state.most, distance);
            const float sum = ptx::shuffle_xor(state.sum, distance);
            state.join(most, sum, ptx::shuffle_xor(state.logits, distance));
        }
        if (lane_index() % 4 == 0) {
            float *part = smem.parts[warp_n][warp_row + static_cast<u32>(Rows::row_of(r))];
            part[0] = state.most;
            part[1] = state.sum;
            if constexpr (Config::kSmoothing) {
                part[2] = state.logits;
            }
        }
    }
    __syncthreads();
    for (u32 row = threadIdx.x; row < Config::kTileM; row += Shape::kThreads) {
        if (static_cast<i32>(row) < rows_left) {
            RowState state;
#pragma unroll
            for (u32 warp = 0; warp < Config::kWarpsN; ++warp) {
                const float *part = smem.parts[warp][row];
                state.join(part[0], part[1], Config::kSmoothing ? part[Config::kParts - 1] : 0.0f);
            }
            float *out = partial + (row * static_cast<i64>(splits) + split) * Config::kParts;
            out[0] = state.most;
            out[1] = state.sum;
            if constexpr (Config::kSmoothing) {
                out[2] = state.logits;
            }
        }
    }
}

// The parts are runs of column tiles whose lengths differ by one at most; none is empty, as the
// space asks for no more parts than tiles.
extern "C" __global__ void __launch_bounds__(Shape::kThreads)
    gk_linear_cross_entropy_mma(const Config::Element *x, const Config::Element *w,
                                const i64 *labels, float *partial, float *target, i32 rows,
                                i32 cols, i32 depth, i64 ldx, i64 ldw, i64 ignore, i32 splits)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    constexpr i32 kTileM = Config::kTileM, kTileN = Config::kTileN, kTileK = Config::kTileK;
    const i32 tiles_m = ceil_div(rows, kTileM);
    const i32 split = static_cast<i32>(blockIdx.x) / tiles_m;
    const i32 row0 = (static_cast<i32>(blockIdx.x) - split * tiles_m) * kTileM;
    const i64 tiles_n = ceil_div(cols, kTileN);
    const i32 col0 = static_cast<i32>(split * tiles_n / splits) * kTileN;
    const i32 end = static_cast<i32>((split + 1) * tiles_n / splits) * kTileN;
    const i32 width = min_of(cols, end) - col0;
    const u32 warp = warp_index();
    const u32 warp_n = warp / Config::kWarpsM;
    const u32 warp_row = warp % Config::kWarpsM * Shape::kWarpTileM;
    const u32 warp_col = warp_n * Shape::kWarpTileN;
    const i32 k_tiles = ceil_div(depth, kTileK);

    Rows lane_rows;
    lane_rows.load_labels(labels + row0, static_cast<i32>(warp_row), rows - row0, cols, ignore);
    ProductFeed<Config> feed(x + row0 * ldx, ldx, w + col0 * ldw, nullptr, ldw,
                             ProductWork{rows - row0, width, depth});
    ProductRing<Config> ring(smem.stages, feed);
    ring.begin();
#pragma unroll 1
    for (i32 col = 0; col < width; col += kTileN) {
        Sums sums;
        sums.clear();
        ring.run(sums, k_tiles, warp_row, warp_col);
        const i32 warp_first = col + static_cast<i32>(warp_col); // of the part
        find_targets(lane_rows, sums, col0 + warp_first, target + row0 + warp_row);
        add_tile(lane_rows, sums, width - warp_first);
    }
    store_rows(lane_rows, smem, partial + static_cast<i64>(row0) * splits * Config::kParts,
               warp_row, warp_n, rows - row0, split, splits);
}
