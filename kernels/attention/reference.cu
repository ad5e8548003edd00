// What attention means: a block has eight queries of one head that follow one another, a thread one
// key after another for all eight, then a column or two of theirs; in double. Scores are computed
// twice, so that the largest is known before the first exponential. Keys before the first and
// behind the last that the mask shows are not walked over: long sequences have 2^30 pairs a head.
// Eight, since to make a double of a key's element takes a GPU as long as four products of doubles:
// with one query a block a trial of 32,768 tokens waited a quarter of a minute.
//
// Magnitudes. An exponential rounded to 16 bits is off in proportion to itself, or by half a
// subnormal (f16: 2^-25, which the last part brings to the unit of the term); one of a score that
// is off by a part of its size, in proportion to that size (a 64th of it counts for O, so that the
// first term is not widened; all of it with rope, where a turned element that lies near a tie may
// round the other way).

#include <gk/plain.cuh>

constexpr int kThreads = 128; // keys at a time
constexpr int kQueries = 8;
constexpr int kDimMost = 256; // columns of a head at most, of which a thread has every kThreads-th
constexpr int kColumns = kDimMost / kThreads;

// kSubnormal: half the smallest step of an f16, in units of 2^-11; bf16 has the exponents of fp32.
// kFlushed: an exponential below the least normal fp32 may be 0, in units of its term; it shows
// beside a sink, which may be the largest score by far.
#if GK_DTYPE_F16
constexpr double kSubnormal = 0x1p-14;
constexpr double kFlushed = 0x1p-126 / 0x1p-11;
#else
constexpr double kSubnormal = 0.0;
constexpr double kFlushed = 0x1p-126 / 0x1p-8;
#endif

// Column c of a head's row, turned by the row `angles` of the table and rounded as a kernel in
// front would leave it.
FUNCTION double column(const Element *x, const float *angles, i64 c, i64 rotary_dim)
{
#if GK_ROPE == GK_ROPE_NONE
    return number(x[c]);
#else
    const i64 half = rotary_dim / 2;
    if (c >= rotary_dim) {
        return number(x[c]);
    }
#if GK_ROPE == GK_ROPE_NEOX
    const i64 angle = c % half, other = c < half ? c + half : c - half;
    const bool is_first = c < half;
#else
    const i64 angle = c / 2, other = c % 2 == 0 ? c + 1 : c - 1;
    const bool is_first = c % 2 == 0;
#endif
    const double own = number(x[c]) * angles[angle];
    const double turned = number(x[other]) * angles[half + angle];
    return rounded<Element>(is_first ? own - turned : own + turned);
#endif
}

FUNCTION double slope_of(i64 head, i64 heads)
{
    i64 n = 1;
    while (2 * n <= heads) {
        n *= 2;
    }
    const double power = head < n ? 8.0 * (double)(head + 1) / (double)n
                                  : 4.0 * (double)(2 * (head - n) + 1) / (double)n;
    return exponential(-0.693147180559945309417 * power);
}

// Where a tensor's request begins and how its rows lie.
FUNCTION i64 row_of(i64 before, i64 length, i64 heads, i64 head, i64 token, i64 ld, i64 dim)
{
#if GK_LAYOUT == GK_LAYOUT_BHSD
    return (before * heads + head * length + token) * ld;
#else
    return (before + token) * ld + head * dim;
#endif
}

// Eight elements of a key, whose row begins with 16 bytes and is whole pieces of them, the first in
// the lowest bits. Each thread of a warp has a row of its own: element by element a warp would ask
// for 32 lines of memory for 32 elements.
struct alignas(16) Eight {
    unsigned long long low, high;

    FUNCTION Element take(Eight *eight)
    {
        const Element first = {(u16)eight->low};
        eight->low = eight->low >> 16 | eight->high << 48;
        eight->high >>= 16;
        return first;
    }
};

// Queries of one head and request that follow one another, and the keys of their request.
struct Queries {
    const double (*q)[kQueries]; // [column][query], turned; 0 where there is no such query
    const Element *k;            // of key 0
    const float *table;
    i64 head, q_heads, dim, rotary_dim, k_ld;
    i64 place; // of the first one among the keys
    int count;
    i64 left, right, sink_tokens;
    double scale, softcap;
};

// The columns of queries, whose rows are q_ld elements apart from `q` on, and which turn by rows of
// the table from `angle` on.
FUNCTION void bring(double (&columns)[kDimMost][kQueries], const Queries &queries, const Element *q,
                    i64 q_ld, i64 angle)
{
    for (int e = (int)threadIdx.x; e < queries.dim * kQueries; e += kThreads) {
        const int c = e / kQueries, n = e % kQueries;
        const float *angles =
            queries.table ? queries.table + (angle + n) * queries.rotary_dim : nullptr;
        columns[c][n] =
            n < queries.count ? column(q + n * q_ld, angles, c, queries.rotary_dim) : 0.0;
    }
}

