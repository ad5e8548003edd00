// What attention_decode means. A block has one row of the output (a request, a query, a head) and
// walks the keys that it sees, kKeys at a time: a thread scores one key, then every thread adds up
// its columns. Probabilities are taken below the greatest score so far, in double; sums are scaled
// down when it grows.
//
// Magnitudes. A score that is off by d moves its probability by the part d. So the magnitude of an
// output is the sum of p |v|, and of p (|v| + |out|) times what the score may be off by, in units
// of the term `probabilities` of op.json; that of lse is all that it may be off by, in units of
// 2^-23.

#include <gk/plain.cuh>

// 4 bits of exponent (bias 7), 3 of fraction, no infinity.
struct E4m3 {
    u8 bits;
};

FUNCTION double number(E4m3 x)
{
    const int exponent = x.bits >> 3 & 15, fraction = x.bits & 7;
    if ((x.bits & 0x7f) == 0x7f) {
        return __longlong_as_double(0x7ff8000000000000LL);
    }
    const double magnitude =
        exponent == 0 ? fraction * 0x1p-9
                      : (8 + fraction) * __longlong_as_double((i64)(exponent + 1013) << 52);
    return x.bits & 0x80 ? -magnitude : magnitude;
}

#if GK_KV_DTYPE_E4M3
typedef E4m3 Cached;
#else
typedef Element Cached;
#endif

constexpr int kKeys = 128;  // threads too
constexpr int kColumns = 4; // of a thread: head_dim is at most 512

#if GK_DTYPE_BF16
constexpr double kUnit = 0x1p-9; // of the type of queries, turned columns and probabilities
#else
constexpr double kUnit = 0x1p-11;
#endif

struct Problem {
    i64 q_heads, kv_heads, q_len, head_dim, cache_rows, pages_row, prefix_len, rotary_dim;
    double scale;
};

// Column c of a row, turned by the angles of a position.
template <typename T>
FUNCTION double turned(const T *x, i64 c, const float *table, i64 position, i64 rotary)
{
#if GK_ROPE != GK_ROPE_NONE
    if (c < rotary) {
        const i64 half = rotary / 2;
#if GK_ROPE == GK_ROPE_NEOX
        const i64 pair = c % half, other = c < half ? c + half : c - half;
        const bool is_first = c < half;
#else
        const i64 pair = c / 2, other = c % 2 == 0 ? c + 1 : c - 1;
        const bool is_first = c % 2 == 0;
#endif
        const float *row = table + position * rotary;
        const double own = number(x[c]) * row[pair], turn = number(x[other]) * row[half + pair];
        return is_first ? own - turn : own + turn;
    }
#endif
    return number(x[c]);
}

// Where key j of a request lies, counted in elements from the cache's first.
FUNCTION i64 place_of(const Problem &p, const int *pages, i64 request, i64 j, i64 kv_head)
{
    i64 outer = request, inner = j;
    if (pages) {
        outer = pages[request * p.pages_row + j / p.cache_rows];
        inner = j % p.cache_rows;
    }
#if GK_KV_LAYOUT == GK_KV_LAYOUT_NHD
    return ((outer * p.cache_rows + inner) * p.kv_heads + kv_head) * p.head_dim;
#else
    return ((outer * p.kv_heads + kv_head) * p.cache_rows + inner) * p.head_dim;
#endif
}

FUNCTION i64 prefix_place_of(const Problem &p, i64 j, i64 kv_head)
{
#if GK_KV_LAYOUT == GK_KV_LAYOUT_NHD
    return (j * p.kv_heads + kv_head) * p.head_dim;
#else
    return (kv_head * p.prefix_len + j) * p.head_dim;
#endif
}

