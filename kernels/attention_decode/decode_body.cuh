// The launches of attention_decode that read keys: a block has one chunk of the keys of one request
// (of the shared prefix: of all requests) and one key head, and up to 16 M_TILES rows that read
// them: the query heads of the group times the queries of the request are packed into the rows of
// the tensor core's tile, so keys and values are read once for all of them.
//
// Layouts   Rows of a tile of keys or values lie in shared memory as they lie in the cache, padded
//           by gk::PaddedTile. 16-bit ones become fragments by ldmatrix; e4m3 ones are widened in
//           registers (<gk/narrow.cuh>).
// Roles     All warps do the same on other keys: tile n of warp w begins at chunk + (n WARPS + w)
//           KEYS. A warp has a ring of its own, copies its tiles, scores its keys, keeps a maximum
//           and sums of its own: no warp waits for another before the end. Then sums meet in
//           shared memory.
// Ring      STAGES tiles of keys and of values a warp, by cp.async of 16 bytes, one commit group a
//           tile, an empty one past the end, so that "all but the youngest STAGES - 2 groups"
//           always means "this tile has landed".
// Barriers  __syncwarp after each wait: every lane's copies of the tile are visible to the warp,
//           and all lanes have read the tile before, whose stage is refilled right after it.
//           __syncthreads when the queries lie in shared memory, when no warp reads a ring any
//           more, and around the exchange of maxima and sums.
// Ragged    Keys past the end of the chunk or of the request are zero-filled, never read (what lies
//           there may be NaN), their scores -inf, their probabilities 0. Rows past the last query
//           head are queries of 0 and are not stored.
// Pages     A warp reads its entries of the page table 32 at a time, one a lane, and the next 32
//           while these are used; a copying lane gets its page by a shuffle.
// Rope      Queries are turned as they come. A tile of keys is turned on its way to a second tile,
//           from which it is multiplied.
//
// Parameters (decode_mma.kernel.json has their values and rules): KEYS of a warp's tile, WARPS,
// STAGES, M_TILES, QUERY (fragments of queries stay in registers, or are read from shared memory
// for every tile), LOAD (how caches treat keys and values), REUSE (how they treat what all parts of
// a row read: queries and angles), BLOCKS that registers are left for, COMBINE (who adds the parts:
// the last block that comes, or a second launch). The chunk is an argument.
//
// Rejected: calling the first tiles into L2 by prefetch before the request's length is known. On an
// H200 it costs 0.7 to 1.1 us of 11 and 23 us: every line is asked for twice.

#include <gk/hopper.cuh>
#include <gk/key_parts.cuh>
#include <gk/narrow.cuh>
#include <gk/padded.cuh>
#include <gk/softmax.cuh>
#include <gk/stream.cuh>

namespace decode
{

using namespace gk;

struct Config {
    using Element = GK_DTYPE;   // of queries, probabilities, outputs
    using Cached = GK_KV_DTYPE; // of keys and values
    static constexpr u32 kDim = GK_HEAD_DIM;
    static constexpr i32 kPage = DECODE_PREFIX ? 0 : GK_PAGE_SIZE; // keys; 0: no pages
    static constexpr u32 kKeys = GK_KEYS;
    static constexpr u32 kWarps = GK_WARPS, kThreads = kWarps * kWarpSize;
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kTiles = GK_M_TILES, kRows = kTiles * kMmaM;
    static constexpr bool kQueryInRegisters = GK_QUERY == GK_QUERY_REGISTERS;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr u32 kBlocks = GK_BLOCKS; // an SM
    static constexpr bool kLastCombines = DECODE_LAST_COMBINES;
    static constexpr bool kPrefix = DECODE_PREFIX;
    static constexpr bool kCausal = GK_CAUSAL;
    static constexpr bool kTurns = GK_ROPE != GK_ROPE_NONE, kNeox = GK_ROPE == GK_ROPE_NEOX;
    static constexpr bool kNarrow = sizeof(Cached) == 1;
    static constexpr bool kNarrowKeys = kNarrow && !kTurns; // as they are multiplied

    static constexpr u32 kSteps = kDim / kMmaK;       // of a score
    static constexpr u32 kColumnTiles = kDim / kMmaN; // of an output
    static constexpr u32 kKeyTiles = kKeys / kMmaN;
    static constexpr u32 kWarpStride = kKeys * kWarps; // keys from tile to tile of a warp

    using Tile = PaddedTile<kKeys, kDim * sizeof(Cached)>;
    using Turned = PaddedTile<kKeys, kDim * sizeof(Element)>;
    using Query = PaddedTile<kRows, kDim * sizeof(Element)>;
    using KeyTile = PaddedTile<kKeys, kDim *(kNarrowKeys ? sizeof(Cached) : sizeof(Element))>;

