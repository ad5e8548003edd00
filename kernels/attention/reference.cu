// What attention means: a block has one query of one head, a thread some of its keys, then some of
// its columns; in double. Scores are computed twice, so that the largest is known before the first
// exponential. Keys before the first and behind the last that the mask shows are not walked over,
// the query's columns are made once, and no thread adds what another has added: long sequences have
// 2^30 pairs a head.
//
// Magnitudes. An exponential rounded to 16 bits is off in proportion to itself, or by half a
// subnormal (f16: 2^-25, which the last part brings to the unit of the term); one of a score that
// is off by a part of its size, in proportion to that size (a 64th of it counts for O, so that the
// first term is not widened; all of it with rope, where a turned element that lies near a tie may
// round the other way).

#include <gk/plain.cuh>

constexpr int kThreads = 256;

// Half the smallest step of an f16, in units of 2^-11; bf16 has the exponents of fp32.
#if GK_DTYPE_F16
constexpr double kSubnormal = 0x1p-14;
#else
constexpr double kSubnormal = 0.0;
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

struct Score {
    double value, size;
    bool seen;
};

FUNCTION void add_product(Score *score, double x, double y)
{
    score->value += x * y;
    score->size += fabs(x) * fabs(y);
}

// Of a key, whose row begins with 16 bytes and is whole pieces of them. Each thread of a warp has a
// row of its own: element by element a warp would ask for 32 lines of memory for 32 elements.
struct alignas(16) Eight {
    Element element[8];
};

struct Query {
    const double *q;  // its columns, turned
    const Element *k; // of key 0
    const float *table;
    i64 head, q_heads, dim, rotary_dim, k_ld;
    i64 place, left, right, sink_tokens; // place: of the query among the keys
    double scale, softcap;
};

FUNCTION Score score_of(const Query &query, i64 j)
{
    Score score = {0.0, 0.0, true};
#if GK_MASK == GK_MASK_CAUSAL
    score.seen = j <= query.place;
#elif GK_MASK == GK_MASK_WINDOW
    score.seen =
        j <= query.place + query.right && (j >= query.place - query.left || j < query.sink_tokens);
#endif
    if (!score.seen) {
        return score;
    }
    const Element *k = query.k + j * query.k_ld;
#if GK_ROPE == GK_ROPE_NONE
    for (i64 c = 0; c < query.dim; c += 8) {
        const Eight y = *reinterpret_cast<const Eight *>(k + c);
        for (int i = 0; i < 8; ++i) {
            add_product(&score, query.q[c + i], number(y.element[i]));
        }
    }
#else
    const float *angles = query.table + j * query.rotary_dim;
    for (i64 c = 0; c < query.dim; ++c) {
        add_product(&score, query.q[c], column(k, angles, c, query.rotary_dim));
    }
#endif
    score.value *= query.scale;
    score.size *= query.scale;
    if (query.softcap > 0.0) {
        const double power = exponential(-2.0 * fabs(score.value) / query.softcap);
        const double capped = query.softcap * (1.0 - power) / (1.0 + power);
        score.value = score.value < 0.0 ? -capped : capped;
        score.size += query.softcap;
    }
#if GK_ALIBI
    const double bias = slope_of(query.head, query.q_heads) * fabs((double)(j - query.place));
    score.value -= bias;
    score.size += bias;
#endif
    return score;
}

// The keys from the first to behind the last that the mask may let a query see.
struct Range {
    i64 begin, end;
};

FUNCTION Range range_of(const Query &query, i64 kv_len)
{
    Range range = {0, kv_len};
#if GK_MASK == GK_MASK_CAUSAL
    range.end = min(kv_len, query.place + 1);
#elif GK_MASK == GK_MASK_WINDOW
    range.end = min(kv_len, max(query.place + query.right + 1, query.sink_tokens));
    range.begin = query.sink_tokens > 0 ? 0 : max((i64)0, query.place - query.left);
#endif
    return range;
}

// Over all threads of the block, in order. `room` may be written again behind the next barrier.
FUNCTION double block_sum(double value, double *room)
{
    __syncthreads(); // what was there before has been read
    room[threadIdx.x] = value;
    __syncthreads();
    double sum = 0.0;
    for (int t = 0; t < kThreads; ++t) {
        sum += room[t];
    }
    return sum;
}

