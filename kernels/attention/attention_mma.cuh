// O = softmax(scale * Q K^T, masked) V for every request and head, on the tensor cores of sm_80 and
// newer: mma.m16n8k16 on registers, scores never in memory. bf16 or f16 in and out; scores, sums
// and O in fp32; probabilities are rounded to the element type for the second product.
//
// Layouts   Requests follow one another. bshd: tokens of [heads, dim], `ld` elements apart; bhsd:
//           of each request [heads, tokens, dim], rows `ld` apart. Query head h uses key head h /
//           (q_heads / kv_heads).
// Rows      A block owns kTileM rows of one head of one request, a warp kWarpRows of them. With
//           PACK the rows are those of all query heads that share a key head: row r is query r /
//           ratio of head r % ratio of the group, so K and V are read once for all.
// Grid      Tiles of rows, heads, requests in one number; `group` heads take turns, their later
//           tiles (which see more keys under a causal mask) first. Tiles are counted for the
//           longest request: blocks past the end of a shorter one leave.
// Roles     All warps do the same: each copies its share of every tile of K and V, and multiplies
//           its own rows of Q with all of them. Nothing is exchanged between warps.
// Stages    Two rings of kStages tiles, K and V, filled in the order K0 V0 K1 V1 ...; groups of
//           cp.async are counted, one a tile and an empty one past the end. Before either product
//           of tile t, "all but the youngest 2 (kStages - 1) groups" means that its operand has
//           landed.
// Barriers  Two a tile, each after such a wait: (1) K of tile t is visible to all, and all have
//           finished with V of tile t-1, whose stage is refilled right after it; (2) V of tile t is
//           visible, and all have finished with K of tile t, whose stage is refilled. With rotary
//           embedding a third between them: K has been turned where it lies.
// Softmax   Online, in base 2. `most` is the largest score of a row so far, `sum` each lane's part
//           of the sum of exponentials below it, reduced over the row once at the end. A row that
//           has seen nothing has most = -inf; its exponentials are taken below 0 then, so that
//           -inf - -inf never occurs, and are 0. RESCALE says when sums and O are scaled down to a
//           larger maximum: at every tile; where a row of the warp has a larger one; or (lazy) only
//           where it has grown by more than 2^8, as exponentials up to 256 lose nothing.
// Masks     Tiles that no row of the block sees are skipped; tiles that every row sees whole are
//           not masked. Keys behind the last are zeros in shared memory, and masked.
// Epilogue  Each warp puts O where its rows of Q lay, which nobody reads since the last barrier,
//           and stores rows by pieces of 16 bytes.
//
// Parameters (attention_mma.kernel.json has their values and rules): BM rows and BN keys of a tile,
// WARPS, STAGES, QUERIES in shared memory or held in registers, LOAD how caches treat K and V,
// STORE how they treat O, PACK, RESCALE. HEADS (`group`) is a run-time argument.

#include <gk/row_tile.cuh>

using namespace gk;

struct Config {
    using Element = GK_DTYPE;
    static constexpr u32 kTileM = GK_BM, kTileN = GK_BN;
    static constexpr u32 kWarps = GK_WARPS, kStages = GK_STAGES;
    static constexpr u32 kDim = GK_HEAD_DIM, kDimV = GK_HEAD_DIM_V;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
    static constexpr bool kQueriesHeld = GK_QUERIES == GK_QUERIES_REGISTERS;
    static constexpr bool kPack = GK_PACK;
    static constexpr bool kRescaleAlways = GK_RESCALE == GK_RESCALE_ALWAYS;
    static constexpr float kSlack = GK_RESCALE == GK_RESCALE_LAZY ? 8.0f : 0.0f; // of base 2
    static constexpr bool kHeadsFirst = GK_LAYOUT == GK_LAYOUT_BHSD;
    static constexpr bool kCausal = GK_MASK == GK_MASK_CAUSAL;
    static constexpr bool kWindow = GK_MASK == GK_MASK_WINDOW;
    static constexpr i32 kSinkTokens = GK_SINK_TOKENS;
    static constexpr float kSoftcap = static_cast<float>(GK_SOFTCAP);
    static constexpr bool kAlibi = GK_ALIBI, kSink = GK_SINK, kLse = GK_LSE;
    static constexpr bool kRope = GK_ROPE != GK_ROPE_NONE;
    static constexpr bool kNeox = GK_ROPE == GK_ROPE_NEOX;
    static constexpr u32 kRotaryDim = GK_ROTARY_DIM;
    // Scores that are more than a product with a constant are made whole, in base 2, first; else
    // the constant goes into the exponential's argument.
    static constexpr bool kWhole = kSoftcap > 0.0f || kAlibi;

