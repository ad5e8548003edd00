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
//           there may be NaN; see Early), their scores -inf, their probabilities 0. Rows past the
//           last query head are queries of 0 and are not stored.
// Early     (EARLY = yes) The request's length comes from memory while the first tiles and the
//           queries do. So those are copied as far as there is room for keys, and values past the
//           end are cleared before they are multiplied.
// Pages     A warp reads its entries of the page table 32 at a time, one a lane, and the next 32
//           while these are used; a copying lane gets its page by a shuffle.
// Combine   Parts of a row are added by a second launch, by the last block that comes, or by the
//           blocks of a cluster, which are the parts (decode_cluster.cuh).
// Rope      Queries are turned as they come. A tile of keys is turned on its way to a second tile,
//           from which it is multiplied.
//
// Parameters (decode_mma.kernel.json has their values and rules): KEYS of a warp's tile, WARPS,
// STAGES, M_TILES, QUERY (fragments of queries stay in registers, or are read from shared memory
// for every tile), LOAD (how caches treat keys and values), REUSE (how they treat what all parts of
// a row read: queries and angles), BLOCKS that registers are left for, COMBINE (who adds parts),
// EARLY. The chunk is an argument.
//
// Rejected: calling the first tiles into L2 by prefetch before the request's length is known. On an
// H200 it costs 0.7 to 1.1 us of 11 and 23 us: every line is asked for twice.

#include <gk/hopper.cuh>
#include <gk/key_parts.cuh>
#include <gk/mbarrier.cuh>
#include <gk/narrow.cuh>
#include <gk/padded.cuh>
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
    static constexpr bool kCluster = DECODE_CLUSTER; // its blocks are the parts of the same rows
    static constexpr bool kSends = DECODE_SENDS;     // which send one another their sums
    static constexpr bool kEarly = DECODE_EARLY; // first tiles are copied before keys are counted
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

    static GK_DEVICE void sync()
    {
        __syncthreads();
    }

    static_assert(kDim % (2 * kMmaK) == 0, "narrow fragments have 32 columns");
    static_assert(kKeys % kMmaK == 0, "probabilities are whole fragments");
    static_assert(kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kPage == 0 || kPage % static_cast<i32>(kKeys) == 0 ||
                      static_cast<i32>(kKeys) % kPage == 0,
                  "a tile is whole pages, or lies in one");
    static_assert(kKeys * Tile::kRowChunks % kWarpSize == 0, "lanes copy whole rounds");
    // Whether queries, and with kEarly the length, are asked for before keys, whose copies they
    // would queue behind. By copies as well: loads that are used later ptxas sends later, too.
    static constexpr bool kQueriesFirst =
        (kEarly || kCluster) && !kTurns && (kReuse == CacheUse::kAll || kReuse == CacheUse::kL2);

    static_assert(!kEarly || kPage == 0, "what a request does not need are no pages");
};

} // namespace decode

#include "decode_rows.cuh"

#if DECODE_CLUSTER
#include "decode_cluster.cuh"
#endif

namespace decode
{

struct alignas(16) Smem {
    struct Stage {
        u8 k[Config::Tile::kBytes];
        u8 v[Config::Tile::kBytes];
    };
    struct Loop {
        Stage ring[Config::kWarps][Config::kStages];
        u8 turned[Config::kWarps][Config::kTurns ? Config::Turned::kBytes : kChunkBytes];
    };
    u8 query[Config::Query::kBytes];
    union {
        Loop loop;
        Meeting meeting; // when no warp reads a ring any more; then the last block's weights
    };
    Barrier arrived; // of what others of the cluster send
    u32 ticket;
    i32 length; // of the request
};

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

// Reads 16 bytes of a row of queries, turned where the op says so.
struct QueryReader {
    const Config::Element *q;
    const Problem &problem;
    u64 policy = ptx::cache_policy<Config::kReuse>();

