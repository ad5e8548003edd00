// Decode over latent keys and values (DeepSeek's absorbed form): a row of the cache is a key of
// latent + rope columns, and its first `latent` columns are the value. A block has one chunk of the
// keys of one request and 16 M_TILES of the rows that read them (heads times queries: there is one
// key head for all), so a row of the cache comes from memory once for all of those.
//
// Layouts   Rows of a tile lie in shared memory as in the cache, padded by gk::PaddedTile; scores
//           read them along their columns, outputs read the same bytes along the keys (ldmatrix
//           transposes). Narrow caches (e4m3 latents, a scale for each 128 columns, 16-bit rope
//           columns) come as they lie, and are widened to a second tile of 16-bit rows.
// Roles     All warps copy. A warp scores units of 16 rows by 16 keys, over all columns or, where
//           there are more warps than units, over a slice of them; then it has rows, of which it
//           finds maxima, probabilities and sums; then it has latent / WARPS columns of the
//           outputs of all rows, in registers from first to last.
// Ring      STAGES tiles of KEYS rows by cp.async of 16 bytes, one commit group a tile, an empty
//           one past the end, so that "all but the youngest STAGES - 2 groups" always means "this
//           tile has landed".
// Barriers  __syncthreads, three a tile (four where tiles are widened):
//             landed   every thread's copies of this tile are visible; no warp reads the tile
//                      before, whose stage is refilled right after it, nor its probabilities
//             widened  the 16-bit tile is whole
//             scored   scores of all keys are there
//             weighed  probabilities of all rows are there, and what earlier sums shrink by
// Ragged    Keys past the end of the chunk or of the request are zero-filled, never read (what lies
//           there may be NaN), their scores -inf, their probabilities 0. Rows past the last are
//           queries of 0 and are not stored.
// Pages     A tile lies in one page. Its entry of the page table is read a tile ahead.
//
// Parameters (mla_mma.kernel.json has their values and rules): KEYS of a tile, WARPS, STAGES,
// M_TILES, LOAD (how caches treat the cache's rows), REUSE (how they treat queries, which all parts
// of a row read). The chunk is an argument.

#include <gk/hopper.cuh>
#include <gk/key_parts.cuh>
#include <gk/mma.cuh>
#include <gk/padded.cuh>
#include <gk/stream.cuh>

using namespace gk;

// Parts of `steps` for `warps` warps, both powers of two but for the steps: four at most, since
// each costs a pass over the scores.
constexpr GK_DEVICE u32 slices_of(u32 warps, u32 steps)
{
    u32 slices = warps > 4 ? 4 : warps > 0 ? warps : 1;
    while (steps % slices != 0) {
        slices /= 2;
    }
    return slices;
}

struct Config {
    using Element = GK_DTYPE; // of queries, probabilities, outputs; of a 16-bit cache
    static constexpr bool kNarrow = sizeof(GK_KV_DTYPE) == 1; // latents are e4m3
    static constexpr u32 kLatent = GK_LATENT_DIM, kRope = GK_ROPE_DIM, kDim = kLatent + kRope;
    static constexpr i32 kPage = GK_PAGE_SIZE; // keys; 0: no pages
    static constexpr u32 kKeys = GK_KEYS;
    static constexpr u32 kWarps = GK_WARPS, kThreads = kWarps * kWarpSize;
    static constexpr u32 kStages = GK_STAGES;
    static constexpr u32 kTiles = GK_M_TILES, kRows = kTiles * kMmaM;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kReuse = static_cast<CacheUse>(GK_REUSE);
    static constexpr bool kCausal = GK_CAUSAL;

    static constexpr u32 kScaled = 128; // columns of a scale
    static constexpr u32 kScaleBytes = kNarrow ? kLatent / kScaled * sizeof(float) : 0;
    static constexpr u32 kLatentBytes = kLatent * (kNarrow ? 1 : sizeof(Element));
    static constexpr u32 kRopeBytes = kRope * sizeof(Element);
    static constexpr u32 kSteps = kDim / kMmaK;       // of a score
    static constexpr u32 kColumns = kLatent / kWarps; // of an output, of a warp
    static constexpr u32 kColumnTiles = kColumns / kMmaN;
    static constexpr u32 kBlocks = kTiles * (kKeys / kMmaK); // of 16 rows by 16 keys
    // Where there are fewer of those than warps, several share the steps of one.
    static constexpr u32 kSlices = slices_of(kWarps / kBlocks, kSteps);
    static constexpr u32 kSliceSteps = kSteps / kSlices;
    static constexpr u32 kUnits = kBlocks * kSlices;
    static constexpr u32 kRowLanes = 8;                // that weigh a row
    static constexpr u32 kRowKeys = kKeys / kRowLanes; // of such a lane
    static constexpr u32 kRowsAtOnce = kThreads / kRowLanes;
    static constexpr u32 kTurns = ceil_div(kRows, kRowsAtOnce);