    static_assert(kDim % (2 * kMmaK) == 0, "narrow fragments have 32 columns");
    static_assert(kKeys % kMmaK == 0, "probabilities are whole fragments");
    static_assert(kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kPage == 0 || kPage % static_cast<i32>(kKeys) == 0 ||
                      static_cast<i32>(kKeys) % kPage == 0,
                  "a tile is whole pages, or lies in one");
    static_assert(kKeys * Tile::kRowChunks % kWarpSize == 0, "lanes copy whole rounds");
};

struct alignas(16) Smem {
    struct Stage {
        u8 k[Config::Tile::kBytes];
        u8 v[Config::Tile::kBytes];
    };
    struct Loop {
        Stage ring[Config::kWarps][Config::kStages];
        u8 turned[Config::kWarps][Config::kTurns ? Config::Turned::kBytes : kChunkBytes];
    };
    struct Meeting { // when no warp reads a ring any more
        float sums[Config::kWarps][Config::kRows][Config::kDim + 4]; // rows in other banks
        float most[Config::kWarps][Config::kRows];
        float sum[Config::kWarps][Config::kRows];
    };
    u8 query[Config::Query::kBytes];
    union {
        Loop loop;
        Meeting meeting; // and then the last block's weights
    };
    u32 ticket[4];
};

// What the rows of a block read and where they come from.
struct Problem {
    const i32 *lengths;
    i32 q_len, q_heads, group;
    i32 prefix; // keys that come before those of this launch; in the prefix's own: their number
    const float *table; // of angles; row p is that of position p
    i32 rotary;
};

// One row of a block.
struct Row {
    i64 index; // of q and out: (request, query, head)
    i32 seen;  // keys of this launch's cache that it sees
    i32 position;
};

// `row` counts (request,) query and head of the group; those from `rows` on are none.
GK_DEVICE Row find_row(const Problem &problem, i32 row, i32 kv_head)
{
    const i32 of_request = problem.group * problem.q_len;
    const i32 request = Config::kPrefix ? row / of_request : static_cast<i32>(blockIdx.z);
    const i32 rest = Config::kPrefix ? row - request * of_request : row;
    const i32 query = rest / problem.group, head = kv_head * problem.group + rest % problem.group;
    const i32 keys = problem.lengths[request];
    const i32 last = problem.prefix + keys - problem.q_len + query; // key that it sees last
    Row found;
    found.index = (static_cast<i64>(request) * problem.q_len + query) * problem.q_heads + head;
    found.position = max_of(last, 0);
    if constexpr (Config::kPrefix) {
        found.seen = Config::kCausal ? clamp_of(last + 1, 0, problem.prefix) : problem.prefix;
    } else {
        found.seen = Config::kCausal ? max_of(last + 1 - problem.prefix, 0) : keys;
    }
    return found;
}

// ---------------------------------------------------------------------------- rope

constexpr u32 kEight = 8; // columns that a lane turns at once

template <typename T> GK_DEVICE void unpack_eight(float (&v)[kEight], const u32 (&word)[4])
{
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        if constexpr (sizeof(T) == 2) {
            unpack_pair<T>(word[i], v[2 * i], v[2 * i + 1]);
        } else if (i < 2) {
#pragma unroll
            for (u32 b = 0; b < 4; ++b) {
                v[4 * i + b] = to_float(e4m3{static_cast<u8>(word[i] >> (8 * b))});
            }
        }
    }
}

// A row of queries, in global memory.
struct QueryRow {
    const Config::Element *row;
    u64 policy;

    GK_DEVICE void load(float (&v)[kEight], i32 column) const
    {
        u32 word[4];
        ptx::load<Config::kReuse>(word, row + column, policy);
        unpack_eight<Config::Element>(v, word);
    }
};

// A row of a tile of keys, in shared memory.
struct KeyRow {
    const Config::Cached *row;

    GK_DEVICE void load(float (&v)[kEight], i32 column) const
    {
        u32 word[4] = {0, 0, 0, 0};
        if constexpr (sizeof(Config::Cached) == 2) {
            const uint4 words = *reinterpret_cast<const uint4 *>(row + column);
            word[0] = words.x, word[1] = words.y, word[2] = words.z, word[3] = words.w;
        } else {
            const uint2 words = *reinterpret_cast<const uint2 *>(row + column);
            word[0] = words.x, word[1] = words.y;
        }
        unpack_eight<Config::Cached>(v, word);
    }
};

// Angles of a position: cosines, then sines. What is asked for begins at a multiple of four.
struct Angles {
    const float *row;
    u64 policy;

    template <u32 kCount> GK_DEVICE void load(float (&v)[kCount], i32 first) const
    {
#pragma unroll
        for (u32 i = 0; i < kCount; i += 4) {
            u32 word[4];
            ptx::load<Config::kReuse>(word, row + first + i, policy);
#pragma unroll
            for (u32 w = 0; w < 4; ++w) {
                v[i + w] = __uint_as_float(word[w]);
            }
        }
    }
};