    GK_DEVICE uint4 operator()(const Row &row, u32 chunk) const
    {
        const QueryRow from{q + row.index * Config::kDim, policy};
        if constexpr (Config::kTurns) {
            float v[kEight];
            turn_eight(
                v, from, static_cast<i32>(chunk * kEight),
                Angles{problem.table + static_cast<i64>(row.position) * problem.rotary, policy},
                problem.rotary);
            return pack_eight(v);
        } else {
            u32 word[4];
            ptx::load<Config::kReuse>(word, from.row + chunk * kEight, policy);
            return make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
};

// Rows of the block that there are; the others are queries of 0.
GK_DEVICE u32 rows_there(const Work &work, const Shape &shape)
{
    return min_of(static_cast<u32>(shape.rows - work.first_row), Config::kRows);
}

// Queries that are not turned, by copies of their own: the first `there` rows of load_queries, in
// no group yet. What is in front of a block's first keys costs time: the other rows come behind.
GK_DEVICE void start_queries(u8 *to, const Problem &problem, const Config::Element *q, i32 first,
                             u32 there, i32 kv_head)
{
    using Query = Config::Query;
#pragma unroll 1
    for (u32 index = threadIdx.x; index < there * Query::kRowChunks; index += Config::kThreads) {
        const u32 row = index / Query::kRowChunks, chunk = index % Query::kRowChunks;
        const i64 from = find_row(problem, first + static_cast<i32>(row), kv_head).index;
        ptx::cp_async_as<Config::kReuse, kChunkBytes>(
            ptx::shared_address(to) + Query::offset(row, chunk),
            q + from * Config::kDim + chunk * kEight, kChunkBytes, 0);
    }
}

// Rows of queries that there are not: zeros.
GK_DEVICE void clear_queries(u8 *to, u32 there)
{
    using Query = Config::Query;
#pragma unroll 1
    for (u32 index = there * Query::kRowChunks + threadIdx.x;
         index < Config::kRows * Query::kRowChunks; index += Config::kThreads) {
        *reinterpret_cast<uint4 *>(
            to + Query::offset(index / Query::kRowChunks, index % Query::kRowChunks)) =
            make_uint4(0, 0, 0, 0);
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
    // Without pages, and with whole rows to a pass, a lane goes on from row to row by additions:
    // multiplications of 64 bits would stand before the first copies of a block.
    static constexpr bool kWalks = kPage == 0 && kWarpSize % Tile::kRowChunks == 0;
    static constexpr i32 kRowsOfPass = max_of(1u, kWarpSize / Tile::kRowChunks);

    Cache cache_;      // k, v: with kWalks those of the lane's first chunk of the next tile
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

    GK_DEVICE void copy(u32 to, const u8 *k, const u8 *v, Smem::Stage &stage, bool there) const
    {
        const u32 bytes = there ? kChunkBytes : 0;
        ptx::cp_async_as<Config::kLoad, kChunkBytes>(ptx::shared_address(stage.k) + to, k, bytes,
                                                     policy_);
        ptx::cp_async_as<Config::kLoad, kChunkBytes>(ptx::shared_address(stage.v) + to, v, bytes,
                                                     policy_);
    }

    GK_DEVICE void walk(Smem::Stage &stage)
    {
        const u32 row = lane_index() / Tile::kRowChunks, chunk = lane_index() % Tile::kRowChunks;
        const i32 rows = end_ - key_ - static_cast<i32>(row); // from the lane's first on
#pragma unroll
        for (i32 pass = 0; pass < static_cast<i32>(kPasses); ++pass) {
            copy(Tile::offset(row + static_cast<u32>(pass * kRowsOfPass), chunk), cache_.k,
                 cache_.v, stage, pass * kRowsOfPass < rows);
            cache_.k += kRowsOfPass * cache_.key_bytes;
            cache_.v += kRowsOfPass * cache_.key_bytes;
        }
        cache_.k += (kStride - kKeys) * cache_.key_bytes;
        cache_.v += (kStride - kKeys) * cache_.key_bytes;
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
        if constexpr (kWalks) {
            const i64 first =
                (begin + static_cast<i64>(lane_index() / Tile::kRowChunks)) * cache_.key_bytes +
                lane_index() % Tile::kRowChunks * kChunkBytes;
            cache_.k += first;
            cache_.v += first;
        }
    }

    // Keys from `end` on are not copied any more.
    GK_DEVICE void end_at(i32 end)
    {
        end_ = end;
    }

    // Starts the next tile into `stage`, or nothing past the end; one commit group either way.
    GK_DEVICE void start_next(Smem::Stage &stage)
    {
        if (key_ < end_) {
            if constexpr (kWalks) {
                walk(stage);
            } else {
                if (kPage != 0 && page_ % static_cast<i32>(kWarpSize) == 0) {
                    slice_ = next_slice_;
                    next_slice_ = load_entry(key_, static_cast<i32>(kWarpSize + lane_index()));
                }
#pragma unroll
                for (u32 pass = 0; pass < kPasses; ++pass) {
                    const u32 index = pass * kWarpSize + lane_index();
                    const u32 row = index / Tile::kRowChunks, chunk = index % Tile::kRowChunks;
                    const i64 offset = offset_of(static_cast<i32>(row)) + chunk * kChunkBytes;
                    copy(Tile::offset(row, chunk), cache_.k + offset, cache_.v + offset, stage,
                         key_ + static_cast<i32>(row) < end_);
                }
                page_ += kPagesOfTile;
            }
            key_ += kStride;
        }
        ptx::cp_async_commit();
    }
};

// Rows of a warp's tile from `valid` on become zeros.
GK_DEVICE void clear_tail(u8 *tile, u32 valid)
{
    using Tile = Config::Tile;
#pragma unroll 1
    for (u32 index = valid * Tile::kRowChunks + lane_index();
         index < Config::kKeys * Tile::kRowChunks; index += kWarpSize) {
        *reinterpret_cast<uint4 *>(
            tile + Tile::offset(index / Tile::kRowChunks, index % Tile::kRowChunks)) =
            make_uint4(0, 0, 0, 0);
    }
    __syncwarp(); // the tile is whole
}

// A warp's keys from `begin` on, every kWarpStride-th tile, up to `end`.
GK_DEVICE void run_ring(Smem &smem, Feed &feed, State &state, const Queries &queries,
                        const Problem &problem, const i32 (&seen)[Config::kTiles][kHalves],
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
        if (Config::kEarly && key + kKeys > end) {
            clear_tail(stage.v, static_cast<u32>(end - key)); // 0 times NaN would be NaN
        }
        exponentiate(scores, state, scale);
        add_values(state, scores, ptx::shared_address(stage.v));
        empty = full;
        full = full + 1 == Config::kStages ? 0 : full + 1;
    }
    ptx::cp_async_wait<0>(); // no copy is on its way
}

// ---------------------------------------------------------------------------- the end

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
        const float2 own = load_stats(partial, to, static_cast<i32>(lane_index()), parts);
        const float2 stats = weigh_parts(partial, to, parts, own, scratch + row * parts);
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
        const PartsOfColumns<Config::kDim, CacheUse::kL2, 0> columns(partial, to, column, 0, 1,
                                                                     parts);
        columns.add_to(v, scratch + row * parts);
#pragma unroll
        for (u32 i = 0; i < kFour; ++i) {
            v[i] *= inverse[row];
        }
        output.store(to, column, v);
    }
}

// ---------------------------------------------------------------------------- the block

// Where the cache's keys lie: elements from one to the next.
struct Strides {
    i32 pages_row; // entries of a row of the page table
    i32 room;      // keys that a request has room for
    i64 page, key, head;
};

struct Inputs {
    const Config::Element *q;
    const Config::Cached *k, *v;
    const i32 *pages, *lengths;
    const float *k_scale, *v_scale; // may be null
    const float *table;
};

GK_DEVICE Cache find_cache(const Strides &strides, const Inputs &in, const Work &work)
{
    constexpr i64 kBytes = sizeof(Config::Cached);
    const i64 offset =
        work.kv_head * strides.head + (Config::kPage == 0 ? work.request * strides.page : 0);
    return Cache{reinterpret_cast<const u8 *>(in.k + offset),
                 reinterpret_cast<const u8 *>(in.v + offset), strides.page * kBytes,
                 strides.key * kBytes};
}

// Parts of rows that others have parts of, too: to the workspace; and who comes last adds them.
GK_DEVICE void finish_part(Smem &smem, State &state, const Problem &problem, const Work &work,
                           const Shape &shape, const Output<Config::Element, Config::kDim> &output,
                           const Partial &partial, u32 *arrivals, float value_scale)
{
    meet(smem.meeting, state, shape.rows - work.first_row);
    const i32 part = Config::kPrefix ? work.part : shape.prefix_parts + work.part;
    store_rows(smem.meeting, problem, output, partial, part, work.whole, work.first_row, shape.rows,
               work.kv_head, value_scale);
    if (Config::kLastCombines && !work.whole) {
        u32 *counter = arrivals + static_cast<i64>(work.request) * gridDim.x + blockIdx.x;
        if (arrive_last(counter, static_cast<u32>(work.parts), smem.ticket)) {
            combine_rows(reinterpret_cast<float *>(&smem.meeting), problem, output, partial,
                         work.parts, work.first_row, shape.rows, work.kv_head);
        }
    }
}

#if DECODE_CLUSTER
GK_DEVICE u32 pieces_of(const Work &work, const Shape &shape)
{
    return rows_there(work, shape) * kRowPieces;
}

// The same in a cluster. The warp's ring is drained.
GK_DEVICE void finish_in_cluster(Smem &smem, State &state, const Problem &problem, const Work &work,
                                 const Shape &shape,
                                 const Output<Config::Element, Config::kDim> &output,
                                 float value_scale)
{
    constexpr u32 kRingBytes = sizeof(smem.loop.ring[0]);
    static_assert(sizeof(Left) <= kRingBytes, "a warp leaves its sums where its ring lay");
    const Left &first = reinterpret_cast<Left &>(smem.loop.ring[0]);
    const Target target{problem,    output, work.first_row, work.kv_head, pieces_of(work, shape),
                        value_scale};
    __syncwarp(); // no lane reads a tile any more, none has a copy on its way
    leave_sums(reinterpret_cast<Left &>(smem.loop.ring[warp_index()]), state,
               shape.rows - work.first_row);
    if constexpr (Config::kSends) {
        const Mail mail(&smem + 1, target.pieces);
        send_pieces<kRingBytes>(mail, smem.arrived, first, target.pieces);
        receive_pieces(mail, smem.arrived, target);
    } else {
        read_pieces<kRingBytes>(first, target);
    }
}
#endif

GK_DEVICE Work place_block(const Shape &shape)
{
    const i32 x = static_cast<i32>(blockIdx.x), y = static_cast<i32>(blockIdx.y);
    return place_work(shape, Config::kCluster ? y : x, Config::kCluster ? x : y,
                      static_cast<i32>(blockIdx.z));
}

GK_DEVICE void run_block(Smem &smem, const Inputs &in, const Shape &shape, const Strides &strides,
                         const Output<Config::Element, Config::kDim> &output,
                         const Partial &partial, u32 *arrivals)
{
    Work work = place_block(shape);
    const u32 there = rows_there(work, shape);
    constexpr bool kLengthCopied = Config::kQueriesFirst && Config::kEarly;
    Problem problem{in.lengths,  work.request, 0,        shape.q_len, shape.q_heads,
                    shape.group, shape.prefix, in.table, shape.rotary};
    if constexpr (!kLengthCopied) {
        problem.keys = Config::kPrefix ? shape.prefix : in.lengths[work.request];
    }
    if constexpr (Config::kQueriesFirst) {
        if (kLengthCopied && threadIdx.x == 0) {
            ptx::cp_async_4(ptx::shared_address(&smem.length), in.lengths + work.request, 4);
        }
        start_queries(smem.query, problem, in.q, work.first_row, there, work.kv_head);
        ptx::cp_async_commit();
    }
    if constexpr (!Config::kEarly) {
        size_work(work, shape, problem.keys);
        if (!work.any && !Config::kCluster) {
            return;
        }
    }
    const i32 begin = work.begin + static_cast<i32>(warp_index() * Config::kKeys);
    Feed feed(find_cache(strides, in, work),
              in.pages + static_cast<i64>(work.request) * strides.pages_row, begin,
              Config::kEarly ? min_of(work.begin + shape.chunk, strides.room) : work.end);
#pragma unroll
    for (u32 stage = 0; stage + 1 < Config::kStages; ++stage) {
        feed.start_next(smem.loop.ring[warp_index()][stage]);
    }
#if __CUDA_ARCH__ >= 900
    allow_next_launch(); // which has its place, and waits for results, while keys are read
#endif
#if DECODE_CLUSTER
    if constexpr (Config::kSends) {
        open_mail(Mail(&smem + 1, pieces_of(work, shape)), smem.arrived);
    }
#endif
    if constexpr (Config::kQueriesFirst) {
        clear_queries(smem.query, there);
        ptx::cp_async_wait<Config::kStages - 1>(); // all but tiles
    } else {
        load_queries(smem.query, problem, work.first_row, shape.rows, work.kv_head,
                     QueryReader{in.q, problem});
    }
    __syncthreads(); // queries are there
    if constexpr (Config::kEarly) {
        problem.keys = kLengthCopied ? smem.length : problem.keys;
        size_work(work, shape, problem.keys);
        if (!work.any && !Config::kCluster) {
            ptx::cp_async_wait<0>(); // nothing is on its way to a block that has ended
            return;
        }
        feed.end_at(work.end);
    }

    State state;
    state.clear();
    i32 seen[Config::kTiles][kHalves];
    find_seen(seen, problem, work, shape.rows);
    const float scale = positive_scale(shape.scale_log2 *
                                       (in.k_scale == nullptr ? 1.0f : in.k_scale[work.kv_head]));
    const i32 seen_by_all = Config::kCausal ? work.keys - shape.q_len + 1 : work.keys;
    run_ring(smem, feed, state, Queries(smem.query), problem, seen, begin, work.end, seen_by_all,
             scale);
    const float value_scale = in.v_scale == nullptr ? 1.0f : in.v_scale[work.kv_head];
#if DECODE_CLUSTER
    finish_in_cluster(smem, state, problem, work, shape, output, value_scale);
#else
    finish_part(smem, state, problem, work, shape, output, partial, arrivals, value_scale);
#endif
}

} // namespace decode