    using Tile = PaddedTile<kKeys, kDim * sizeof(Element)>;
    using Stored = PaddedTile<kKeys, kLatentBytes + kScaleBytes + kRopeBytes>;
    using Query = PaddedTile<kRows, kDim * sizeof(Element)>;
    using Weights = PaddedTile<kRows, kKeys * sizeof(Element)>;
    static constexpr u32 kScorePitch = kKeys + 4; // floats: rows in other banks

    static_assert(kDim % kMmaK == 0 && kRope % kMmaN == 0, "a key is whole steps and chunks");
    static_assert(kLatent % (kWarps * 2 * kMmaN) == 0, "ldmatrix brings two fragments of columns");
    static_assert(!kNarrow || kLatent % (4 * kScaled) == 0, "scales are whole chunks");
    static_assert(kKeys % kMmaK == 0, "probabilities are whole fragments");
    static_assert(kStages >= 2, "a tile is copied while another is multiplied");
    static_assert(kPage == 0 || kPage % static_cast<i32>(kKeys) == 0, "a tile lies in one page");
};

struct alignas(16) Smem {
    u8 query[Config::Query::kBytes];
    u8 ring[Config::kStages][Config::Stored::kBytes];
    u8 widened[Config::kNarrow ? Config::Tile::kBytes : kChunkBytes];
    u8 weights[Config::Weights::kBytes];
    float scores[Config::kSlices][Config::kRows][Config::kScorePitch];
    float keep[Config::kRows];   // what earlier sums of the row shrink by
    float2 stats[Config::kRows]; // of the row, when all keys are read
};

// Blocks of an SM in the launch bounds. Where shared memory has room for one alone ptxas must not
// spill registers so that they last for two; else (0) it chooses.
constexpr u32 kSharedOfSm = 233472;
constexpr u32 kBlocksLeast = 2 * sizeof(Smem) > kSharedOfSm ? 1 : 0;

struct Shape {
    i32 q_len, heads;
    i32 pages_row;    // entries of a row of the page table
    i64 outer_rows;   // keys of a page, or those that a request has room for
    i32 chunk;        // keys of a part
    float scale_log2; // softmax_scale * log2 e
};

// Rows of the cache: 16-bit ones whole in `latents`; of narrow ones latents, scales, rope columns.
struct Cache {
    const u8 *latents;
    const u8 *scales, *ropes; // null of a 16-bit cache
};

// The part that a block computes.
struct Work {
    i32 request, first_row, rows; // rows of the request
    i32 part, parts;
    i32 begin, end, keys;
};

GK_DEVICE Work find_work(const Shape &shape, const i32 *lengths)
{
    Work work;
    work.first_row = static_cast<i32>(blockIdx.x * Config::kRows);
    work.rows = shape.q_len * shape.heads;
    work.request = static_cast<i32>(blockIdx.z);
    work.part = static_cast<i32>(blockIdx.y);
    work.keys = lengths[work.request];
    work.parts = parts_of(work.keys, shape.chunk);
    work.begin = work.part * shape.chunk;
    work.end = min_of(work.begin + shape.chunk, work.keys);
    return work;
}

// Keys of the request that a row (query, head) sees.
GK_DEVICE i32 seen_by(const Shape &shape, const Work &work, i32 row)
{
    if constexpr (!Config::kCausal) {
        return work.keys;
    }
    return max_of(work.keys - shape.q_len + 1 + row / shape.heads, 0);
}

// ---------------------------------------------------------------------------- copies