FUNCTION bool is_seen(const Queries &queries, int n, i64 j)
{
    [[maybe_unused]] const i64 place = queries.place + n;
#if GK_MASK == GK_MASK_CAUSAL
    const bool shown = j <= place;
#elif GK_MASK == GK_MASK_WINDOW
    const bool shown =
        j <= place + queries.right && (j >= place - queries.left || j < queries.sink_tokens);
#else
    const bool shown = true;
#endif
    return shown && n < queries.count;
}

// A product becomes a score: scaled, capped, less its distance; with its size.
FUNCTION void finish(const Queries &queries, int n, i64 j, double *value, double *size)
{
    *value *= queries.scale;
    *size *= queries.scale;
    if (queries.softcap > 0.0) {
        const double power = exponential(-2.0 * fabs(*value) / queries.softcap);
        const double capped = queries.softcap * (1.0 - power) / (1.0 + power);
        *value = *value < 0.0 ? -capped : capped;
        *size += queries.softcap;
    }
#if GK_ALIBI
    const double bias =
        slope_of(queries.head, queries.q_heads) * fabs((double)(j - queries.place - n));
    *value -= bias;
    *size += bias;
#endif
}

// Of key j and each query. kSized: with the sizes of what was added, which the largest score does
// not need. Columns are a loop, two at a time: more copies of it take the compiler seconds.
template <bool kSized>
FUNCTION void multiply(const Queries &queries, i64 j, double *values, double *sizes)
{
    double value[kQueries] = {}, size[kQueries] = {};
    const Element *k = queries.k + j * queries.k_ld;
#if GK_ROPE != GK_ROPE_NONE
    const float *angles = queries.table + j * queries.rotary_dim;
#endif
    for (i64 first = 0; first < queries.dim; first += 8) {
#if GK_ROPE == GK_ROPE_NONE
        Eight piece = *reinterpret_cast<const Eight *>(k + first);
#endif
#pragma unroll 2
        for (i64 c = first; c < first + 8; ++c) {
#if GK_ROPE == GK_ROPE_NONE
            const double y = number(Eight::take(&piece));
#else
            const double y = column(k, angles, c, queries.rotary_dim);
#endif
#pragma unroll
            for (int n = 0; n < kQueries; ++n) {
                const double x = queries.q[c][n];
                value[n] += x * y;
                if (kSized) {
                    size[n] += fabs(x) * fabs(y);
                }
            }
        }
    }
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
        values[n] = value[n];
        if (kSized) {
            sizes[n] = size[n];
        }
    }
}

// The keys from the first to behind the last that the mask may let one of the queries see.
struct Range {
    i64 begin, end;
};

FUNCTION Range range_of(const Queries &queries, i64 kv_len)
{
    Range range = {0, kv_len};
    [[maybe_unused]] const i64 last = queries.place + queries.count - 1;
#if GK_MASK == GK_MASK_CAUSAL
    range.end = min(kv_len, last + 1);
#elif GK_MASK == GK_MASK_WINDOW
    range.end = min(kv_len, max(last + queries.right + 1, queries.sink_tokens));
    range.begin = queries.sink_tokens > 0 ? 0 : max((i64)0, queries.place - queries.left);
#endif
    return range;
}

// For all threads to read: of each key of a part and each query. (While the largest score is looked
// for, scores and the largest that the thread has met.) Of each query: the sum of its weights and,
// at last, 1 over it (0 where no key was seen); the largest score; what the widths have beyond the
// weights.
struct Room {
    double weights[kThreads][kQueries], widths[kThreads][kQueries];
    double sum[kQueries], share[kQueries], most[kQueries], beyond[kQueries];
};

// Each query's largest score, or that of the sink. Loops over queries are loops here: eight copies
// of all that a score may be take the compiler seconds.
FUNCTION void find_most(const Queries &queries, const Range &range, double sink, Room &room)
{
    double *score = room.weights[threadIdx.x], *most = room.widths[threadIdx.x];
    for (int n = 0; n < kQueries; ++n) {
        most[n] = sink;
    }
    for (i64 j = range.begin + threadIdx.x; j < range.end; j += kThreads) {
        multiply<false>(queries, j, score, nullptr);
#pragma unroll 1
        for (int n = 0; n < kQueries; ++n) {
            double size = 0.0; // of no interest
            finish(queries, n, j, &score[n], &size);
            most[n] = is_seen(queries, n, j) ? fmax(most[n], score[n]) : most[n];
        }
    }
    __syncthreads();
    if (threadIdx.x < kQueries) {
        double largest = sink;
        for (int t = 0; t < kThreads; ++t) {
            largest = fmax(largest, room.widths[t][threadIdx.x]);
        }
        room.most[threadIdx.x] = largest;
    }
}