// Columns c .. c+7 of a row, turned by the angles of its position.
template <typename From>
GK_DEVICE void turn_eight(float (&v)[kEight], const From &row, i32 c, const Angles &angles,
                          i32 rotary)
{
    const i32 half = rotary / 2;
    row.load(v, c);
    if (c >= rotary) {
        return;
    }
    if constexpr (Config::kNeox) {
        const bool first = c < half;
        const i32 pair = first ? c : c - half;
        float other[kEight], cosine[kEight], sine[kEight];
        row.load(other, first ? c + half : c - half);
        angles.load(cosine, pair);
        angles.load(sine, half + pair);
#pragma unroll
        for (u32 i = 0; i < kEight; ++i) {
            v[i] = v[i] * cosine[i] + (first ? -other[i] : other[i]) * sine[i];
        }
    } else {
        float cosine[kEight / 2], sine[kEight / 2];
        angles.load(cosine, c / 2);
        angles.load(sine, half + c / 2);
#pragma unroll
        for (u32 i = 0; i < kEight; i += 2) {
            const float x = v[i], y = v[i + 1];
            v[i] = x * cosine[i / 2] - y * sine[i / 2];
            v[i + 1] = y * cosine[i / 2] + x * sine[i / 2];
        }
    }
}

GK_DEVICE uint4 pack_eight(const float (&v)[kEight])
{
    using T = Config::Element;
    return make_uint4(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]), pack_pair<T>(v[4], v[5]),
                      pack_pair<T>(v[6], v[7]));
}

// A warp's tile of keys to its second tile; its first key has position `position`. Lanes past
// `valid` rows turn zeros by the angles of the last valid one.
GK_DEVICE void turn_keys(u8 *turned, const u8 *tile, const Problem &problem, i32 position,
                         i32 valid)
{
    constexpr u32 kPieces = Config::kDim / kEight;
    const u64 policy = ptx::cache_policy<Config::kReuse>();
#pragma unroll 1
    for (u32 index = lane_index(); index < Config::kKeys * kPieces; index += kWarpSize) {
        const u32 row = index / kPieces, piece = index % kPieces;
        const i32 at = position + min_of(static_cast<i32>(row), valid - 1);
        float v[kEight];
        const KeyRow from{
            reinterpret_cast<const Config::Cached *>(tile + Config::Tile::offset(row, 0))};
        turn_eight(v, from, static_cast<i32>(piece * kEight),
                   Angles{problem.table + static_cast<i64>(at) * problem.rotary, policy},
                   problem.rotary);
        *reinterpret_cast<uint4 *>(turned + Config::Turned::offset(row, piece)) = pack_eight(v);
    }
}

// ---------------------------------------------------------------------------- copies

// The cache of one key head.
struct Cache {
    const u8 *k, *v;
    i64 page_bytes; // from page to page
    i64 key_bytes;  // from key to key
};

// The copying half of a warp's ring: brings its tiles in order, one a call.
class Feed
{
    using Tile = Config::Tile;
    static constexpr u32 kPasses = Config::kKeys * Tile::kRowChunks / kWarpSize;
    static constexpr i32 kKeys = Config::kKeys, kStride = Config::kWarpStride;
    static constexpr i32 kPage = Config::kPage;
    static constexpr i32 kPageKeys = max_of(1, kPage); // where there are no pages, not used
    static constexpr i32 kPagesOfTile = kPage == 0 ? 1 : max_of(1, kKeys / kPageKeys);

    Cache cache_;
    const i32 *pages_; // of the request
    u64 policy_;
    i32 key_, end_;                  // first key of the next tile; keys from end_ on are not there
    i32 page_ = 0;                   // entries of the page table that were used so far
    u32 slice_ = 0, next_slice_ = 0; // 32 entries, one a lane

    // Entry number `entry` of those that this warp will use; begin is the first key.
    GK_DEVICE u32 load_entry(i32 begin, i32 entry) const
    {
        const i32 key = begin + entry / kPagesOfTile * kStride + entry % kPagesOfTile * kPage;
        return key < end_ ? static_cast<u32>(pages_[key / kPageKeys]) : 0;
    }

    // Bytes from the cache's first to a row of the next tile. All lanes take part.
    GK_DEVICE i64 offset_of(i32 row) const
    {
        if constexpr (kPage == 0) {
            return (key_ + static_cast<i64>(row)) * cache_.key_bytes;
        } else {
            const u32 entry = static_cast<u32>(page_) % kWarpSize;
            const i32 inside = kPagesOfTile == 1 ? key_ % kPageKeys + row : row % kPageKeys;
            const u32 page = ptx::shuffle_from(
                slice_, entry + (kPagesOfTile == 1 ? 0 : static_cast<u32>(row / kPageKeys)));
            return page * cache_.page_bytes + inside * cache_.key_bytes;
        }
    }