// The copying half of the ring: brings tiles in order, one a call.
class Feed
{
    using Stored = Config::Stored;
    static constexpr i32 kKeys = Config::kKeys;
    static constexpr u32 kLatentChunks = Config::kLatentBytes / kChunkBytes;
    static constexpr u32 kScaleChunks = Config::kScaleBytes / kChunkBytes;
    static constexpr u32 kRopeChunks = Config::kRopeBytes / kChunkBytes;
    static constexpr u32 kPieces = Config::kKeys * Stored::kRowChunks;

    Cache cache_;
    const i32 *pages_; // of the request; not read without pages
    i64 outer_rows_;
    u64 policy_;
    i32 request_;
    i32 key_, end_; // first key of the next tile; keys from end_ on are not there
    i32 page_ = 0;  // of the next tile

    GK_DEVICE i32 page_of(i32 key) const
    {
        if constexpr (Config::kPage == 0) {
            return request_;
        } else {
            return key < end_ ? pages_[key / max_of(1, Config::kPage)] : 0;
        }
    }

    // Where a piece of a row of the cache lies.
    GK_DEVICE const u8 *source(i64 row, u32 chunk) const
    {
        if constexpr (!Config::kNarrow) {
            return cache_.latents + (row * Stored::kRowChunks + chunk) * kChunkBytes;
        } else if (chunk < kLatentChunks) {
            return cache_.latents + (row * kLatentChunks + chunk) * kChunkBytes;
        } else if (chunk < kLatentChunks + kScaleChunks) {
            return cache_.scales + (row * kScaleChunks + (chunk - kLatentChunks)) * kChunkBytes;
        } else {
            return cache_.ropes +
                   (row * kRopeChunks + (chunk - kLatentChunks - kScaleChunks)) * kChunkBytes;
        }
    }

  public:
    GK_DEVICE Feed(const Cache &cache, const i32 *pages, const Shape &shape, const Work &work)
        : cache_(cache), pages_(pages), outer_rows_(shape.outer_rows),
          policy_(ptx::cache_policy<Config::kLoad>()), request_(work.request), key_(work.begin),
          end_(work.end)
    {
        page_ = page_of(key_);
    }

    // Starts the next tile into `stage`, or nothing past the end; one commit group either way.
    GK_DEVICE void start_next(u8 *stage)
    {
        if (key_ < end_) {
            const i32 inside = Config::kPage == 0 ? key_ : key_ % max_of(1, Config::kPage);
            const i64 first = page_ * outer_rows_ + inside;
            page_ = page_of(key_ + kKeys);
#pragma unroll 4
            for (u32 index = threadIdx.x; index < kPieces; index += Config::kThreads) {
                const u32 row = index / Stored::kRowChunks, chunk = index % Stored::kRowChunks;
                const u32 bytes = key_ + static_cast<i32>(row) < end_ ? kChunkBytes : 0;
                ptx::cp_async_as<Config::kLoad, kChunkBytes>(
                    ptx::shared_address(stage) + Stored::offset(row, chunk),
                    source(first + row, chunk), bytes, policy_);
            }
            key_ += kKeys;
        }
        ptx::cp_async_commit();
    }
};