// The thread's key of a part of the keys: its weight and width for each query.
FUNCTION void weigh(const Queries &queries, const Range &range, i64 j, Room &room)
{
    double *weights = room.weights[threadIdx.x], *widths = room.widths[threadIdx.x];
    if (j < range.end) {
        multiply<true>(queries, j, weights, widths);
    }
#pragma unroll 1
    for (int n = 0; n < kQueries; ++n) {
        double weight = 0.0, width = 0.0;
        if (j < range.end && is_seen(queries, n, j)) {
            double score = weights[n], size = widths[n];
            finish(queries, n, j, &score, &size);
            size += fabs(room.most[n] - score);
            weight = exponential(score - room.most[n]);
#if GK_ROPE == GK_ROPE_NONE
            width = weight * (1.0 + size / 64.0) + kFlushed;
#else
            width = weight * (1.0 + size) + kFlushed;
#endif
        }
        weights[n] = weight;
        widths[n] = width;
    }
}

// A thread's columns of each query.
struct Sums {
    double value[kColumns][kQueries], magnitude[kColumns][kQueries];
#if GK_DTYPE_F16
    double value_sizes[kColumns][kQueries];
#endif
};

// Adds a part's `count` keys to column c of the thread's. `v` is the element of the part's first
// key. (Every value is finite: one that is not seen adds 0.)
FUNCTION void add_values(const Room &room, const Element *v, i64 v_ld, i64 count, int c, Sums *sums)
{
#pragma unroll 2
    for (i64 t = 0; t < count; ++t) {
        const double x = number(v[t * v_ld]), size = fabs(x);
#pragma unroll
        for (int n = 0; n < kQueries; ++n) {
            const double weight = room.weights[t][n];
            sums->value[c][n] += weight * x;
            sums->magnitude[c][n] += room.widths[t][n] * size;
#if GK_DTYPE_F16
            sums->value_sizes[c][n] += weight > 0.0 ? size : 0.0;
#endif
        }
    }
}

// Adds a part's weights and widths, one thread a query, key after key.
FUNCTION void add_weights(i64 count, Room &room)
{
    if (threadIdx.x < kQueries) {
        double sum = room.sum[threadIdx.x], beyond = room.beyond[threadIdx.x];
        for (i64 t = 0; t < count; ++t) {
            sum += room.weights[t][threadIdx.x];
            beyond += room.widths[t][threadIdx.x] - room.weights[t][threadIdx.x];
        }
        room.sum[threadIdx.x] = sum;
        room.beyond[threadIdx.x] = beyond;
    }
}

// Where results of the first query go: value and magnitude in turn. A query has one lse.
struct Results {
    double *o, *lse;
    i64 o_pitch, dim_v; // o_pitch: pairs from one query to the next
};

// One thread a query: its share, and lse.
FUNCTION void close(const Queries &queries, Room &room, const Results &to)
{
    if (threadIdx.x < kQueries) {
        const double all = room.sum[threadIdx.x], most = room.most[threadIdx.x];
        const double share = all > 0.0 ? 1.0 / all : 0.0;
        room.share[threadIdx.x] = share;
        if (to.lse && threadIdx.x < queries.count) {
            // The size of a score is divided by 64 in a width without rope.
            const double sizes = room.beyond[threadIdx.x] * (GK_ROPE == GK_ROPE_NONE ? 64.0 : 1.0);
            const double log = all > 0.0 ? logarithm(all) : 0.0;
            double *out = to.lse + 2 * threadIdx.x;
            out[0] = all > 0.0 ? most + log : __longlong_as_double(0xfff0000000000000LL);
            out[1] = all > 0.0 ? 1.0 + fabs(most) + fabs(log) + sizes * share : 0.0;
        }
    }
}

FUNCTION void store(const Queries &queries, const Room &room, const Sums &sums, const Results &to)
{
#pragma unroll
    for (int n = 0; n < kQueries; ++n) {
        const double share = room.share[n];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            const i64 at = threadIdx.x + c * kThreads;
            if (n < queries.count && at < to.dim_v) {
                double *out = to.o + 2 * (n * to.o_pitch + at);
                double magnitude = sums.magnitude[c][n];
#if GK_DTYPE_F16
                magnitude += kSubnormal * sums.value_sizes[c][n];
#endif
                out[0] = sums.value[c][n] * share;
                out[1] = magnitude * share;
            }
        }
    }
}