extern "C" __global__ void gk_attention_decode_reference(
    const Element *q, const Cached *k, const Cached *v, const int *pages, const int *lengths,
    const Cached *k_prefix, const Cached *v_prefix, const float *k_scale, const float *v_scale,
    const float *table, double *out, double *lse_out, i64 q_heads, i64 kv_heads, i64 q_len,
    i64 head_dim, i64 cache_rows, i64 pages_row, i64 prefix_len, i64 rotary_dim, double scale)
{
    __shared__ double scores[kKeys], sizes[kKeys];
    __shared__ i64 places[kKeys];
    const Problem p{q_heads,   kv_heads,   q_len,      head_dim, cache_rows,
                    pages_row, prefix_len, rotary_dim, scale};
    const i64 row = blockIdx.x, head = row % q_heads, query = row / q_heads % q_len;
    const i64 request = row / q_heads / q_len, kv_head = head / (q_heads / kv_heads);
    const i64 all = prefix_len + lengths[request], last = all - q_len + query;
    const i64 seen = GK_CAUSAL ? last + 1 : all; // keys; none or fewer: no key
    const i64 position = last > 0 ? last : 0;
    const double factor = scale * (k_scale ? (double)k_scale[kv_head] : 1.0);
    const double minus_infinity = __longlong_as_double(0xfff0000000000000LL);

    const double adding = (double)(head_dim / 8 + 8) * 0x1p-23; // with scale and difference
    const double rounding = GK_ROPE != GK_ROPE_NONE ? 8.0 * 0.82 * kUnit : 0.0; // both sides

    double top = minus_infinity, sum = 0.0, off = 0.0; // off: p times what scores may be off by
    double value[kColumns] = {}, size[kColumns] = {}, moved[kColumns] = {};
    for (i64 first = 0; first < seen; first += kKeys) {
        const i64 j = first + threadIdx.x;
        double score = minus_infinity, total = 0.0, squares = 0.0;
        if (j < seen) {
            const bool shared = j < prefix_len;
            const i64 at = shared ? prefix_place_of(p, j, kv_head)
                                  : place_of(p, pages, request, j - prefix_len, kv_head);
            const Cached *key = (shared ? k_prefix : k) + at;
            places[threadIdx.x] = at;
            score = 0.0;
            for (i64 c = 0; c < head_dim; ++c) {
                const double product = turned(q + row * head_dim, c, table, position, rotary_dim) *
                                       turned(key, c, table, j, rotary_dim);
                score += product;
                total += fabs(product);
                squares += product * product;
            }
            score *= factor;
        }
        scores[threadIdx.x] = score;
        sizes[threadIdx.x] = adding * total * factor + rounding * sqrt(squares) * factor;
        __syncthreads();
        double more = top;
        for (int i = 0; i < kKeys; ++i) {
            more = fmax(more, scores[i]);
        }
        __syncthreads();
        scores[threadIdx.x] = j < seen ? exponential(score - more) : 0.0;
        sizes[threadIdx.x] = scores[threadIdx.x] * (sizes[threadIdx.x] + adding * fabs(more));
        __syncthreads();
        const double keep = first == 0 ? 0.0 : exponential(top - more);
        const i64 count = seen - first < kKeys ? seen - first : kKeys;
        top = more;
        sum *= keep;
        off *= keep;
        for (i64 i = 0; i < count; ++i) {
            sum += scores[i];
            off += sizes[i];
        }
        for (int n = 0; n < kColumns; ++n) {
            const i64 c = threadIdx.x + n * kKeys;
            value[n] *= keep;
            size[n] *= keep;
            moved[n] *= keep;
            for (i64 i = 0; i < count && c < head_dim; ++i) {
                const double x = number((first + i < prefix_len ? v_prefix : v)[places[i] + c]);
                value[n] += scores[i] * x;
                size[n] += scores[i] * fabs(x);
                moved[n] += sizes[i] * fabs(x);
            }
        }
        __syncthreads(); // before the next keys' scores
    }

    for (int n = 0; n < kColumns; ++n) {
        const i64 c = threadIdx.x + n * kKeys;
        if (c < head_dim) {
            const double unit = v_scale ? (double)v_scale[kv_head] : 1.0;
            const double result = sum > 0.0 ? value[n] / sum : 0.0;
            const double errors = moved[n] + off * fabs(result);
            out[2 * (row * head_dim + c)] = unit * result;
            out[2 * (row * head_dim + c) + 1] =
                sum > 0.0 ? fabs(unit) * (size[n] + errors / kUnit) / sum : 0.0;
        }
    }
    if (threadIdx.x == 0 && lse_out) {
        const double lse = sum > 0.0 ? top + log(sum) : minus_infinity;
        const double keys = (double)(seen > 0 ? seen : 1);
        lse_out[2 * row] = lse;
        lse_out[2 * row + 1] =
            sum > 0.0 ? 8.0 + 4.0 * fabs(lse) + sqrt(keys) + 0x1p23 * off / sum : 0.0;
    }
}