// Queries of the block's rows to shared memory; zeros past the last. `q`: of the request.
GK_DEVICE void load_queries(u8 *to, const Config::Element *q, const Work &work)
{
    using Query = Config::Query;
    const u64 policy = ptx::cache_policy<Config::kReuse>();
#pragma unroll 4
    for (u32 index = threadIdx.x; index < Config::kRows * Query::kRowChunks;
         index += Config::kThreads) {
        const u32 row = index / Query::kRowChunks, chunk = index % Query::kRowChunks;
        const i32 from = work.first_row + static_cast<i32>(row);
        u32 word[4] = {0, 0, 0, 0};
        if (from < work.rows) {
            ptx::load<Config::kReuse>(word,
                                      q + static_cast<i64>(from) * Config::kDim +
                                          chunk * (kChunkBytes / sizeof(Config::Element)),
                                      policy);
        }
        *reinterpret_cast<uint4 *>(to + Query::offset(row, chunk)) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
}

// Eight latents times their scale to a chunk of a 16-bit row; rope columns as they are.
GK_DEVICE void widen(u8 *to, const u8 *stored)
{
    using T = Config::Element;
    constexpr u32 kEight = kChunkBytes / sizeof(T);
    constexpr u32 kRowPieces = Config::kDim / kEight, kLatentPieces = Config::kLatent / kEight;
#pragma unroll 1
    for (u32 index = threadIdx.x; index < Config::kKeys * kRowPieces; index += Config::kThreads) {
        const u32 row = index / kRowPieces, piece = index % kRowPieces;
        const u8 *from = stored + Config::Stored::offset(row, 0);
        uint4 words;
        if (piece < kLatentPieces) {
            const uint2 bytes = *reinterpret_cast<const uint2 *>(from + piece * kEight);
            const float scale = *reinterpret_cast<const float *>(
                from + Config::kLatentBytes + piece * kEight / Config::kScaled * sizeof(float));
            u32 pairs[4];
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                const u32 two = (i < 2 ? bytes.x : bytes.y) >> (i % 2 * 16);
                pairs[i] = pack_pair<T>(to_float(e4m3{static_cast<u8>(two)}) * scale,
                                        to_float(e4m3{static_cast<u8>(two >> 8)}) * scale);
            }
            words = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        } else {
            words =
                *reinterpret_cast<const uint4 *>(from + Config::kLatentBytes + Config::kScaleBytes +
                                                 (piece - kLatentPieces) * kChunkBytes);
        }
        *reinterpret_cast<uint4 *>(to + Config::Tile::offset(row, piece)) = words;
    }
}

// ---------------------------------------------------------------------------- a tile

// This warp's units of scores, to shared memory, not scaled.
GK_DEVICE void score(Smem &smem, u32 tile)
{
    const u32 lane = lane_index(), query = ptx::shared_address(smem.query);
#pragma unroll 1
    for (u32 unit = warp_index(); unit < Config::kUnits; unit += Config::kWarps) {
        const u32 slice = unit / Config::kBlocks, block = unit % Config::kBlocks;
        const u32 row = block % Config::kTiles * kMmaM, key = block / Config::kTiles * kMmaK;
        FragmentD s[2] = {{{0.0f, 0.0f, 0.0f, 0.0f}}, {{0.0f, 0.0f, 0.0f, 0.0f}}};
#pragma unroll 4
        for (u32 step = 0; step < Config::kSliceSteps; ++step) {
            const u32 column = (slice * Config::kSliceSteps + step) * kMmaK;
            FragmentA a;
            FragmentB b[2];
            load_fragment_a<Config::Query, true>(a, query, row, column);
            load_fragments_b<Config::Tile, true>(b[0], b[1], tile, key, column);
            mma_m16n8k16(s[0], a, b[0], Config::Element{});
            mma_m16n8k16(s[1], a, b[1], Config::Element{});
        }
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            float *to = &smem.scores[slice][row + lane / 4][key + half * kMmaN + lane % 4 * 2];
            *reinterpret_cast<float2 *>(to) = make_float2(s[half].v[0], s[half].v[1]);
            *reinterpret_cast<float2 *>(to + kMmaM / 2 * Config::kScorePitch) =
                make_float2(s[half].v[2], s[half].v[3]);
        }
    }
}

// What a lane knows of the rows that it weighs: eight lanes a row.
struct Rows {
    float most[Config::kTurns]; // the same in the eight lanes
    float sum[Config::kTurns];  // of this lane's keys

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 turn = 0; turn < Config::kTurns; ++turn) {
            most[turn] = MaxOp::neutral();
            sum[turn] = 0.0f;
        }
    }

    static GK_DEVICE u32 row_of(u32 turn)
    {
        return turn * Config::kRowsAtOnce + threadIdx.x / Config::kRowLanes;
    }
};