FUNCTION void attend(const Queries &queries, const Element *values, i64 v_ld, i64 kv_len,
                     const float *sinks, Room &room, const Results &to)
{
    const Range range = range_of(queries, kv_len);
#if GK_SINK
    const double sink = sinks[queries.head];
#else
    const double sink = -1e300;
#endif
    find_most(queries, range, sink, room);
    if (threadIdx.x < kQueries) { // its own, as the largest was
#if GK_SINK
        const double weight = exponential(sink - room.most[threadIdx.x]);
        const double beyond = weight * fabs(sink) / (GK_ROPE == GK_ROPE_NONE ? 64.0 : 1.0);
#else
        const double weight = 0.0, beyond = 0.0;
#endif
        room.sum[threadIdx.x] = weight;
        room.beyond[threadIdx.x] = beyond;
    }
    Sums sums = {};
    for (i64 first = range.begin; first < range.end; first += kThreads) {
        __syncthreads(); // the part before, or the largest of all threads, has been read
        weigh(queries, range, first + threadIdx.x, room);
        __syncthreads();
        const i64 count = min((i64)kThreads, range.end - first);
        add_weights(count, room);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
            const i64 at = threadIdx.x + c * kThreads;
            if (at < to.dim_v) {
                add_values(room, values + first * v_ld + at, v_ld, count, c, &sums);
            }
        }
    }
    close(queries, room, to);
    __syncthreads();
    store(queries, room, sums, to);
}

extern "C" __global__ void __launch_bounds__(kThreads, 3)
    gk_attention_reference(const Element *q, const Element *k, const Element *v,
                           const int *q_offsets, const int *kv_offsets, const float *table,
                           const float *sinks, double *o, double *lse, i64 batch, i64 q_heads,
                           i64 kv_heads, i64 dim, i64 dim_v, i64 rotary_dim, i64 left, i64 right,
                           i64 sink_tokens, i64 q_ld, i64 k_ld, i64 v_ld, double scale,
                           double softcap)
{
    __shared__ double columns[kDimMost][kQueries];
    __shared__ Room room;
    const i64 head = blockIdx.y, kv_head = head / (q_heads / kv_heads);
    const i64 end = min((i64)(blockIdx.x + 1) * kQueries, (i64)q_offsets[batch]);
    i64 request = 0;
    for (i64 token = (i64)blockIdx.x * kQueries; token < end;) { // what one request has of them
        while (q_offsets[request + 1] <= token) {
            ++request;
        }
        const i64 q_before = q_offsets[request], kv_before = kv_offsets[request];
        const i64 q_len = q_offsets[request + 1] - q_before;
        const i64 kv_len = kv_offsets[request + 1] - kv_before;
        const i64 i = token - q_before, ahead = kv_len - q_len;

        Queries queries;
        queries.q = columns;
        queries.k = k + row_of(kv_before, kv_len, kv_heads, kv_head, 0, k_ld, dim);
        queries.table = table;
        queries.head = head;
        queries.q_heads = q_heads;
        queries.dim = dim;
        queries.rotary_dim = rotary_dim;
        queries.k_ld = k_ld;
        queries.place = i + ahead;
        queries.count = (int)min(end - token, q_len - i);
        queries.left = left;
        queries.right = right;
        queries.sink_tokens = sink_tokens;
        queries.scale = scale;
        queries.softcap = softcap;

        __syncthreads(); // the queries before have been used
        bring(columns, queries, q + row_of(q_before, q_len, q_heads, head, i, q_ld, dim), q_ld,
              i + max((i64)0, ahead));
        __syncthreads();

        // O has no row_of of its own: results are packed in row-major order of its extents.
        const i64 o_pitch = GK_LAYOUT == GK_LAYOUT_BHSD ? dim_v : q_heads * dim_v;
        Results to;
        to.o = o + 2 * row_of(q_before, q_len, q_heads, head, i, o_pitch, dim_v);
        to.lse = lse ? lse + 2 * (q_before * q_heads + head * q_len + i) : nullptr;
        to.o_pitch = o_pitch;
        to.dim_v = dim_v;
        const Element *values = v + row_of(kv_before, kv_len, kv_heads, kv_head, 0, v_ld, dim_v);
        attend(queries, values, v_ld, kv_len, sinks, room, to);
        token += queries.count;
    }
}