  public:
    GK_DEVICE Feed(const Cache &cache, const i32 *pages, i32 begin, i32 end)
        : cache_(cache), pages_(pages), policy_(ptx::cache_policy<Config::kLoad>()), key_(begin),
          end_(end)
    {
        if constexpr (kPage != 0) {
            next_slice_ = load_entry(key_, static_cast<i32>(lane_index()));
        }
    }

    // Starts the next tile into `stage`, or nothing past the end; one commit group either way.
    GK_DEVICE void start_next(Smem::Stage &stage)
    {
        if (key_ < end_) {
            if (kPage != 0 && page_ % static_cast<i32>(kWarpSize) == 0) {
                slice_ = next_slice_;
                next_slice_ = load_entry(key_, static_cast<i32>(kWarpSize + lane_index()));
            }
#pragma unroll
            for (u32 pass = 0; pass < kPasses; ++pass) {
                const u32 index = pass * kWarpSize + lane_index();
                const u32 row = index / Tile::kRowChunks, chunk = index % Tile::kRowChunks;
                const i64 offset = offset_of(static_cast<i32>(row)) + chunk * kChunkBytes;
                const u32 bytes = key_ + static_cast<i32>(row) < end_ ? kChunkBytes : 0;
                const u32 to = Tile::offset(row, chunk);
                ptx::cp_async_as<Config::kLoad, kChunkBytes>(ptx::shared_address(stage.k) + to,
                                                             cache_.k + offset, bytes, policy_);
                ptx::cp_async_as<Config::kLoad, kChunkBytes>(ptx::shared_address(stage.v) + to,
                                                             cache_.v + offset, bytes, policy_);
            }
            page_ += kPagesOfTile;
            key_ += kStride;
        }
        ptx::cp_async_commit();
    }
};

// Queries of the block's rows to shared memory, turned where the op says so; zeros past the last.
GK_DEVICE void load_queries(u8 *to, const Config::Element *q, const Problem &problem, i32 first,
                            i32 rows, i32 kv_head)
{
    using Query = Config::Query;
    const u64 policy = ptx::cache_policy<Config::kReuse>();
#pragma unroll 1
    for (u32 index = threadIdx.x; index < Config::kRows * Query::kRowChunks;
         index += Config::kThreads) {
        const u32 row = index / Query::kRowChunks, chunk = index % Query::kRowChunks;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (first + static_cast<i32>(row) < rows) {
            const Row found = find_row(problem, first + static_cast<i32>(row), kv_head);
            const QueryRow from{q + found.index * Config::kDim, policy};
            if constexpr (Config::kTurns) {
                float v[kEight];
                turn_eight(v, from, static_cast<i32>(chunk * kEight),
                           Angles{problem.table + static_cast<i64>(found.position) * problem.rotary,
                                  policy},
                           problem.rotary);
                words = pack_eight(v);
            } else {
                u32 word[4];
                ptx::load<Config::kReuse>(word, from.row + chunk * kEight, policy);
                words = make_uint4(word[0], word[1], word[2], word[3]);
            }
        }
        *reinterpret_cast<uint4 *>(to + Query::offset(row, chunk)) = words;
    }
}

// ---------------------------------------------------------------------------- products

// Fragments of the rows' queries, or where they lie.
class Queries
{
    using Query = Config::Query;
    static constexpr u32 kHeld = Config::kQueryInRegisters ? Config::kTiles * Config::kSteps : 1;
    FragmentA held_[kHeld];
    const u8 *tile_;

    GK_DEVICE FragmentA read(u32 tile, u32 step) const
    {
        FragmentA a;
        if constexpr (Config::kNarrowKeys) {
            load_fragment_a_for_narrow<Query>(a, tile_, tile * kMmaM, step * kMmaK);
        } else {
            load_fragment_a<Query, true>(a, ptx::shared_address(tile_), tile * kMmaM, step * kMmaK);
        }
        return a;
    }

  public:
    GK_DEVICE explicit Queries(const u8 *tile) : tile_(tile)
    {
        if constexpr (Config::kQueryInRegisters) {
#pragma unroll
            for (u32 i = 0; i < kHeld; ++i) {
                held_[i] = read(i / Config::kSteps, i % Config::kSteps);
            }
        }
    }

    GK_DEVICE FragmentA get(u32 tile, u32 step) const
    {
        return Config::kQueryInRegisters ? held_[tile * Config::kSteps + step] : read(tile, step);
    }
};

