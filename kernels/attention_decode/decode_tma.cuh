// attention_decode with keys and values that TMA brings, for sm_90a: one lane keeps a ring of
// tiles in shared memory full while the other warps take them from there. What is done with a tile
// is that of decode_mma (decode_rows.cuh); this is about how tiles come. 16-bit caches, no rope,
// no shared prefix.
//
// Layouts   A stage holds a round: KEYS WARPS keys that follow one another, and their values. It is
//           filled by boxes of kBoxKeys keys, as many as lie in a page, 256 at most. The map cuts a
//           row into pieces of 64 columns, the 128 bytes of one swizzle span. ORDER says which way
//           a box lies in shared memory, and so how it is read: `columns` 64 columns of all its
//           keys, then the next 64, so that ldmatrix meets no conflicts; `rows` whole rows, so that
//           (where heads come first) a box is one run of bytes, and ldmatrix meets as many rows of
//           a bank as a row has pieces.
// Roles     The last warp copies: one elected lane starts everything. The WARPS before it multiply:
//           warp w the keys from w KEYS of each round, with a maximum and sums of its own. Then
//           sums meet in shared memory of their own, where queries lay, while the ring fills for
//           the next part.
// Parts     Numbered along key heads and tiles of rows, then parts of a request, then requests. A
//           block takes every gridDim.x-th; the ring runs on from one into the next.
// Barriers  full[s]   1 arrival and the bytes of the round's boxes, copies -> products. The
//                     arrival is the copying lane's, before its copies.
//           empty[s]  1 arrival of each multiplying warp, products -> copies: stage s may be
//                     overwritten.
//           block     after the barriers are set up.
//           1         of the multiplying warps: Config::sync.
// Ragged    Boxes that begin past the end of a part are not copied. Rows past the end that came all
//           the same hold anything, NaN too, and rows of boxes that did not come hold what lay
//           there before: the warp that reads the tile clears them first, by plain stores, which a
//           fence orders before the copies that overwrite them. Scores of keys past the end are
//           -inf. Rows past the last query head are queries of 0 and are not stored.
// Early     (EARLY = yes) The request's length comes from memory while the first STAGES rounds of a
//           block's first part do: those come as far as there is room for keys, whatever the length
//           will be. A round past the end is waited for and left, so that stages keep their order.
//
// Parameters (decode_tma.kernel.json has their values and rules): KEYS of a warp's tile, WARPS that
// multiply, STAGES, M_TILES, QUERY (fragments of queries stay in registers, or are read from shared
// memory for every tile), LOAD (whether L2 drops keys and values first), ORDER, BLOCKS of an SM,
// EARLY. How many blocks there are is the grid's, SPREAD an argument.

#include <gk/hopper.cuh>
#include <gk/mma.cuh>
#include <gk/padded.cuh>
#include <gk/stream.cuh>
#include <gk/tma.cuh>