// Scores of a tile, whose first key is `key`, to probabilities below each row's greatest score.
GK_DEVICE void weigh(Smem &smem, Rows &rows, const Shape &shape, const Work &work, i32 key)
{
    using T = Config::Element;
    const u32 slot = threadIdx.x % Config::kRowLanes * Config::kRowKeys; // this lane's first key
#pragma unroll
    for (u32 turn = 0; turn < Config::kTurns; ++turn) {
        const u32 row = Rows::row_of(turn);
        const bool is_row = Config::kRows % Config::kRowsAtOnce == 0 || row < Config::kRows;
        const i32 seen = seen_by(shape, work, work.first_row + static_cast<i32>(row));
        float s[Config::kRowKeys];
        float most = MaxOp::neutral();
#pragma unroll
        for (u32 i = 0; i < Config::kRowKeys; ++i) {
            const i32 at = key + static_cast<i32>(slot + i);
            float score = 0.0f;
#pragma unroll
            for (u32 slice = 0; slice < Config::kSlices && is_row; ++slice) {
                score += smem.scores[slice][row][slot + i];
            }
            s[i] =
                is_row && at < min_of(seen, work.end) ? score * shape.scale_log2 : MaxOp::neutral();
            most = fmaxf(most, s[i]);
        }
        most = fmaxf(rows.most[turn], warp_reduce<MaxOp, Config::kRowLanes>(most));
        // Nothing but -inf so far: differences would be NaN, and are -inf from 0.
        const float base = most == MaxOp::neutral() ? 0.0f : most;
        const float keep = ptx::exp2_approx(rows.most[turn] - base);
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < Config::kRowKeys; ++i) {
            s[i] = ptx::exp2_approx(s[i] - base);
            sum += s[i];
        }
        rows.most[turn] = most;
        rows.sum[turn] = rows.sum[turn] * keep + sum;
        if (is_row) {
            u8 *to = smem.weights + Config::Weights::offset(row, 0) + slot * sizeof(T);
#pragma unroll
            for (u32 i = 0; i < Config::kRowKeys; i += 2) {
                *reinterpret_cast<u32 *>(to + i * sizeof(T)) = pack_pair<T>(s[i], s[i + 1]);
            }
            if (slot == 0) {
                smem.keep[row] = keep;
            }
        }
    }
}

// A warp's columns of the outputs of all rows.
struct Sums {
    FragmentD d[Config::kTiles][Config::kColumnTiles];

    GK_DEVICE void clear()
    {
#pragma unroll
        for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; ++j) {
                d[i][j] = FragmentD{{0.0f, 0.0f, 0.0f, 0.0f}};
            }
        }
    }

    // What was summed before shrinks where a row's greatest score grew.
    GK_DEVICE void shrink(const Smem &smem)
    {
#pragma unroll
        for (u32 i = 0; i < Config::kTiles; ++i) {
            const u32 row = i * kMmaM + lane_index() / 4;
            const float upper = smem.keep[row], lower = smem.keep[row + kMmaM / 2];
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; ++j) {
                d[i][j].v[0] *= upper;
                d[i][j].v[1] *= upper;
                d[i][j].v[2] *= lower;
                d[i][j].v[3] *= lower;
            }
        }
    }

    GK_DEVICE void add(const Smem &smem, u32 tile, u32 column)
    {
        const u32 weights = ptx::shared_address(smem.weights);
#pragma unroll
        for (u32 key = 0; key < Config::kKeys; key += kMmaK) {
            FragmentA p[Config::kTiles];
#pragma unroll
            for (u32 i = 0; i < Config::kTiles; ++i) {
                load_fragment_a<Config::Weights, true>(p[i], weights, i * kMmaM, key);
            }
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; j += 2) {
                FragmentB b[2];
                load_fragments_b<Config::Tile, false>(b[0], b[1], tile, column + j * kMmaN, key);
#pragma unroll
                for (u32 i = 0; i < Config::kTiles; ++i) {
                    mma_m16n8k16(d[i][j], p[i], b[0], Config::Element{});
                    mma_m16n8k16(d[i][j + 1], p[i], b[1], Config::Element{});
                }
            }
        }
    }
};

GK_DEVICE void run_ring(Smem &smem, Feed &feed, Sums &sums, Rows &rows, const Shape &shape,
                        const Work &work, u32 column)
{
    u32 full = 0, empty = Config::kStages - 1;
#pragma unroll 1
    for (i32 key = work.begin; key < work.end; key += static_cast<i32>(Config::kKeys)) {
        ptx::cp_async_wait<Config::kStages - 2>();
        __syncthreads(); // landed
        feed.start_next(smem.ring[empty]);
        const u8 *tile = smem.ring[full];
        if constexpr (Config::kNarrow) {
            widen(smem.widened, tile);
            tile = smem.widened;
            __syncthreads(); // widened
        }
        score(smem, ptx::shared_address(tile));
        __syncthreads(); // scored
        weigh(smem, rows, shape, work, key);
        __syncthreads(); // weighed
        sums.shrink(smem);
        sums.add(smem, ptx::shared_address(tile), column);
        empty = full;
        full = full + 1 == Config::kStages ? 0 : full + 1;
    }
}