// What a warp knows of its rows: lane l has rows l / 4 and l / 4 + 8 of each tile of 16, there the
// columns of its fragments.
struct State {
    static constexpr u32 kHalves = 2;    // of a tile's rows
    float most[Config::kTiles][kHalves]; // of scores; the same in the four lanes of a row
    float sum[Config::kTiles][kHalves];  // of probabilities, of this lane's keys
    FragmentD sums[Config::kTiles][Config::kColumnTiles]; // of values

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kTiles; ++i) {
            most[i][0] = most[i][1] = MaxOp::neutral();
            sum[i][0] = sum[i][1] = 0.0f;
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; ++j) {
                sums[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }
};

// Scores of a tile of keys, then its probabilities.
struct Scores {
    FragmentD s[Config::kTiles][Config::kKeyTiles];
};

GK_DEVICE void load_key_fragments(FragmentB (&b)[2][2], u32 tile, u32 key, u32 column)
{
    using Tile = Config::KeyTile;
    if constexpr (Config::kNarrowKeys) {
        load_rows_narrow<Config::Element, Tile>(b, tile, key, column);
    } else {
        load_fragments_b<Tile, true>(b[0][0], b[0][1], tile, key, column);
        load_fragments_b<Tile, true>(b[1][0], b[1][1], tile, key, column + kMmaK);
    }
}

GK_DEVICE void load_value_fragments(FragmentB (&b)[4], u32 tile, u32 key, u32 column)
{
    using Tile = Config::Tile;
    if constexpr (Config::kNarrow) {
        load_columns_narrow<Config::Element, Tile>(b, tile, key, column);
    } else {
        load_fragments_b<Tile, false>(b[0], b[1], tile, column, key);
        load_fragments_b<Tile, false>(b[2], b[3], tile, column + kMmaK, key);
    }
}

// The column of an output that element e (0, 1) of a lane's fragment j belongs to.
GK_DEVICE u32 column_of(u32 j, u32 e)
{
    const u32 t = lane_index() % 4;
    return Config::kNarrow ? j / 2 * kMmaK + 4 * t + 2 * e + j % 2 : j * kMmaN + 2 * t + e;
}

GK_DEVICE void score(Scores &scores, const Queries &queries, u32 tile)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 j = 0; j < Config::kKeyTiles; ++j) {
            scores.s[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
        }
    }
#pragma unroll
    for (u32 step = 0; step < Config::kSteps; step += 2) {
#pragma unroll
        for (u32 key = 0; key < Config::kKeys; key += kMmaK) {
            FragmentB b[2][2];
            load_key_fragments(b, tile, key, step * kMmaK);
#pragma unroll
            for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
                for (u32 half = 0; half < 2; ++half) {
                    const FragmentA a = queries.get(i, step + half);
                    mma_m16n8k16(scores.s[i][key / kMmaN], a, b[half][0], Config::Element{});
                    mma_m16n8k16(scores.s[i][key / kMmaN + 1], a, b[half][1], Config::Element{});
                }
            }
        }
    }
}

// Scores of keys that a row does not see become -inf; `key` is the tile's first.
GK_DEVICE void mask(Scores &scores, const i32 (&seen)[Config::kTiles][State::kHalves], i32 key)
{
    const i32 first = key + static_cast<i32>(lane_index() % 4 * 2);
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 j = 0; j < Config::kKeyTiles; ++j) {
#pragma unroll
            for (u32 e = 0; e < 4; ++e) {
                if (first + static_cast<i32>(j * kMmaN + e % 2) >= seen[i][e / 2]) {
                    scores.s[i][j].v[e] = MaxOp::neutral();
                }
            }
        }
    }
}

// Scores to probabilities below the greatest score so far; what was summed before shrinks where
// that grows. `scale` brings scores to units of log2 e.
GK_DEVICE void exponentiate(Scores &scores, State &state, float scale)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < State::kHalves; ++h) {
            float most = MaxOp::neutral();
#pragma unroll
            for (u32 j = 0; j < Config::kKeyTiles; ++j) {
                most = fmaxf(most, fmaxf(scores.s[i][j].v[2 * h], scores.s[i][j].v[2 * h + 1]));
            }
            most = fmaxf(state.most[i][h], warp_reduce<MaxOp, 4>(most) * scale);
            // Nothing but -inf so far: differences would be NaN, and are -inf from 0.
            const float base = most == MaxOp::neutral() ? 0.0f : most;
            const float keep = ptx::exp2_approx(state.most[i][h] - base);
            float sum = 0.0f;
#pragma unroll
            for (u32 j = 0; j < Config::kKeyTiles; ++j) {
#pragma unroll
                for (u32 e = 2 * h; e < 2 * h + 2; ++e) {
                    scores.s[i][j].v[e] = ptx::exp2_approx(scores.s[i][j].v[e] * scale - base);
                    sum += scores.s[i][j].v[e];
                }
            }
            state.most[i][h] = most;
            state.sum[i][h] = state.sum[i][h] * keep + sum;
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; ++j) {
                state.sums[i][j].v[2 * h] *= keep;
                state.sums[i][j].v[2 * h + 1] *= keep;
            }
        }
    }
}