extern "C" __global__ void
gk_attention_reference(const Element *q, const Element *k, const Element *v, const int *q_offsets,
                       const int *kv_offsets, const float *table, const float *sinks, double *o,
                       double *lse, i64 batch, i64 q_heads, i64 kv_heads, i64 dim, i64 dim_v,
                       i64 rotary_dim, i64 left, i64 right, i64 sink_tokens, i64 q_ld, i64 k_ld,
                       i64 v_ld, double scale, double softcap)
{
    __shared__ double weights[kThreads], widths[kThreads], columns[kThreads];
    const i64 token = blockIdx.x, head = blockIdx.y, kv_head = head / (q_heads / kv_heads);
    i64 request = 0;
    while (q_offsets[request + 1] <= token) {
        ++request;
    }
    const i64 q_before = q_offsets[request], kv_before = kv_offsets[request];
    const i64 q_len = q_offsets[request + 1] - q_before;
    const i64 kv_len = kv_offsets[request + 1] - kv_before;
    const i64 i = token - q_before, ahead = kv_len - q_len;

    Query query;
    query.q = columns;
    query.k = k + row_of(kv_before, kv_len, kv_heads, kv_head, 0, k_ld, dim);
    query.table = table;
    query.head = head;
    query.q_heads = q_heads;
    query.dim = dim;
    query.rotary_dim = rotary_dim;
    query.k_ld = k_ld;
    query.place = i + ahead;
    query.left = left;
    query.right = right;
    query.sink_tokens = sink_tokens;
    query.scale = scale;
    query.softcap = softcap;
    const Element *values = v + row_of(kv_before, kv_len, kv_heads, kv_head, 0, v_ld, dim_v);

    if (threadIdx.x < dim) { // which is 256 at most, as dim_v
        const Element *own = q + row_of(q_before, q_len, q_heads, head, i, q_ld, dim);
        const float *angles = table ? table + (i + (ahead > 0 ? ahead : 0)) * rotary_dim : nullptr;
        columns[threadIdx.x] = column(own, angles, threadIdx.x, rotary_dim);
    }
    __syncthreads();
    const Range range = range_of(query, kv_len);

    double most = -1e300;
    for (i64 j = range.begin + threadIdx.x; j < range.end; j += kThreads) {
        const Score score = score_of(query, j);
        most = score.seen ? fmax(most, score.value) : most;
    }
    weights[threadIdx.x] = most;
    __syncthreads();
    for (int t = 0; t < kThreads; ++t) {
        most = fmax(most, weights[t]);
    }
#if GK_SINK
    most = fmax(most, (double)sinks[head]);
#endif

    double sum = 0.0, size_sum = 0.0; // of the thread's keys
    double value = 0.0, magnitude = 0.0, value_sizes = 0.0;
    for (i64 first = range.begin; first < range.end; first += kThreads) {
        const i64 j = first + threadIdx.x;
        __syncthreads(); // the part before has been read
        weights[threadIdx.x] = widths[threadIdx.x] = 0.0;
        if (j < range.end) {
            const Score score = score_of(query, j);
            if (score.seen) {
                const double weight = exponential(score.value - most);
                const double size = score.size + fabs(most - score.value);
                sum += weight;
                size_sum += weight * size;
                weights[threadIdx.x] = weight;
#if GK_ROPE == GK_ROPE_NONE
                widths[threadIdx.x] = weight * (1.0 + size / 64.0);
#else
                widths[threadIdx.x] = weight * (1.0 + size);
#endif
            }
        }
        __syncthreads();
        for (i64 t = 0; t < kThreads && first + t < range.end; ++t) {
            const double weight = weights[t];
            if (weight > 0.0 && threadIdx.x < dim_v) {
                const double x = number(values[(first + t) * v_ld + threadIdx.x]);
                value += weight * x;
                magnitude += widths[t] * fabs(x);
                value_sizes += fabs(x);
            }
        }
    }
    sum = block_sum(sum, weights);
    size_sum = block_sum(size_sum, weights);
    double all = sum;
#if GK_SINK
    all += exponential((double)sinks[head] - most);
    size_sum += exponential((double)sinks[head] - most) * fabs((double)sinks[head]);
#endif
    if (threadIdx.x < dim_v) {
        // O has no row_of of its own here: results are packed in row-major order of its extents.
        double *out =
            o + 2 * (row_of(q_before, q_len, q_heads, head, i,
                            GK_LAYOUT == GK_LAYOUT_BHSD ? dim_v : q_heads * dim_v, dim_v) +
                     threadIdx.x);
        out[0] = all > 0.0 ? value / all : 0.0;
        out[1] = all > 0.0 ? (magnitude + kSubnormal * value_sizes) / all : 0.0;
    }
    if (lse && threadIdx.x == 0) {
        double *out = lse + 2 * (q_before * q_heads + head * q_len + i);
        out[0] = all > 0.0 ? most + logarithm(all) : __longlong_as_double(0xfff0000000000000LL);
        out[1] = all > 0.0 ? 1.0 + fabs(most) + fabs(logarithm(all)) + size_sum / all : 0.0;
    }
}
