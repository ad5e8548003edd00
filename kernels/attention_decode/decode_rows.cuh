// What launches of attention_decode do with tiles of keys once they lie in shared memory, however
// they came there: scores, probabilities, sums, the meeting of a block's warps, whole rows or
// parts. See decode_body.cuh (tiles by cp.async) and decode_tma.cuh (by TMA), which include this
// behind decode::Config, from which everything here takes its sizes.
//
// Config has what they are built from: Element, Cached (types), kDim, kKeys, kWarps, kThreads (of
// the warps that multiply, the block's first), kTiles, kRows, kSteps, kColumnTiles, kKeyTiles,
// flags, the tiles Tile, KeyTile and Query, and sync(), a barrier of those warps.
#pragma once

#include <gk/key_parts.cuh>
#include <gk/narrow.cuh>
#include <gk/padded.cuh>
#include <gk/softmax.cuh>

namespace decode
{

using namespace gk;

// ---------------------------------------------------------------------------- work

// The launch's arguments that are not pointers to what is read and written.
struct Shape {
    i32 q_len, q_heads, kv_heads, group; // group: query heads of a key head
    i32 prefix, rotary;
    i32 chunk;        // keys of a part
    i32 rows;         // of a key head that one block row reads: of a request, or of all
    i32 prefix_parts; // parts of the shared prefix
    i64 partial_rows;
    float scale_log2; // softmax_scale * log2 e
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

// What no length is needed for. `column` counts key heads, then tiles of a head's rows.
GK_DEVICE Work place_work(const Shape &shape, i32 column, i32 part, i32 request)
{
    Work work;
    work.kv_head = column;
    work.first_row = 0;
    if (column >= shape.kv_heads) { // divisions would come before anything is asked for
        work.kv_head = column % shape.kv_heads;
        work.first_row = column / shape.kv_heads * static_cast<i32>(Config::kRows);
    }
    work.request = request;
    work.part = part;
    work.begin = part * shape.chunk;
    return work;
}

// The rest.
GK_DEVICE void size_work(Work &work, const Shape &shape, i32 keys)
{
    work.keys = keys;
    work.parts = parts_of(work.keys, shape.chunk);
    work.end = min_of(work.begin + shape.chunk, work.keys);
    work.whole = !Config::kPrefix && shape.prefix_parts == 0 && work.parts <= 1;
    // A request without any key has its rows of zeros from block 0.
    work.any = work.part < work.parts || (work.whole && work.part == 0);
}

// What the rows of a block read and where they come from.
struct Problem {
    const i32 *lengths;
    i32 request, keys; // of the rows; in the prefix's launch not used
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
    const i32 request = Config::kPrefix ? row / of_request : problem.request;
    const i32 rest = Config::kPrefix ? row - request * of_request : row;
    i32 query = 0, head = kv_head * problem.group + rest;
    if (rest >= problem.group) {
        query = rest / problem.group;
        head -= query * problem.group;
    }
    const i32 keys = Config::kPrefix ? problem.lengths[request] : problem.keys;
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

constexpr u32 kHalves = 2; // of a tile's rows: lane l has rows l / 4 and l / 4 + 8

// Keys that each of a lane's rows sees.
GK_DEVICE void find_seen(i32 (&seen)[Config::kTiles][kHalves], const Problem &problem,
                         const Work &work, i32 rows)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < kHalves; ++h) {
            const i32 row =
                work.first_row + static_cast<i32>(i * kMmaM + h * (kMmaM / 2) + lane_index() / 4);
            seen[i][h] = row < rows ? find_row(problem, row, work.kv_head).seen : work.keys;
        }
    }
}