// Adds probabilities times values. Two fragments of scores are one of A.
GK_DEVICE void add_values(State &state, const Scores &scores, u32 tile)
{
    using T = Config::Element;
#pragma unroll
    for (u32 key = 0; key < Config::kKeys; key += kMmaK) {
        FragmentA p[Config::kTiles];
#pragma unroll
        for (u32 i = 0; i < Config::kTiles; ++i) {
            const FragmentD &low = scores.s[i][key / kMmaN], &high = scores.s[i][key / kMmaN + 1];
            p[i] =
                FragmentA{{pack_pair<T>(low.v[0], low.v[1]), pack_pair<T>(low.v[2], low.v[3]),
                           pack_pair<T>(high.v[0], high.v[1]), pack_pair<T>(high.v[2], high.v[3])}};
        }
#pragma unroll
        for (u32 j = 0; j < Config::kColumnTiles; j += 4) {
            FragmentB b[4];
            load_value_fragments(b, tile, key, j * kMmaN);
#pragma unroll
            for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
                for (u32 n = 0; n < 4; ++n) {
                    mma_m16n8k16(state.sums[i][j + n], p[i], b[n], T{});
                }
            }
        }
    }
}

// A warp's keys from `begin` on, every kWarpStride-th tile, up to `end`.
GK_DEVICE void run_ring(Smem &smem, Feed &feed, State &state, const Queries &queries,
                        const Problem &problem, const i32 (&seen)[Config::kTiles][State::kHalves],
                        i32 begin, i32 end, i32 seen_by_all, float scale)
{
    constexpr i32 kKeys = Config::kKeys;
    const u32 warp = warp_index();
    u32 full = 0, empty = Config::kStages - 1;
#pragma unroll 1
    for (i32 key = begin; key < end; key += static_cast<i32>(Config::kWarpStride)) {
        ptx::cp_async_wait<Config::kStages - 2>();
        __syncwarp();
        feed.start_next(smem.loop.ring[warp][empty]);
        Smem::Stage &stage = smem.loop.ring[warp][full];
        const u8 *keys = stage.k;
        if constexpr (Config::kTurns) {
            const i32 before = Config::kPrefix ? 0 : problem.prefix;
            turn_keys(smem.loop.turned[warp], stage.k, problem, before + key, end - key);
            keys = smem.loop.turned[warp];
            __syncwarp(); // the turned tile is whole
        }
        Scores scores;
        score(scores, queries, ptx::shared_address(keys));
        if (key + kKeys > min_of(end, seen_by_all)) {
            mask(scores, seen, key);
        }
        exponentiate(scores, state, scale);
        add_values(state, scores, ptx::shared_address(stage.v));
        empty = full;
        full = full + 1 == Config::kStages ? 0 : full + 1;
    }
}

// ---------------------------------------------------------------------------- the end

// Every warp's sums to shared memory, below the greatest score of all warps.
GK_DEVICE void meet(Smem::Meeting &meeting, State &state)
{
    const u32 warp = warp_index(), lane = lane_index();
    ptx::cp_async_wait<0>();
    __syncthreads(); // no warp reads its ring any more, no copy is on its way
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < State::kHalves; ++h) {
            const u32 row = i * kMmaM + h * (kMmaM / 2) + lane / 4;
            state.sum[i][h] = warp_reduce<SumOp, 4>(state.sum[i][h]);
            if (lane % 4 == 0) {
                meeting.most[warp][row] = state.most[i][h];
                meeting.sum[warp][row] = state.sum[i][h];
            }
        }
    }
    __syncthreads(); // maxima of all warps are there
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < State::kHalves; ++h) {
            const u32 row = i * kMmaM + h * (kMmaM / 2) + lane / 4;
            float most = MaxOp::neutral();
#pragma unroll
            for (u32 w = 0; w < Config::kWarps; ++w) {
                most = fmaxf(most, meeting.most[w][row]);
            }
            const float weight = weight_of(state.most[i][h], most);
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; ++j) {
                meeting.sums[warp][row][column_of(j, 0)] = state.sums[i][j].v[2 * h] * weight;
                meeting.sums[warp][row][column_of(j, 1)] = state.sums[i][j].v[2 * h + 1] * weight;
            }
        }
    }
    __syncthreads(); // sums are there
}

// A row's stats over all warps.
GK_DEVICE float2 stats_of(const Smem::Meeting &meeting, u32 row)
{
    float most = MaxOp::neutral(), sum = 0.0f;
#pragma unroll
    for (u32 w = 0; w < Config::kWarps; ++w) {
        most = fmaxf(most, meeting.most[w][row]);
    }
#pragma unroll
    for (u32 w = 0; w < Config::kWarps; ++w) {
        sum += weight_of(meeting.most[w][row], most) * meeting.sum[w][row];
    }
    return make_float2(most, sum);
}