    static constexpr u32 kThreads = kWarps * kWarpSize;
    static constexpr u32 kWarpRows = kTileM / kWarps;
    static constexpr u32 kFragmentsM = kWarpRows / kMmaM;
    static constexpr u32 kFragmentsN = kTileN / kMmaN; // of scores
    static constexpr u32 kFragmentsO = kDimV / kMmaN;
    static constexpr u32 kSteps = kDim / kMmaK, kStepsV = kTileN / kMmaK;

    using TileQ = RowTile<kWarpRows, kDim>; // of one warp
    using TileO = RowTile<kWarpRows, kDimV>;
    using TileK = RowTile<kTileN, kDim>;
    using TileV = RowTile<kTileN, kDimV>;

    // What a thread needs at once.
    static constexpr u32 kOtherRegisters = 40, kRegistersOfBlock = 65536, kRegistersOfThread = 255;
    static constexpr u32 kRegisters = 4 * kFragmentsM * (kFragmentsN + kFragmentsO) +
                                      4 * kFragmentsM * (kQueriesHeld ? kSteps : 1) +
                                      kOtherRegisters;
    static constexpr u32 kSharedMax = 232448;

    static_assert(kTileM % (kWarps * kMmaM) == 0, "a warp owns whole fragments of rows");
    static_assert(kTileN % (2 * kMmaN) == 0, "a step of the second product is 16 keys");
    static_assert(kDim % kMmaK == 0 && kDimV % (2 * kMmaN) == 0, "heads are whole fragments");
    static_assert(kRegisters <= kRegistersOfThread && kRegisters * kThreads <= kRegistersOfBlock,
                  "scores and sums stay in registers");
};

struct alignas(128) Smem {
    // Queries, then outputs, of each warp.
    alignas(128) u8 rows[Config::kWarps][max_of(Config::TileQ::kBytes, Config::TileO::kBytes)];
    alignas(128) u8 k[Config::kStages][Config::TileK::kBytes];
    alignas(128) u8 v[Config::kStages][Config::TileV::kBytes];
};
static_assert(sizeof(Smem) <= Config::kSharedMax, "shared memory of a block");

constexpr float kLog2e = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;
constexpr i32 kTileM = Config::kTileM, kTileN = Config::kTileN;

struct Problem {
    i32 q_heads, kv_heads;
    i32 window_left, window_right;
    i64 q_ld, k_ld, v_ld, o_ld;
    float scale;
};

// What a block works on.
struct Work {
    i64 q_begin, kv_begin; // tokens of the requests before this one
    i32 q_len, kv_len;
    i32 head, kv_head; // head: the first of the group with PACK
    i32 ratio;         // query heads that the rows are of
    i32 row, rows;     // the block's first row, and the rows of the whole head or group
    i32 shift;         // query i stands at key i + shift

    GK_DEVICE i32 query_of(i32 row_of_head) const
    {
        return Config::kPack ? row_of_head / ratio : row_of_head;
    }
    GK_DEVICE i32 head_of(i32 row_of_head) const
    {
        return Config::kPack ? head + row_of_head % ratio : head;
    }
    // Elements before a row of Q or O of `dim` columns.
    GK_DEVICE i64 offset_of(i32 row_of_head, i32 heads, i64 ld, i32 dim) const
    {
        const i32 query = query_of(row_of_head), h = head_of(row_of_head);
        if constexpr (Config::kHeadsFirst) {
            return (q_begin * heads + static_cast<i64>(h) * q_len + query) * ld;
        } else {
            return (q_begin + query) * ld + h * dim;
        }
    }
    // The same of the first row of K or V.
    GK_DEVICE i64 offset_of_keys(i32 heads, i64 ld, i32 dim) const
    {
        if constexpr (Config::kHeadsFirst) {
            return (kv_begin * heads + static_cast<i64>(kv_head) * kv_len) * ld;
        } else {
            return kv_begin * ld + kv_head * dim;
        }
    }
};

// False: there is no such row. `block`: its number.
GK_DEVICE bool find_work(Work &work, const Problem &problem, const i32 *q_offsets,
                         const i32 *kv_offsets, i32 tiles, i32 group, u32 block)
{
    const i32 ratio = problem.q_heads / problem.kv_heads;
    const i32 heads = Config::kPack ? problem.kv_heads : problem.q_heads;
    const i32 request = static_cast<i32>(block) / (tiles * heads);
    const i32 rest = static_cast<i32>(block) - request * tiles * heads;
    const i32 first = rest / (group * tiles) * group; // head
    const i32 together = min_of(group, heads - first);
    const i32 inside = rest - first * tiles;
    const i32 head = first + inside % together;
    work.row = (tiles - 1 - inside / together) * kTileM;
    work.q_begin = q_offsets[request];
    work.kv_begin = kv_offsets[request];
    work.q_len = q_offsets[request + 1] - static_cast<i32>(work.q_begin);
    work.kv_len = kv_offsets[request + 1] - static_cast<i32>(work.kv_begin);
    work.head = Config::kPack ? head * ratio : head;
    work.kv_head = Config::kPack ? head : head / ratio;
    work.ratio = Config::kPack ? ratio : 1;
    work.rows = work.q_len * work.ratio;
    work.shift = work.kv_len - work.q_len;
    return work.row < work.rows;
}