// ---------------------------------------------------------------------------- the end

// Pairs of columns from registers: to the output, where the rows have no other part, or to the
// workspace. `first`: of the request's rows among all.
GK_DEVICE void store_rows(const Smem &smem, const Sums &sums, const Work &work, i64 first,
                          Config::Element *out, float *lse, const Partial &partial, u32 column)
{
    using T = Config::Element;
    const u32 lane = lane_index();
    const bool whole = work.parts <= 1;
#pragma unroll
    for (u32 i = 0; i < 2 * Config::kTiles; ++i) {
        const u32 row = i * (kMmaM / 2) + lane / 4;
        const i64 to = first + work.first_row + row;
        if (work.first_row + static_cast<i32>(row) >= work.rows) {
            continue;
        }
        const float2 stats = smem.stats[row];
        const float factor = inverse_of(stats.y);
        const i64 place = partial.place(work.part, to);
#pragma unroll
        for (u32 j = 0; j < Config::kColumnTiles; ++j) {
            const float *v = &sums.d[i / 2][j].v[i % 2 * 2];
            const u32 at = column + j * kMmaN + lane % 4 * 2;
            if (whole) {
                ptx::st_global_u32(out + to * Config::kLatent + at,
                                   pack_pair<T>(v[0] * factor, v[1] * factor));
            } else {
                ptx::st_global_v2(partial.sums + place * Config::kLatent + at,
                                  __float_as_uint(v[0]), __float_as_uint(v[1]));
            }
        }
        if (column == 0 && lane % 4 == 0) {
            if (!whole) {
                partial.stats[place] = stats;
            } else if (lse != nullptr) {
                lse[to] = natural_lse(stats.x, stats.y);
            }
        }
    }
}

// Grid: x tiles of the request's rows; y parts, for the longest request that there is room for; z
// requests. Blocks without keys leave at once, but that a request without any has rows of zeros
// from its first block.
extern "C" __global__ void __launch_bounds__(Config::kThreads, kBlocksLeast)
    gk_mla_split(const Config::Element *q, const u8 *rows, const u8 *latents, const u8 *scales,
                 const u8 *ropes, const i32 *pages, const i32 *lengths, Config::Element *out,
                 float *lse, float *partial_sums, float2 *partial_stats, i32 q_len, i32 heads,
                 i32 pages_row, i64 outer_rows, i32 chunk, i64 partial_rows, float scale_log2)
{
    extern __shared__ Smem shared[];
    Smem &smem = shared[0];
    const Shape shape{q_len, heads, pages_row, outer_rows, chunk, scale_log2};
    const Work work = find_work(shape, lengths);
    if (work.part >= max_of(work.parts, 1)) {
        return;
    }
    Feed feed(Cache{Config::kNarrow ? latents : rows, scales, ropes},
              pages + static_cast<i64>(work.request) * pages_row, shape, work);
#pragma unroll
    for (u32 stage = 0; stage + 1 < Config::kStages; ++stage) {
        feed.start_next(smem.ring[stage]);
    }
    const i64 first = static_cast<i64>(work.request) * work.rows;
    load_queries(smem.query, q + first * Config::kDim, work);

    const u32 column = warp_index() * Config::kColumns;
    Sums sums;
    Rows weighed;
    sums.clear();
    weighed.clear();
    run_ring(smem, feed, sums, weighed, shape, work, column);
#if __CUDA_ARCH__ >= 900
    allow_next_launch(); // which waits for this one's results
#endif
    ptx::cp_async_wait<0>();
#pragma unroll
    for (u32 turn = 0; turn < Config::kTurns; ++turn) {
        const float sum = warp_reduce<SumOp, Config::kRowLanes>(weighed.sum[turn]);
        const u32 row = Rows::row_of(turn);
        if (row < Config::kRows && threadIdx.x % Config::kRowLanes == 0) {
            smem.stats[row] = make_float2(weighed.most[turn], sum);
        }
    }
    __syncthreads(); // stats are there
    store_rows(smem, sums, work, first, out, lse,
               Partial{partial_sums, partial_stats, partial_rows}, column);
}
