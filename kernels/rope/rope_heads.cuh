// Rotary embedding of q and k in one launch: pairs of a head's columns turned by an angle that
// follows from the token's position, cosines and sines from a table.
//
// A thread owns one piece of the columns of HEADS heads of one token: it reads its cosines and
// sines once, has the pieces of all its heads on their way, then turns and writes them. Of NeoX's
// halves it owns a piece of the first and the piece of the second that belongs to it; of GPT-J's
// neighbours one piece of whole pairs. Columns behind rotary_dim are units of their own: copied
// where the output is another matrix, else left alone.
//
// Units of a token: for every chunk of HEADS heads (those of q, then those of k; a chunk is of one
// of them) the pieces of the columns. Neighbouring threads own neighbouring pieces.

#include <gk/rows.cuh>

using namespace gk;

struct Config {
    using T = GK_DTYPE;
    static constexpr u32 kThreads = GK_THREADS;
    static constexpr u32 kHeads = GK_HEADS; // of a thread
    static constexpr u32 kPieceBytes = GK_PIECE_BYTES;
    static constexpr CacheUse kLoad = static_cast<CacheUse>(GK_LOAD);
    static constexpr CacheUse kTable = static_cast<CacheUse>(GK_REUSE); // every head reads it
    static constexpr StoreUse kStore = static_cast<StoreUse>(GK_STORE);
    static constexpr bool kNeox = GK_STYLE == GK_STYLE_NEOX;
    static constexpr bool kInPlace = GK_IN_PLACE;
};

using Columns = Piece<Config::T, Config::kPieceBytes>;
constexpr u32 kCount = Columns::kCount;
constexpr u32 kPairs = Config::kNeox ? kCount : kCount / 2; // of a unit, a head

static_assert(Config::kNeox || kCount % 2 == 0, "a piece holds whole pairs");

struct Angles {
    float cosine[kPairs], sine[kPairs];
};

struct Policies {
    u64 load, table;
};

// kPairs numbers of the table from `from` on, of which `count` exist. Rows of the table are whole
// accesses where half a head's pairs are a multiple of them, which is nearly always.
GK_DEVICE void read_table(float (&to)[kPairs], const float *from, i32 count, bool together,
                          u64 policy)
{
    constexpr u32 kWidth = min_of(4u, kPairs); // floats of an access
    using Part = Piece<float, kWidth * sizeof(float)>;
    if (together && count >= static_cast<i32>(kPairs)) {
        Fetched<Part, kPairs / kWidth> fetched;
        fetched.template fetch<Config::kTable>(from, 0, kWidth, kPairs, policy);
#pragma unroll
        for (u32 part = 0; part < kPairs / kWidth; ++part) {
#pragma unroll
            for (u32 i = 0; i < kWidth; ++i) {
                to[part * kWidth + i] = __uint_as_float(fetched.raw[part].w[i]);
            }
        }
        return;
    }
#pragma unroll
    for (u32 i = 0; i < kPairs; ++i) {
        u32 word[1] = {0}; // what is beyond is not used
        ptx::load_if<Config::kTable>(static_cast<i32>(i) < count, word, from + i, policy);
        to[i] = __uint_as_float(word[0]);
    }
}

// `row`: of the table, rotary_dim / 2 cosines, then as many sines; `first`: pair.
GK_DEVICE Angles angles_of(const float *row, i32 first, i32 half, const Policies &policies)
{
    const bool together = half % static_cast<i32>(min_of(4u, kPairs)) == 0;
    Angles angles;
    read_table(angles.cosine, row + first, half - first, together, policies.table);
    read_table(angles.sine, row + half + first, half - first, together, policies.table);
    return angles;
}

GK_DEVICE void turn(float &x, float &y, float cosine, float sine)
{
    const float before = x;
    x = before * cosine - y * sine;
    y = y * cosine + before * sine;
}

// Heads of one token: `in` and `out` are at the first of them, `ld` elements apart.
struct Heads {
    const Config::T *in;
    Config::T *out;
    i64 ld;
    i32 count; // at most kHeads

    // Of the columns of head h: none where there is no such head.
    GK_DEVICE i32 end(u32 h, i32 columns) const
    {
        return static_cast<i32>(h) < count ? columns : 0;
    }
};

// A piece of each half, of each head.
GK_DEVICE void rotate_halves(const Heads &heads, const float *table, i32 at, i32 half,
                             const Policies &policies)
{
    const u64 policy = policies.load;
    Columns::Raw raw_low[Config::kHeads], raw_high[Config::kHeads];
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        const i32 end = heads.end(h, half);
        const Config::T *in = heads.in + h * heads.ld;
        raw_low[h] = Columns::fetch<Config::kLoad>(in, at, end, policy);
        raw_high[h] = Columns::fetch<Config::kLoad>(in + half, at, end, policy);
    }
    const Angles angles = angles_of(table, at, half, policies);
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        const i32 end = heads.end(h, half);
        const Config::T *in = heads.in + h * heads.ld;
        Columns low, high;
        low.open<Config::kLoad>(raw_low[h], in, at, end, policy);
        high.open<Config::kLoad>(raw_high[h], in + half, at, end, policy);