// The keys that a query sees: from `begin` to `end`, and the first kSinkTokens of those before.
struct Seen {
    i32 begin, end;
};

GK_DEVICE Seen seen_by(const Work &work, const Problem &problem, i32 query)
{
    Seen seen{0, work.kv_len};
    if constexpr (Config::kCausal) {
        seen.end = clamp_of(query + work.shift + 1, 0, work.kv_len);
    } else if constexpr (Config::kWindow) {
        seen.end = clamp_of(query + work.shift + problem.window_right + 1, 0, work.kv_len);
        seen.begin = max_of(query + work.shift - problem.window_left, 0);
    }
    return seen;
}

// The tiles of keys that a block visits: those of the sink tokens, then those from `jump` on.
struct Tiles {
    i32 count;
    i32 sinks, jump;  // tile t is t below `sinks`, else t - sinks + jump
    Seen first, last; // of the block's first and last query

    GK_DEVICE Tiles(const Work &work, const Problem &problem)
        : first(seen_by(work, problem, work.query_of(work.row))),
          last(seen_by(work, problem, work.query_of(min_of(work.row + kTileM, work.rows) - 1)))
    {
        const i32 end = ceil_div(last.end, kTileN);
        jump = Config::kWindow ? min_of(first.begin / kTileN, end) : 0;
        sinks = min_of(ceil_div(Config::kSinkTokens, kTileN), jump);
        count = sinks + end - jump;
    }

    GK_DEVICE i32 key_of(i32 tile) const
    {
        if constexpr (!Config::kWindow) {
            return tile * kTileN;
        }
        return (tile < sinks ? tile : tile - sinks + jump) * kTileN;
    }

    // Whether some row does not see all keys of the tile that begins at `key`.
    GK_DEVICE bool is_masked(i32 key) const
    {
        if constexpr (Config::kWindow) {
            if (key < last.begin && key + kTileN > Config::kSinkTokens) {
                return true;
            }
        }
        return key + kTileN > first.end;
    }
};

// The copying half of the rings: brings tiles of K and of V in order, one a call.
class TileFeed
{
    using CopyK = RowTileCopy<Config::TileK, Config::kThreads, Config::kLoad>;
    using CopyV = RowTileCopy<Config::TileV, Config::kThreads, Config::kLoad>;
    CopyK copy_k_;
    CopyV copy_v_;
    i64 k_ld_, v_ld_;
    i32 kv_len_;
    u64 policy_;

  public:
    GK_DEVICE TileFeed(const Config::Element *k, const Config::Element *v, const Problem &problem,
                       const Work &work)
        : copy_k_(k + work.offset_of_keys(problem.kv_heads, problem.k_ld, Config::kDim),
                  problem.k_ld),
          copy_v_(v + work.offset_of_keys(problem.kv_heads, problem.v_ld, Config::kDimV),
                  problem.v_ld),
          k_ld_(problem.k_ld), v_ld_(problem.v_ld), kv_len_(work.kv_len),
          policy_(ptx::cache_policy<Config::kLoad>())
    {
    }

    // Tile number `tile` to its stage, or nothing past the end; one commit group either way.
    GK_DEVICE void start_k(Smem &smem, const Tiles &tiles, i32 tile, u32 stage) const
    {
        if (tile < tiles.count) {
            const i32 key = tiles.key_of(tile);
            copy_k_.issue(ptx::shared_address(smem.k[stage]), k_ld_, key, kv_len_ - key, policy_);
        }
        ptx::cp_async_commit();
    }

    GK_DEVICE void start_v(Smem &smem, const Tiles &tiles, i32 tile, u32 stage) const
    {
        if (tile < tiles.count) {
            const i32 key = tiles.key_of(tile);
            copy_v_.issue(ptx::shared_address(smem.v[stage]), v_ld_, key, kv_len_ - key, policy_);
        }
        ptx::cp_async_commit();
    }
};

// ---------------------------------------------------------------------------- rotary embedding

GK_DEVICE void turn(float &x, float &y, float cosine, float sine)
{
    const float before = x;
    x = before * cosine - y * sine;
    y = y * cosine + before * sine;
}