namespace decode
{

using namespace gk;

// Where a warp finds chunks of its tile of kRows keys, counted from the tile's first: see Layouts.
template <u32 kRowsOfTile, u32 kPiecesOfRow, u32 kRowsOfBox, bool kRowsFirst> struct BoxedTile {
    static constexpr u32 kRows = kRowsOfTile;
    static constexpr u32 kLineChunks = kBankLineBytes / kChunkBytes;
    static constexpr u32 kRowChunks = kPiecesOfRow * kLineChunks;
    static constexpr u32 kRowBytes = kPiecesOfRow * kBankLineBytes;

    // Byte offset of a chunk of a row.
    static GK_DEVICE u32 offset(u32 row, u32 chunk)
    {
        const u32 piece = chunk / kLineChunks, box = row / kRowsOfBox;
        const u32 line = kRowsFirst ? row * kPiecesOfRow + piece
                                    : (box * kPiecesOfRow + piece) * kRowsOfBox + row % kRowsOfBox;
        return line * kBankLineBytes + (chunk ^ line) % kLineChunks * kChunkBytes;
    }

    // Byte offset of the tile that begins with the round's row `row`, from the round's first.
    static GK_DEVICE u32 start(u32 row)
    {
        return kRowsFirst
                   ? row * kRowBytes
                   : row / kRowsOfBox * kRowsOfBox * kRowBytes + row % kRowsOfBox * kBankLineBytes;
    }
};

struct Config {
    using Element = GK_DTYPE; // of everything
    using Cached = Element;
    static constexpr u32 kDim = GK_HEAD_DIM;
    static constexpr u32 kPage = GK_PAGE_SIZE; // keys; 0: no pages
    static constexpr u32 kKeys = GK_KEYS;
    static constexpr u32 kWarps = GK_WARPS, kThreads = kWarps * kWarpSize; // that multiply
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kTiles = GK_M_TILES, kRows = kTiles * kMmaM;
    static constexpr u32 kBlocks = GK_BLOCKS; // an SM
    static constexpr bool kQueryInRegisters = GK_QUERY == GK_QUERY_REGISTERS;
    static constexpr bool kDropsFirst = GK_LOAD == GK_LOAD_EVICT_FIRST;
    static constexpr bool kRowsFirst = GK_ORDER == GK_ORDER_ROWS;
    static constexpr bool kEarly = GK_EARLY == GK_EARLY_YES;
    static constexpr bool kCausal = GK_CAUSAL;
    static constexpr bool kPrefix = false, kNarrow = false, kNarrowKeys = false;

    static constexpr u32 kSteps = kDim / kMmaK;       // of a score
    static constexpr u32 kColumnTiles = kDim / kMmaN; // of an output
    static constexpr u32 kKeyTiles = kKeys / kMmaN;
    static constexpr u32 kRound = kKeys * kWarps;
    static constexpr u32 kBoxKeys = min_of(kRound, kPage == 0 ? 256 : kPage);
    static constexpr u32 kBoxes = kRound / kBoxKeys; // of keys, of a round
    static constexpr u32 kBoxBytes = kBoxKeys * kDim * sizeof(Element);

    using Tile = BoxedTile<kKeys, kDim * sizeof(Element) / kBankLineBytes, kBoxKeys, kRowsFirst>;
    using KeyTile = Tile;
    using Query = PaddedTile<kRows, kDim * sizeof(Element)>;

    static GK_DEVICE void sync()
    {
        ptx::named_barrier_sync(1, kThreads);
    }

    static_assert(sizeof(Element) == 2 && kDim % 64 == 0, "rows are whole swizzle spans");
    static_assert(kKeys % kMmaK == 0, "probabilities are whole fragments");
    static_assert(kStages >= 2, "a round is copied while another is multiplied");
    static_assert(kRound % kBoxKeys == 0 && kBoxKeys % 8 == 0,
                  "boxes begin with a swizzle pattern");
    static_assert(kBoxKeys % kKeys == 0 || kKeys % kBoxKeys == 0,
                  "a tile is boxes, or lies in one");
    static_assert(!kEarly || kPage == 0, "what a request does not need are no pages");
};

} // namespace decode

#include "decode_rows.cuh"

namespace decode
{

struct alignas(1024) Smem {
    struct Stage {
        u8 k[Config::kBoxes][Config::kBoxBytes];
        u8 v[Config::kBoxes][Config::kBoxBytes];
    };
    Stage ring[Config::kStages];
    union { // in turn, part after part
        u8 query[Config::Query::kBytes];
        Meeting meeting;
    };
    Barrier full[Config::kStages], empty[Config::kStages];
};

using Ring = RingPosition<Config::kStages>;

// The parts of the launch, and what a block needs to find its own.
struct Parts {
    i32 columns; // key heads times tiles of rows
    i32 most;    // parts of a request
    i32 count;   // all
    i32 spread;  // different rounds that neighbouring parts begin with
    i32 room;    // keys that a request has room for
    const i32 *lengths;