constexpr u32 kFour = 4; // columns that a thread stores at once
constexpr u32 kRowPieces = Config::kDim / kFour;

// Rows of the block to the output, where they are the only part, or to the workspace.
GK_DEVICE void store_rows(const Smem::Meeting &meeting, const Problem &problem,
                          const Output<Config::Element, Config::kDim> &output,
                          const Partial &partial, i32 part, bool whole, i32 first, i32 rows,
                          i32 kv_head, float value_scale)
{
#pragma unroll 1
    for (u32 index = threadIdx.x; index < Config::kRows * kRowPieces; index += Config::kThreads) {
        const u32 row = index / kRowPieces, column = index % kRowPieces * kFour;
        if (first + static_cast<i32>(row) >= rows) {
            return; // rows rise with the index
        }
        const i64 to = find_row(problem, first + static_cast<i32>(row), kv_head).index;
        const float2 stats = stats_of(meeting, row);
        const float factor = value_scale * (whole ? inverse_of(stats.y) : 1.0f);
        float v[kFour] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (u32 w = 0; w < Config::kWarps; ++w) {
#pragma unroll
            for (u32 i = 0; i < kFour; ++i) {
                v[i] += meeting.sums[w][row][column + i];
            }
        }
#pragma unroll
        for (u32 i = 0; i < kFour; ++i) {
            v[i] *= factor;
        }
        if (whole) {
            output.store(to, column, v);
            if (column == 0) {
                output.store_lse(to, stats.x, stats.y);
            }
        } else {
            const i64 place = partial.place(part, to);
            ptx::st_global_v4(partial.sums + place * Config::kDim + column,
                              make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]),
                                         __float_as_uint(v[2]), __float_as_uint(v[3])));
            if (column == 0) {
                partial.stats[place] = stats;
            }
        }
    }
}

// Whether this block comes last at the counter of its rows; what the others wrote before they came
// is then visible to it. The counter is left at 0, as the next launch wants it.
GK_DEVICE bool arrive_last(u32 *counter, u32 parts, u32 &ticket)
{
    __syncthreads(); // the block's part is written
    if (threadIdx.x == 0) {
        __threadfence(); // it is visible before the arrival is
        ticket = atomicAdd(counter, 1u);
        __threadfence(); // the others' parts are visible after the last arrival
        if (ticket + 1 == parts) {
            *counter = 0; // nobody else comes here any more
        }
    }
    __syncthreads();
    return ticket + 1 == parts;
}

// The last block's work: all parts of its rows.
GK_DEVICE void combine_rows(float *scratch, const Problem &problem,
                            const Output<Config::Element, Config::kDim> &output,
                            const Partial &partial, i32 parts, i32 first, i32 rows, i32 kv_head)
{
    const i32 count = min_of(rows - first, static_cast<i32>(Config::kRows));
    float *inverse = scratch + Config::kRows * parts;
#pragma unroll 1
    for (i32 row = static_cast<i32>(warp_index()); row < count;
         row += static_cast<i32>(Config::kWarps)) {
        const i64 to = find_row(problem, first + row, kv_head).index;
        const float2 stats = weigh_parts(partial, to, parts, scratch + row * parts);
        if (lane_index() == 0) {
            inverse[row] = inverse_of(stats.y);
            output.store_lse(to, stats.x, stats.y);
        }
    }
    __syncthreads(); // weights are there
#pragma unroll 1
    for (u32 index = threadIdx.x; index < static_cast<u32>(count) * kRowPieces;
         index += Config::kThreads) {
        const i32 row = static_cast<i32>(index / kRowPieces);
        const u32 column = index % kRowPieces * kFour;
        const i64 to = find_row(problem, first + row, kv_head).index;
        float v[kFour] = {0.0f, 0.0f, 0.0f, 0.0f};
        add_parts<Config::kDim, CacheUse::kL2>(v, partial, to, column, 0, 1, parts,
                                               scratch + row * parts);
#pragma unroll
        for (u32 i = 0; i < kFour; ++i) {
            v[i] *= inverse[row];
        }
        output.store(to, column, v);
    }
}

// ---------------------------------------------------------------------------- the block

// The launch's arguments that are not pointers to what is read and written.
struct Shape {
    i32 q_len, q_heads, kv_heads, prefix, rotary;
    i32 pages_row;                            // entries of a row of the page table
    i64 page_stride, key_stride, head_stride; // elements of the cache
    i32 chunk;                                // keys of a part
    i32 rows;         // of a key head that one block row reads: of a request, or of all
    i32 prefix_parts; // parts of the shared prefix
    i64 partial_rows;
    float scale_log2; // softmax_scale * log2 e
};