// Turns the first kRotaryDim columns of a tile's rows where they lie, by kThreadsOf threads: a
// piece is one chunk of the first half and the one of the second that belongs to it (NeoX), or one
// chunk of whole pairs (GPT-J). `angles_of(row)` gives the row of the table: cosines, then sines.
template <typename Tile, u32 kThreadsOf, typename AnglesOf>
GK_DEVICE void rotate_tile(u32 tile, u32 thread, i32 rows, AnglesOf angles_of)
{
    using Element = Config::Element;
    constexpr u32 kHalf = Config::kRotaryDim / 2;
    constexpr u32 kPairs = Config::kNeox ? Tile::kChunkElements : Tile::kChunkElements / 2;
    constexpr u32 kRowPieces = kHalf / kPairs, kWords = kChunkBytes / 4;
    const u32 pieces =
        static_cast<u32>(clamp_of(rows, 0, static_cast<i32>(Tile::kRows))) * kRowPieces;
#pragma unroll 1
    for (u32 piece = thread; piece < pieces; piece += kThreadsOf) {
        const u32 row = piece / kRowPieces, chunk = piece % kRowPieces;
        const float *cosines = angles_of(static_cast<i32>(row)) + chunk * kPairs;
        const u32 low = tile + Tile::offset(row, chunk);
        const u32 high = tile + Tile::offset(row, chunk + kHalf / Tile::kChunkElements);
        const uint4 x4 = ptx::ld_shared_v4(low);
        u32 x[kWords] = {x4.x, x4.y, x4.z, x4.w};
        if constexpr (Config::kNeox) {
            const uint4 y4 = ptx::ld_shared_v4(high);
            u32 y[kWords] = {y4.x, y4.y, y4.z, y4.w};
#pragma unroll
            for (u32 w = 0; w < kWords; ++w) {
                float x0, x1, y0, y1;
                unpack_pair<Element>(x[w], x0, x1);
                unpack_pair<Element>(y[w], y0, y1);
                turn(x0, y0, cosines[2 * w], cosines[kHalf + 2 * w]);
                turn(x1, y1, cosines[2 * w + 1], cosines[kHalf + 2 * w + 1]);
                x[w] = pack_pair<Element>(x0, x1);
                y[w] = pack_pair<Element>(y0, y1);
            }
            ptx::st_shared_v4(high, y[0], y[1], y[2], y[3]);
        } else {
#pragma unroll
            for (u32 w = 0; w < kWords; ++w) {
                float x0, x1;
                unpack_pair<Element>(x[w], x0, x1);
                turn(x0, x1, cosines[w], cosines[kHalf + w]);
                x[w] = pack_pair<Element>(x0, x1);
            }
        }
        ptx::st_shared_v4(low, x[0], x[1], x[2], x[3]);
    }
}

// ---------------------------------------------------------------------------- queries

// A warp's rows of Q: copied, turned, and held in registers or read from shared memory step by
// step.
class Queries
{
    static constexpr u32 kHeld = Config::kQueriesHeld ? Config::kSteps : 1;
    u32 tile_;
    TilePlace<Config::TileQ> place_;
    FragmentA held_[kHeld][Config::kFragmentsM];

    GK_DEVICE void load(FragmentA (&a)[Config::kFragmentsM], u32 step) const
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
            load_fragment_a(a[i], place_, i * kMmaM, step * kMmaK);
        }
    }

  public:
    GK_DEVICE explicit Queries(u32 tile) : tile_(tile), place_(place_of_a<Config::TileQ>(tile))
    {
    }

    // Starts the copy; the caller commits. `row`: the warp's first.
    GK_DEVICE void start(const Config::Element *q, const Problem &problem, const Work &work,
                         i32 row) const
    {
        copy_rows<Config::TileQ, kWarpSize, CacheUse::kL2>(
            tile_, lane_index(), work.rows - row,
            [&](u32 r) {
                return q + work.offset_of(min_of(row + static_cast<i32>(r), work.rows - 1),
                                          problem.q_heads, problem.q_ld, Config::kDim);
            },
            0);
    }

    // When this thread's copies have landed.
    GK_DEVICE void settle(const Work &work, i32 row, const float *table)
    {
        __syncwarp(); // those of the other lanes too
        if constexpr (Config::kRope) {
            const i32 before = max_of(work.shift, 0);
            rotate_tile<Config::TileQ, kWarpSize>(tile_, lane_index(), work.rows - row, [&](i32 r) {
                return table + static_cast<i64>(before + work.query_of(row + r)) *
                                   static_cast<i64>(Config::kRotaryDim);
            });
            __syncwarp();
        }
        if constexpr (Config::kQueriesHeld) {
#pragma unroll
            for (u32 step = 0; step < Config::kSteps; ++step) {
                load(held_[step % kHeld], step);
            }
        }
    }

    GK_DEVICE void get(FragmentA (&a)[Config::kFragmentsM], u32 step) const
    {
        if constexpr (Config::kQueriesHeld) {
#pragma unroll
            for (u32 i = 0; i < Config::kFragmentsM; ++i) {
                a[i] = held_[step % kHeld][i];
            }
        } else {
            load(a, step);
        }
    }
};