    // What no length is needed for.
    GK_DEVICE Work place(const Shape &shape, i32 index) const
    {
        const i32 rest = index / columns;
        return place_work(shape, index % columns, rest % most, rest / most);
    }

    // How many rounds come before the block knows how many its part has.
    GK_DEVICE i32 early_rounds(i32 index) const
    {
        return Config::kEarly && index == static_cast<i32>(blockIdx.x)
                   ? static_cast<i32>(Config::kStages)
                   : 0;
    }
};

// The rounds of a part in the order in which they come: from one in the middle to the last, then
// the others. Keys may come in any order; parts that lie a power of two apart and are all read from
// their beginning may lie in the same channels of memory. With EARLY they are those of a request
// that is as long as there is room, and of them come the first `early` ones and what begins before
// the part's end.
struct Rounds {
    i32 begin, count, first, early;

    GK_DEVICE Rounds(const Work &work, const Shape &shape, const Parts &parts, i32 index)
        : begin(work.begin), early(parts.early_rounds(index))
    {
        const i32 end = Config::kEarly ? min_of(work.begin + shape.chunk, parts.room) : work.end;
        count = ceil_div(max_of(end - begin, 0), static_cast<i32>(Config::kRound));
        first = index % parts.spread * count / parts.spread;
    }

    // First key of the one that comes as number n.
    GK_DEVICE i32 key(i32 n) const
    {
        const i32 round = first + n < count ? first + n : first + n - count;
        return begin + round * static_cast<i32>(Config::kRound);
    }