struct Inputs {
    const Config::Element *q;
    const Config::Cached *k, *v;
    const i32 *pages, *lengths;
    const float *k_scale, *v_scale; // may be null
    const float *table;
};

// The part that a block computes.
struct Work {
    i32 request, kv_head, first_row;
    i32 part, parts; // of the request, or of the prefix
    i32 begin, end;  // keys
    i32 keys;
    bool any;   // whether there is anything to write
    bool whole; // whether the rows have no other part
};

GK_DEVICE Work find_work(const Shape &shape, const i32 *lengths)
{
    Work work;
    work.kv_head = static_cast<i32>(blockIdx.x) % shape.kv_heads;
    work.first_row =
        static_cast<i32>(blockIdx.x) / shape.kv_heads * static_cast<i32>(Config::kRows);
    work.request = static_cast<i32>(blockIdx.z);
    work.part = static_cast<i32>(blockIdx.y);
    work.keys = Config::kPrefix ? shape.prefix : lengths[work.request];
    work.parts = parts_of(work.keys, shape.chunk);
    work.begin = work.part * shape.chunk;
    work.end = min_of(work.begin + shape.chunk, work.keys);
    work.whole = !Config::kPrefix && shape.prefix_parts == 0 && work.parts <= 1;
    // A request without any key has its rows of zeros from block 0.
    work.any = work.part < work.parts || (work.whole && work.part == 0);
    return work;
}

GK_DEVICE Cache find_cache(const Shape &shape, const Inputs &in, const Work &work)
{
    constexpr i64 kBytes = sizeof(Config::Cached);
    const i64 offset = work.kv_head * shape.head_stride +
                       (Config::kPage == 0 ? work.request * shape.page_stride : 0);
    return Cache{reinterpret_cast<const u8 *>(in.k + offset),
                 reinterpret_cast<const u8 *>(in.v + offset), shape.page_stride * kBytes,
                 shape.key_stride * kBytes};
}

// Keys that each of a lane's rows sees.
GK_DEVICE void find_seen(i32 (&seen)[Config::kTiles][State::kHalves], const Problem &problem,
                         const Work &work, i32 rows)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < State::kHalves; ++h) {
            const i32 row =
                work.first_row + static_cast<i32>(i * kMmaM + h * (kMmaM / 2) + lane_index() / 4);
            seen[i][h] = row < rows ? find_row(problem, row, work.kv_head).seen : work.keys;
        }
    }
}

GK_DEVICE void run_block(Smem &smem, const Inputs &in, const Shape &shape,
                         const Output<Config::Element, Config::kDim> &output,
                         const Partial &partial, u32 *arrivals)
{
    const Work work = find_work(shape, in.lengths);
    if (!work.any) {
        return;
    }
    const Problem problem{in.lengths,   shape.q_len, shape.q_heads, shape.q_heads / shape.kv_heads,
                          shape.prefix, in.table,    shape.rotary};
    const i32 begin = work.begin + static_cast<i32>(warp_index() * Config::kKeys);
    Feed feed(find_cache(shape, in, work),
              in.pages + static_cast<i64>(work.request) * shape.pages_row, begin, work.end);
#pragma unroll
    for (u32 stage = 0; stage + 1 < Config::kStages; ++stage) {
        feed.start_next(smem.loop.ring[warp_index()][stage]);
    }
    load_queries(smem.query, in.q, problem, work.first_row, shape.rows, work.kv_head);
    __syncthreads(); // queries are there

    State state;
    state.clear();
    i32 seen[Config::kTiles][State::kHalves];
    find_seen(seen, problem, work, shape.rows);
    const float scale = positive_scale(shape.scale_log2 *
                                       (in.k_scale == nullptr ? 1.0f : in.k_scale[work.kv_head]));
    const i32 seen_by_all = Config::kCausal ? work.keys - shape.q_len + 1 : work.keys;
    run_ring(smem, feed, state, Queries(smem.query), problem, seen, begin, work.end, seen_by_all,
             scale);
#if __CUDA_ARCH__ >= 900
    allow_next_launch(); // which waits for this one's results
#endif
    meet(smem.meeting, state);
    const float value_scale = in.v_scale == nullptr ? 1.0f : in.v_scale[work.kv_head];
    const i32 part = Config::kPrefix ? work.part : shape.prefix_parts + work.part;
    store_rows(smem.meeting, problem, output, partial, part, work.whole, work.first_row, shape.rows,
               work.kv_head, value_scale);
    if (Config::kLastCombines && !work.whole) {
        u32 *counter = arrivals + static_cast<i64>(work.request) * gridDim.x + blockIdx.x;
        if (arrive_last(counter, static_cast<u32>(work.parts), smem.ticket[0])) {
            combine_rows(reinterpret_cast<float *>(&smem.meeting), problem, output, partial,
                         work.parts, work.first_row, shape.rows, work.kv_head);
        }
    }
}

} // namespace decode