// ---------------------------------------------------------------------------- scores

// A warp's rows against the keys of one tile.
struct Scores {
    FragmentD s[Config::kFragmentsM][Config::kFragmentsN];

    GK_DEVICE void multiply(const Queries &queries, const TilePlace<Config::TileK> &place)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsN; ++j) {
                s[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
#pragma unroll
        for (u32 step = 0; step < Config::kSteps; ++step) {
            FragmentA a[Config::kFragmentsM];
            queries.get(a, step);
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsN; j += 2) {
                FragmentB b[2];
                load_fragments_b<Config::TileK, true>(b[0], b[1], place, j * kMmaN, step * kMmaK);
#pragma unroll
                for (u32 i = 0; i < Config::kFragmentsM; ++i) {
                    mma_m16n8k16(s[i][j], a[i], b[0], Config::Element{});
                    mma_m16n8k16(s[i][j + 1], a[i], b[1], Config::Element{});
                }
            }
        }
    }

    // Calls visit(score, i, half, column) for each that this lane holds: of row half * 8 + lane / 4
    // of fragment i; column is a constant, counted from the lane's first key.
    template <typename Visit> GK_DEVICE void for_each(Visit visit)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsN; ++j) {
#pragma unroll
                for (u32 e = 0; e < 4; ++e) {
                    visit(s[i][j].v[e], i, e / 2, static_cast<i32>(j * kMmaN + e % 2));
                }
            }
        }
    }
};

// Exponentials of the scores, rounded: where a lane holds them is where the second product takes
// its first operand from.
struct Probabilities {
    FragmentA a[Config::kFragmentsM][Config::kStepsV];
};

// The first key of a tile whose scores a lane holds.
GK_DEVICE i32 lane_key()
{
    return static_cast<i32>(lane_index()) % 4 * 2;
}

// Of each of a lane's rows: [fragment][half].
template <typename T> struct PerRow {
    T at[Config::kFragmentsM][2];

    template <typename Make> GK_DEVICE void fill(Make make)
    {
        const i32 lane_row = static_cast<i32>(lane_index()) / 4;
#pragma unroll
        for (i32 i = 0; i < static_cast<i32>(Config::kFragmentsM); ++i) {
#pragma unroll
            for (i32 half = 0; half < 2; ++half) {
                at[i][half] = make(i * static_cast<i32>(kMmaM) + half * 8 + lane_row);
            }
        }
    }
};

// The places of a lane's rows among the keys, counted from the lane's first key of a tile. Of one
// head they differ by constants, which compares and sums take as they are.
class Places
{
    PerRow<i32> of_row_;
    i32 first_;

  public:
    GK_DEVICE Places(const Work &work, i32 row, i32 key)
    {
        const i32 from = work.shift - key - lane_key();
        if constexpr (Config::kPack) {
            of_row_.fill([&](i32 r) { return work.query_of(row + r) + from; });
        } else {
            first_ = row + static_cast<i32>(lane_index()) / 4 + from;
        }
    }

    GK_DEVICE i32 at(u32 i, u32 half) const
    {
        if constexpr (Config::kPack) {
            return of_row_.at[i][half];
        } else {
            return first_ + static_cast<i32>(i * kMmaM + half * 8);
        }
    }
};

// 2^(-8 (h + 1) / n) for the first n heads, n the largest power of two that is not above their
// number; the others take the places between. In base 2, as the scores.
GK_DEVICE float alibi_slope(i32 head, i32 heads)
{
    i32 power = 1;
    while (2 * power <= heads) {
        power *= 2;
    }
    const float steps = head < power ? 8.0f * static_cast<float>(head + 1)
                                     : 4.0f * static_cast<float>(2 * (head - power) + 1);
    return kLog2e * ptx::exp2_approx(-steps / static_cast<float>(power));
}

// Scores in base 2, with softcap and ALiBi. cap tanh(x) is cap - 2 cap / (e^2x + 1).
GK_DEVICE void finish_scores(Scores &scores, const Problem &problem, const Work &work,
                             const PerRow<float> &slopes, i32 row, i32 key)
{
    const Places places(work, row, key);
    scores.for_each([&](float &s, u32 i, u32 half, i32 column) {
        if constexpr (Config::kSoftcap > 0.0f) {
            constexpr float kCap = Config::kSoftcap * kLog2e;
            const float power =
                ptx::exp2_approx(s * (problem.scale * (2.0f * kLog2e / Config::kSoftcap)));
            s = kCap - 2.0f * kCap * ptx::rcp_approx(power + 1.0f);
        } else {
            s *= problem.scale * kLog2e;
        }
        if constexpr (Config::kAlibi) {
            const i32 distance = places.at(i, half) - column;
            s -= slopes.at[i][half] * static_cast<float>(distance < 0 ? -distance : distance);
        }
    });
}