    // Whether number n, which begins at `key`, comes at all; `end` is the part's.
    GK_DEVICE bool comes(i32 n, i32 key, i32 end) const
    {
        return !Config::kEarly || n < early || key < end;
    }
};

// ---------------------------------------------------------------------------- copies

struct Maps {
    const TensorMap &k, &v;
    const i32 *pages;
    i32 pages_row; // entries of a row of the page table
};

// One box of keys, or of values.
GK_DEVICE void copy_box(u8 *to, const TensorMap &map, i32 key, i32 head, i32 outer,
                        const Barrier &full, u64 policy)
{
    const i32 at[5] = {0, Config::kRowsFirst ? 0 : key, Config::kRowsFirst ? key : 0, head, outer};
    if constexpr (Config::kDropsFirst) {
        tma_load_hinted(ptx::shared_address(to), map, at, full, policy);
    } else {
        tma_load(ptx::shared_address(to), map, at, full);
    }
}

// One lane: fills stages in order, part after part.
GK_DEVICE void copy_role(Smem &smem, const Maps &maps, const Shape &shape, const Parts &parts)
{
    constexpr i32 kBoxKeys = Config::kBoxKeys, kPageKeys = max_of(1u, Config::kPage);
    const u64 policy = Config::kDropsFirst ? policy_evict_first() : 0;
    prefetch(maps.k);
    prefetch(maps.v);
    Ring at;
    for (i32 index = static_cast<i32>(blockIdx.x); index < parts.count;
         index += static_cast<i32>(gridDim.x)) {
        Work work = parts.place(shape, index);
        const i32 keys = parts.lengths[work.request]; // early rounds do not wait for it
        if constexpr (!Config::kEarly) {
            size_work(work, shape, keys);
        }
        const i32 *pages = maps.pages + static_cast<i64>(work.request) * maps.pages_row;
        const Rounds rounds(work, shape, parts, index);
        i32 end = Config::kEarly ? min_of(work.begin + shape.chunk, parts.room) : work.end;
#pragma unroll 1
        for (i32 n = 0; n < rounds.count; ++n) {
            if (Config::kEarly && n == rounds.early) {
                end = min_of(end, keys);
            }
            const i32 key = rounds.key(n);
            if (!rounds.comes(n, key, end)) {
                continue;
            }
            const u32 boxes = static_cast<u32>(
                min_of(static_cast<i32>(Config::kBoxes), ceil_div(end - key, kBoxKeys)));
            i32 outer[Config::kBoxes], inner[Config::kBoxes]; // looked up before the stage is free
#pragma unroll
            for (u32 box = 0; box < Config::kBoxes; ++box) {
                const i32 first = key + static_cast<i32>(box) * kBoxKeys;
                const bool paged = Config::kPage != 0 && box < boxes;
                outer[box] = paged ? pages[first / kPageKeys] : work.request;
                inner[box] = paged ? first % kPageKeys : first;
            }
            smem.empty[at.stage].wait(at.parity ^ 1);
            Barrier &full = smem.full[at.stage];
            full.arrive_expect_bytes(boxes * 2 * Config::kBoxBytes);
#pragma unroll
            for (u32 box = 0; box < Config::kBoxes; ++box) {
                if (box < boxes) {
                    copy_box(smem.ring[at.stage].k[box], maps.k, inner[box], work.kv_head,
                             outer[box], full, policy);
                    copy_box(smem.ring[at.stage].v[box], maps.v, inner[box], work.kv_head,
                             outer[box], full, policy);
                }
            }
            at.advance();
        }
    }
}

// ---------------------------------------------------------------------------- products

// Rows of a warp's tiles from `valid` on become zeros.
GK_DEVICE void clear_tail(u8 *k, u8 *v, u32 valid)
{
    using Tile = Config::Tile;
#pragma unroll 1
    for (u32 index = valid * Tile::kRowChunks + lane_index();
         index < Config::kKeys * Tile::kRowChunks; index += kWarpSize) {
        const u32 offset = Tile::offset(index / Tile::kRowChunks, index % Tile::kRowChunks);
        *reinterpret_cast<uint4 *>(k + offset) = make_uint4(0, 0, 0, 0);
        *reinterpret_cast<uint4 *>(v + offset) = make_uint4(0, 0, 0, 0);
    }
    fence_async_shared(); // before the copies that come here next
    __syncwarp();         // the tiles are whole
}

// The round that comes next is there.
GK_DEVICE void await_round(Smem &smem, const Ring &at)
{
    smem.full[at.stage].wait(at.parity);
    __syncwarp(); // lanes leave the wait one by one, and ldmatrix takes whole warps
}

// The warp is done with it.
GK_DEVICE void release_round(Smem &smem, Ring &at)
{
    __syncwarp(); // all lanes have read the stage
    if (lane_index() == 0) {
        smem.empty[at.stage].arrive();
    }
    at.advance();
}

// A warp's keys of each round of a part.
GK_DEVICE void run_rounds(Smem &smem, Ring &at, State &state, const Queries &queries,
                          const Work &work, const Rounds &rounds,
                          const i32 (&seen)[Config::kTiles][kHalves], i32 seen_by_all, float scale)
{
    constexpr i32 kKeys = Config::kKeys;
    const u32 row = warp_index() * Config::kKeys, start = Config::Tile::start(row);
#pragma unroll 1
    for (i32 n = 0; n < rounds.count; ++n) {
        const i32 first = rounds.key(n), key = first + static_cast<i32>(row);
        if (!rounds.comes(n, first, work.end)) {
            continue;
        }
        await_round(smem, at);
        if (key < work.end) {
            u8 *k = &smem.ring[at.stage].k[0][0] + start, *v = &smem.ring[at.stage].v[0][0] + start;
            if (work.end - key < kKeys) {
                clear_tail(k, v, static_cast<u32>(work.end - key));
            }
            Scores scores;
            score(scores, queries, ptx::shared_address(k));
            if (key + kKeys > min_of(work.end, seen_by_all)) {
                mask(scores, seen, key);
            }
            exponentiate(scores, state, scale);
            add_values(state, scores, ptx::shared_address(v));
        }
        release_round(smem, at);
    }
}

// Rounds that came early to a part without keys: what they brought is left where it lies.
GK_DEVICE void pass_rounds(Smem &smem, Ring &at, const Rounds &rounds)
{
#pragma unroll 1
    for (i32 n = 0; n < min_of(rounds.early, rounds.count); ++n) {
        await_round(smem, at);
        release_round(smem, at);
    }
}

struct QueryReader {
    const Config::Element *q;