// Queries of the block's rows to shared memory; zeros past the last. read(row, chunk) gives 16
// bytes of a row.
template <typename Read>
GK_DEVICE void load_queries(u8 *to, const Problem &problem, i32 first, i32 rows, i32 kv_head,
                            const Read &read)
{
    using Query = Config::Query;
#pragma unroll 1
    for (u32 index = threadIdx.x; index < Config::kRows * Query::kRowChunks;
         index += Config::kThreads) {
        const u32 row = index / Query::kRowChunks, chunk = index % Query::kRowChunks;
        uint4 words = make_uint4(0, 0, 0, 0);
        if (first + static_cast<i32>(row) < rows) {
            words = read(find_row(problem, first + static_cast<i32>(row), kv_head), chunk);
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
GK_DEVICE void mask(Scores &scores, const i32 (&seen)[Config::kTiles][kHalves], i32 key)
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
        for (u32 h = 0; h < kHalves; ++h) {
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

// ---------------------------------------------------------------------------- the end

// What a warp leaves. Rows lie eight banks apart: four of them are stored by half a warp at once.
struct alignas(16) Left {
    float sums[Config::kRows][Config::kDim + 8];
    float2 stats[Config::kRows]; // greatest score, sum of exponentials
};

// The rows that there are, below `rows`, to `left`. The warp's lanes have nothing on its way there.
GK_DEVICE void leave_sums(Left &left, State &state, i32 rows)
{
#pragma unroll
    for (u32 i = 0; i < Config::kTiles; ++i) {
#pragma unroll
        for (u32 h = 0; h < kHalves; ++h) {
            const u32 row = i * kMmaM + h * (kMmaM / 2) + lane_index() / 4;
            const float sum = warp_reduce<SumOp, 4>(state.sum[i][h]);
            if (static_cast<i32>(row) >= rows) {
                continue;
            }
            if (lane_index() % 4 == 0) {
                left.stats[row] = make_float2(state.most[i][h], sum);
            }
#pragma unroll
            for (u32 j = 0; j < Config::kColumnTiles; j += 2) {
                const FragmentD &a = state.sums[i][j], &b = state.sums[i][j + 1];
                float *to = &left.sums[row][column_of(j, 0)];
                if constexpr (Config::kNarrow) {
                    *reinterpret_cast<float4 *>(to) =
                        make_float4(a.v[2 * h], b.v[2 * h], a.v[2 * h + 1], b.v[2 * h + 1]);
                } else {
                    *reinterpret_cast<float2 *>(to) = make_float2(a.v[2 * h], a.v[2 * h + 1]);
                    *reinterpret_cast<float2 *>(to + kMmaN) =
                        make_float2(b.v[2 * h], b.v[2 * h + 1]);
                }
            }
        }
    }
}

// Where the sums of the warps meet.
struct Meeting {
    Left warps[Config::kWarps];
};

// Every warp's sums to shared memory, each below its own greatest score.
GK_DEVICE void meet(Meeting &meeting, State &state, i32 rows)
{
    Config::sync(); // no warp reads keys or queries any more, nor what lies where they meet
    leave_sums(meeting.warps[warp_index()], state, rows);
    Config::sync(); // sums are there
}

constexpr u32 kFour = 4; // columns that a thread stores at once
constexpr u32 kRowPieces = Config::kDim / kFour;

// Rows of the block to the output, where they are the only part, or to the workspace.
GK_DEVICE void store_rows(const Meeting &meeting, const Problem &problem,
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
        float2 stats = make_float2(MaxOp::neutral(), 0.0f); // of all warps
#pragma unroll
        for (u32 w = 0; w < Config::kWarps; ++w) {
            stats.x = fmaxf(stats.x, meeting.warps[w].stats[row].x);
        }
        float v[kFour] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (u32 w = 0; w < Config::kWarps; ++w) {
            const Left &warp = meeting.warps[w];
            const float weight = weight_of(warp.stats[row].x, stats.x);
            const float4 sums = *reinterpret_cast<const float4 *>(&warp.sums[row][column]);
            stats.y += weight * warp.stats[row].y;
            v[0] += weight * sums.x, v[1] += weight * sums.y;
            v[2] += weight * sums.z, v[3] += weight * sums.w;
        }
        const float factor = value_scale * (whole ? inverse_of(stats.y) : 1.0f);
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

} // namespace decode