// The same rule as seen_by, for the scores of one tile. Under a causal mask the last key needs no
// look: no query stands behind it, but for rows that are not stored.
GK_DEVICE void mask_scores(Scores &scores, const Problem &problem, const Work &work, i32 row,
                           i32 key)
{
    const float minus_infinity = __uint_as_float(0xff800000u);
    const Places places(work, row, key);
    const i32 left = work.kv_len - key - lane_key();
    const i32 sinks = Config::kSinkTokens - key - lane_key();
    scores.for_each([&](float &s, u32 i, u32 half, i32 column) {
        bool visible;
        if constexpr (Config::kCausal) {
            visible = column <= places.at(i, half);
        } else if constexpr (Config::kWindow) {
            const bool near = column <= places.at(i, half) + problem.window_right &&
                              column >= places.at(i, half) - problem.window_left;
            const bool sink = Config::kSinkTokens > 0 && column < sinks &&
                              column <= places.at(i, half) + problem.window_right;
            visible = column < left && (near || sink);
        } else {
            visible = column < left;
        }
        s = visible ? s : minus_infinity;
    });
}

// ---------------------------------------------------------------------------- sums

// A warp's rows of O, not yet divided by the sums of exponentials.
struct Sums {
    FragmentD o[Config::kFragmentsM][Config::kFragmentsO];
    PerRow<float> most, sum;

    GK_DEVICE void clear()
    {
        most.fill([](i32) { return __uint_as_float(0xff800000u); });
        sum.fill([](i32) { return 0.0f; });
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsO; ++j) {
                o[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }

    // What exponentials are taken below.
    static GK_DEVICE float base_of(float m)
    {
        return m == __uint_as_float(0xff800000u) ? 0.0f : m;
    }

    GK_DEVICE void scale_row(u32 i, u32 half, float factor)
    {
        sum.at[i][half] *= factor;
#pragma unroll
        for (u32 j = 0; j < Config::kFragmentsO; ++j) {
            o[i][j].v[2 * half] *= factor;
            o[i][j].v[2 * half + 1] *= factor;
        }
    }

    // Lets the maxima grow to those of a tile. `to_log2`: from scores to powers of two.
    GK_DEVICE void grow(const Scores &scores, float to_log2)
    {
        PerRow<float> more;
        bool grown = false;
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                float m = most.at[i][half];
#pragma unroll
                for (u32 j = 0; j < Config::kFragmentsN; ++j) {
                    m = fmaxf(m, fmaxf(scores.s[i][j].v[2 * half], scores.s[i][j].v[2 * half + 1]));
                }
                m = fmaxf(m, ptx::shuffle_xor(m, 1u));
                m = fmaxf(m, ptx::shuffle_xor(m, 2u));
                more.at[i][half] = m;
                // Of two maxima of -inf it is NaN, and not greater.
                grown = grown || (m - most.at[i][half]) * to_log2 > Config::kSlack;
            }
        }
        if (!Config::kRescaleAlways && !__any_sync(kFullMask, grown)) {
            return;
        }
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const float base = base_of(more.at[i][half]);
                scale_row(i, half, ptx::exp2_approx((most.at[i][half] - base) * to_log2));
                most.at[i][half] = more.at[i][half];
            }
        }
    }

    // Makes exponentials of scores and adds them to the sums.
    GK_DEVICE void exponentials(Probabilities &p, const Scores &scores, float to_log2)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const float base = base_of(most.at[i][half]) * to_log2;
#pragma unroll
                for (u32 j = 0; j < Config::kFragmentsN; ++j) {
                    const float *pair = &scores.s[i][j].v[2 * half];
                    const float low = ptx::exp2_approx(fmaf(pair[0], to_log2, -base));
                    const float high = ptx::exp2_approx(fmaf(pair[1], to_log2, -base));
                    sum.at[i][half] += low + high;
                    p.a[i][j / 2].r[j % 2 * 2 + half] = pack_pair<Config::Element>(low, high);
                }
            }
        }
    }

    // O += P V.
    GK_DEVICE void multiply(const Probabilities &p, const TilePlace<Config::TileV> &place)
    {
#pragma unroll
        for (u32 step = 0; step < Config::kStepsV; ++step) {
#pragma unroll
            for (u32 j = 0; j < Config::kFragmentsO; j += 2) {
                FragmentB b[2];
                load_fragments_b<Config::TileV, false>(b[0], b[1], place, j * kMmaN, step * kMmaK);
#pragma unroll
                for (u32 i = 0; i < Config::kFragmentsM; ++i) {
                    mma_m16n8k16(o[i][j], p.a[i][step], b[0], Config::Element{});
                    mma_m16n8k16(o[i][j + 1], p.a[i][step], b[1], Config::Element{});
                }
            }
        }
    }
};

// ---------------------------------------------------------------------------- the end