#pragma unroll
        for (u32 i = 0; i < kCount; ++i) {
            turn(low.v[i], high.v[i], angles.cosine[i % kPairs], angles.sine[i % kPairs]);
        }
        low.store<Config::kStore>(heads.out + h * heads.ld, at, end);
        high.store<Config::kStore>(heads.out + h * heads.ld + half, at, end);
    }
}

// One piece of neighbours, of each head.
GK_DEVICE void rotate_neighbours(const Heads &heads, const float *table, i32 at, i32 half,
                                 const Policies &policies)
{
    const u64 policy = policies.load;
    Columns::Raw raw[Config::kHeads];
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        raw[h] = Columns::fetch<Config::kLoad>(heads.in + h * heads.ld, at, heads.end(h, 2 * half),
                                               policy);
    }
    const Angles angles = angles_of(table, at / 2, half, policies);
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        const i32 end = heads.end(h, 2 * half);
        Columns piece;
        piece.open<Config::kLoad>(raw[h], heads.in + h * heads.ld, at, end, policy);
#pragma unroll
        for (u32 i = 0; i + 1 < kCount; i += 2) {
            turn(piece.v[i], piece.v[i + 1], angles.cosine[i / 2 % kPairs],
                 angles.sine[i / 2 % kPairs]);
        }
        piece.store<Config::kStore>(heads.out + h * heads.ld, at, end);
    }
}

// Columns that do not turn.
GK_DEVICE void copy(const Heads &heads, i32 at, i32 end, u64 policy)
{
    Columns::Raw raw[Config::kHeads];
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        raw[h] =
            Columns::fetch<Config::kLoad>(heads.in + h * heads.ld, at, heads.end(h, end), policy);
    }
#pragma unroll
    for (u32 h = 0; h < Config::kHeads; ++h) {
        Columns piece;
        piece.open<Config::kLoad>(raw[h], heads.in + h * heads.ld, at, heads.end(h, end), policy);
        piece.store<Config::kStore>(heads.out + h * heads.ld, at, heads.end(h, end));
    }
}

// From q and k to q_out and k_out, or in place where q_place and k_place are. `turning`: units of a
// chunk that rotate; `pieces`: those and the ones that copy.
extern "C" __global__ void __launch_bounds__(Config::kThreads)
    gk_rope_heads(const Config::T *q, const Config::T *k, const i64 *positions, const float *table,
                  Config::T *q_out, Config::T *k_out, Config::T *q_place, Config::T *k_place,
                  i32 tokens, i32 q_heads, i32 kv_heads, i32 head_dim, i32 rotary_dim, i32 turning,
                  i32 pieces)
{
    const i32 q_chunks = ceil_div(q_heads, static_cast<i32>(Config::kHeads));
    const i32 chunks = q_chunks + ceil_div(kv_heads, static_cast<i32>(Config::kHeads));
    const i64 units = static_cast<i64>(tokens) * chunks * pieces;
    const i32 half = rotary_dim / 2;
    const Policies policies{ptx::cache_policy<Config::kLoad>(),
                            ptx::cache_policy<Config::kTable>()};

    for (i64 unit = static_cast<i64>(blockIdx.x) * Config::kThreads + threadIdx.x; unit < units;
         unit += static_cast<i64>(gridDim.x) * Config::kThreads) {
        const i64 token = quotient(unit, chunks * pieces);
        const i32 rest = static_cast<i32>(unit - token * (chunks * pieces));
        const i32 chunk = rest / pieces, piece = rest - chunk * pieces;
        const bool of_q = chunk < q_chunks;
        const i32 first = (of_q ? chunk : chunk - q_chunks) * static_cast<i32>(Config::kHeads);
        const i32 all = of_q ? q_heads : kv_heads;
        const i64 begin = (token * all + first) * head_dim;
        Config::T *out = Config::kInPlace ? (of_q ? q_place : k_place) : (of_q ? q_out : k_out);
        const Config::T *in = Config::kInPlace ? out : (of_q ? q : k);
        const Heads heads{in + begin, out + begin, head_dim,
                          min_of(all - first, static_cast<i32>(Config::kHeads))};
        const float *row = table + positions[token] * rotary_dim;

        if (piece >= turning) {
            // Begins where the rotated columns end; pieces of a head are aligned there too.
            copy(heads, rotary_dim + (piece - turning) * static_cast<i32>(kCount), head_dim,
                 policies.load);
        } else if constexpr (Config::kNeox) {
            rotate_halves(heads, row, piece * static_cast<i32>(kCount), half, policies);
        } else {
            rotate_neighbours(heads, row, piece * static_cast<i32>(kCount), half, policies);
        }
    }
}