    GK_DEVICE uint4 operator()(const Row &row, u32 chunk) const
    {
        return ptx::ld_global_v4_ca(q + row.index * Config::kDim +
                                    chunk * (kChunkBytes / sizeof(Config::Element)));
    }
};

GK_DEVICE void multiply_role(Smem &smem, const Config::Element *q, const Shape &shape,
                             const Parts &parts,
                             const Output<Config::Element, Config::kDim> &output,
                             const Partial &partial)
{
    const float scale = positive_scale(shape.scale_log2);
    Ring at;
    for (i32 index = static_cast<i32>(blockIdx.x); index < parts.count;
         index += static_cast<i32>(gridDim.x)) {
        Work work = parts.place(shape, index);
        size_work(work, shape, parts.lengths[work.request]);
        const Rounds rounds(work, shape, parts, index);
        if (!work.any) {
            pass_rounds(smem, at, rounds);
            continue;
        }
        const Problem problem{parts.lengths, work.request,  work.keys,
                              shape.q_len,   shape.q_heads, shape.group};
        load_queries(smem.query, problem, work.first_row, shape.rows, work.kv_head, QueryReader{q});
        Config::sync(); // queries are there

        State state;
        state.clear();
        i32 seen[Config::kTiles][kHalves];
        find_seen(seen, problem, work, shape.rows);
        const i32 seen_by_all = Config::kCausal ? work.keys - shape.q_len + 1 : work.keys;
        run_rounds(smem, at, state, Queries(smem.query), work, rounds, seen, seen_by_all, scale);
        meet(smem.meeting, state, shape.rows - work.first_row);
        store_rows(smem.meeting, problem, output, partial, work.part, work.whole, work.first_row,
                   shape.rows, work.kv_head, 1.0f);
        Config::sync(); // sums are read: the next part's queries may come
    }
}

// ---------------------------------------------------------------------------- kernel

GK_DEVICE void set_up_barriers(Smem &smem)
{
    if (threadIdx.x == 0) {
#pragma unroll
        for (u32 stage = 0; stage < Config::kStages; ++stage) {
            smem.full[stage].init(1);
            smem.empty[stage].init(Config::kWarps);
        }
        fence_barrier_init();
    }
    __syncthreads();
}

} // namespace decode

using namespace decode;

// Maps of keys and values: (64 columns; keys, pieces of a row in the order of ORDER; key heads;
// requests or pages), boxes of kBoxKeys keys of a head, swizzled by 128 bytes. columns: key heads
// times tiles of rows; parts_most: of the longest request that there is room for.
extern "C" __global__ void __launch_bounds__(Config::kThreads + kWarpSize, Config::kBlocks)
    gk_decode_tma(const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                  const Config::Element *q, const i32 *pages, const i32 *lengths,
                  Config::Element *out, float *lse, float *partial_sums, float2 *partial_stats,
                  i32 q_len, i32 q_heads, i32 kv_heads, i32 pages_row, i32 chunk, i32 rows,
                  i32 columns, i32 parts_most, i32 parts_all, i32 spread, i32 room,
                  i64 partial_rows, float scale_log2)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    GK_TRAP_IF(ptx::shared_address(&smem) % alignof(Smem) != 0);
    const Shape shape{q_len, q_heads, kv_heads, q_heads / kv_heads, 0,         0,
                      chunk, rows,    0,        partial_rows,       scale_log2};
    const Parts parts{columns, parts_most, parts_all, spread, room, lengths};

    set_up_barriers(smem);
    if (warp_index() == Config::kWarps) {
        if (elect_one()) {
            copy_role(smem, Maps{k_map, v_map, pages, pages_row}, shape, parts);
            allow_next_launch(); // which waits for this one's results
        }
    } else {
        multiply_role(smem, q, shape, parts, Output<Config::Element, Config::kDim>{out, lse},
                      Partial{partial_sums, partial_stats, partial_rows});
    }
}