struct Outputs {
    Config::Element *o;
    float *lse;
    const float *sinks; // one logit a head, in the sum of exponentials alone

    // `row`: of the head or group. One lane of each row writes it.
    GK_DEVICE void store_lse(const Problem &problem, const Work &work, i32 row, float value) const
    {
        if (lane_index() % 4 == 0 && row < work.rows) {
            lse[work.q_begin * problem.q_heads + static_cast<i64>(work.head_of(row)) * work.q_len +
                work.query_of(row)] = value;
        }
    }

    // A warp's rows from shared memory.
    GK_DEVICE void store_rows(const Problem &problem, const Work &work, u32 tile, i32 row) const
    {
        using Tile = Config::TileO;
        constexpr u32 kPieces = Tile::kRows * Tile::kRowChunks;
#pragma unroll 4
        for (u32 piece = lane_index(); piece < kPieces; piece += kWarpSize) {
            const u32 r = piece / Tile::kRowChunks, chunk = piece % Tile::kRowChunks;
            const i32 at = row + static_cast<i32>(r);
            if (at < work.rows) {
                Config::Element *to =
                    o + work.offset_of(at, problem.q_heads, problem.o_ld, Config::kDimV) +
                    chunk * Tile::kChunkElements;
                const uint4 words = ptx::ld_shared_v4(tile + Tile::offset(r, chunk));
                ptx::store<Config::kStore>(to, {words.x, words.y, words.z, words.w});
            }
        }
    }
};

// Sums over the row, the sink, LSE; leaves O divided.
GK_DEVICE void finish_sums(Sums &sums, const Problem &problem, const Work &work,
                           const Outputs &outputs, i32 row, float to_log2)
{
    const i32 lane_row = static_cast<i32>(lane_index()) / 4;
#pragma unroll
    for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            const i32 at = row + static_cast<i32>(i * kMmaM + half * 8) + lane_row;
            float &sum = sums.sum.at[i][half];
            sum += ptx::shuffle_xor(sum, 1u);
            sum += ptx::shuffle_xor(sum, 2u);
            float base = Sums::base_of(sums.most.at[i][half]) * to_log2;
            if constexpr (Config::kSink) {
                const i32 head = work.head_of(min_of(at, work.rows - 1));
                const float sink = outputs.sinks[head] * kLog2e;
                const float more = sum > 0.0f ? fmaxf(base, sink) : sink;
                sums.scale_row(i, half, sum > 0.0f ? ptx::exp2_approx(base - more) : 0.0f);
                sum += ptx::exp2_approx(sink - more);
                base = more;
            }
            if constexpr (Config::kLse) {
                outputs.store_lse(problem, work, at,
                                  sum > 0.0f ? (base + __log2f(sum)) * kLn2
                                             : __uint_as_float(0xff800000u));
            }
            sums.scale_row(i, half, sum > 0.0f ? ptx::rcp_approx(sum) : 0.0f);
        }
    }
}

GK_DEVICE void store_sums(const Sums &sums, const Problem &problem, const Work &work,
                          const Outputs &outputs, u32 tile, i32 row)
{
    const u32 lane_row = lane_index() / 4, lane_word = lane_index() % 4 * 4;
#pragma unroll
    for (u32 i = 0; i < Config::kFragmentsM; ++i) {
#pragma unroll
        for (u32 j = 0; j < Config::kFragmentsO; ++j) {
#pragma unroll
            for (u32 half = 0; half < 2; ++half) {
                const u32 r = i * kMmaM + half * 8 + lane_row;
                const float *pair = &sums.o[i][j].v[2 * half];
                ptx::st_shared_u32(tile + Config::TileO::offset(r, j) + lane_word,
                                   pack_pair<Config::Element>(pair[0], pair[1]));
            }
        }
    }
    __syncwarp();
    outputs.store_rows(problem, work, tile, row);
}

// The lane's place in a stage, from that in the first.
template <typename Tile> GK_DEVICE TilePlace<Tile> place_of_tile(TilePlace<Tile> place, u32 stage)
{
    place.address = ptx::opaque(place.address) + (Config::kStages > 1 ? stage * Tile::kBytes : 0);
    return place;
}

// From scores to arguments of powers of two.
GK_DEVICE float to_log2_of(const Problem &problem)
{
    return Config::kWhole ? 1.0f : problem.scale * kLog2e;
}

// Turns the keys of a stage; all wait for all.
GK_DEVICE void rotate_keys(Smem &smem, u32 stage, const float *table, i32 key, i32 left)
{
    rotate_tile<Config::TileK, Config::kThreads>(
        ptx::shared_address(smem.k[stage]), threadIdx.x, left, [&](i32 r) {
            return table + static_cast<i64>(key + r) * static_cast<i64>(Config::kRotaryDim);
        });
    __syncthreads();
}

// The rings, from their first tiles to their last, for the warp's rows from `row` on. The first
// copies are on their way.
GK_DEVICE void run_rings(Smem &smem, Sums &sums, const Queries &queries, const TileFeed &feed,
                         const Tiles &tiles, const Problem &problem, const Work &work,
                         const float *table, i32 row)
{
    constexpr u32 kYoungest = 2 * (Config::kStages - 1); // groups
    const TilePlace<Config::TileK> place_k =
        place_of_b<Config::TileK, true>(ptx::shared_address(smem.k[0]));
    const TilePlace<Config::TileV> place_v =
        place_of_b<Config::TileV, false>(ptx::shared_address(smem.v[0]));
    const float to_log2 = to_log2_of(problem);
    PerRow<float> slopes;
    if constexpr (Config::kAlibi) {
        slopes.fill([&](i32 r) {
            return alibi_slope(work.head_of(min_of(row + r, work.rows - 1)), problem.q_heads);
        });
    }
    u32 full = 0;                    // stage of the tile to multiply
    u32 empty = Config::kStages - 1; // stage of the tile before it
#pragma unroll 1
    for (i32 tile = 0; tile < tiles.count; ++tile) {
        const i32 key = tiles.key_of(tile);
        Scores scores;
        Probabilities p;
        ptx::cp_async_wait<kYoungest>();
        __syncthreads(); // (1)
        feed.start_v(smem, tiles, tile + static_cast<i32>(Config::kStages) - 1, empty);
        if constexpr (Config::kRope) {
            rotate_keys(smem, full, table, key, work.kv_len - key);
        }
        scores.multiply(queries, place_of_tile(place_k, full));
        if constexpr (Config::kWhole) {
            finish_scores(scores, problem, work, slopes, row, key);
        }
        if (tiles.is_masked(key)) {
            mask_scores(scores, problem, work, row, key);
        }
        sums.grow(scores, to_log2);
        sums.exponentials(p, scores, to_log2);
        ptx::cp_async_wait<kYoungest>();
        __syncthreads(); // (2)
        feed.start_k(smem, tiles, tile + static_cast<i32>(Config::kStages), full);
        sums.multiply(p, place_of_tile(place_v, full));
        empty = full;
        full = full + 1 == Config::kStages ? 0 : full + 1;
    }
}

// Everything up to the sums of the warp's rows.
GK_DEVICE void attend(Smem &smem, Sums &sums, const TileFeed &feed, const Config::Element *q,
                      const Tiles &tiles, const Problem &problem, const Work &work,
                      const float *table)
{
    const u32 warp = warp_index();
    const i32 row = work.row + static_cast<i32>(warp * Config::kWarpRows); // the warp's first
    Queries queries(ptx::shared_address(smem.rows[warp]));
    queries.start(q, problem, work, row);
    ptx::cp_async_commit();
    feed.start_k(smem, tiles, 0, 0);
#pragma unroll
    for (u32 stage = 0; stage + 1 < Config::kStages; ++stage) {
        feed.start_v(smem, tiles, static_cast<i32>(stage), stage);
        feed.start_k(smem, tiles, static_cast<i32>(stage + 1), stage + 1);
    }
    ptx::cp_async_wait<2 * Config::kStages - 1>();
    queries.settle(work, row, table);
    run_rings(smem, sums, queries, feed, tiles, problem, work, table, row);
}

extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_attention_mma(const Config::Element *q, const Config::Element *k, const Config::Element *v,
                     const i32 *q_offsets, const i32 *kv_offsets, const float *table,
                     const float *sinks, Config::Element *o, float *lse, i32 q_heads, i32 kv_heads,
                     i32 window_left, i32 window_right, i64 q_ld, i64 k_ld, i64 v_ld, i64 o_ld,
                     float scale, i32 tiles_m, i32 group)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    const Problem problem{q_heads, kv_heads, window_left, window_right, q_ld,
                          k_ld,    v_ld,     o_ld,        scale};
    Work work;
    if (!find_work(work, problem, q_offsets, kv_offsets, tiles_m, group, blockIdx.x)) {
        return;
    }
    Sums sums;
    sums.clear();
    const Tiles tiles(work, problem);
    if (tiles.count > 0) {
        const TileFeed feed(k, v, problem, work);
        attend(smem, sums, feed, q, tiles, problem, work, table);
    }
    // Found again rather than held in registers meanwhile.
    (void)find_work(work, problem, q_offsets, kv_offsets, tiles_m, group, ptx::opaque(blockIdx.x));
    const u32 warp = warp_index();
    const i32 row = work.row + static_cast<i32>(warp * Config::kWarpRows);
    const Outputs outputs{o, lse, sinks};
    finish_sums(sums, problem, work, outputs, row, to_log2_of(problem));
    store_sums(sums, problem, work, outputs, ptx::shared_address(smem.rows[warp]), row);
}
