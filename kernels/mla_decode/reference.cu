// What mla_decode means. A block has one row of the output (a request, a query, a head) and walks
// the keys that it sees, kKeys at a time: a thread scores one key, then every thread adds up its
// columns. Probabilities are taken below the greatest score so far, in double; sums are scaled down
// when it grows.
//
// Magnitudes. A score that is off by d moves its probability by the part d. So the magnitude of an
// output is the sum of p |v|, and of p (|v| + |out|) times what the score may be off by, in units
// of the term `probabilities` of op.json; that of lse is all that it may be off by, in units of
// 2^-23.

#include <gk/plain.cuh>

// 4 bits of exponent (bias 7), 3 of fraction, no infinity.
FUNCTION double latent_number(u8 bits)
{
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    if ((bits & 0x7f) == 0x7f) {
        return __longlong_as_double(0x7ff8000000000000LL);
    }
    const double magnitude =
        exponent == 0 ? fraction * 0x1p-9
                      : (8 + fraction) * __longlong_as_double((i64)(exponent + 1013) << 52);
    return bits & 0x80 ? -magnitude : magnitude;
}

constexpr int kKeys = 128;   // threads too
constexpr int kColumns = 8;  // of a thread: latent_dim is at most 1024
constexpr i64 kScaled = 128; // columns of a scale

#if GK_DTYPE_BF16
constexpr double kUnit = 0x1p-9; // of the type of queries and probabilities
#else
constexpr double kUnit = 0x1p-11;
#endif

struct Cache {
    const Element *rows; // null of a narrow cache
    const u8 *latents;
    const float *scales;
    const Element *ropes;
    i64 latent, rope;
};

// Column c of the cache's row number `row`.
FUNCTION double cached(const Cache &cache, i64 row, i64 c)
{
    if (cache.rows) {
        return number(cache.rows[row * (cache.latent + cache.rope) + c]);
    }
    if (c < cache.latent) {
        return latent_number(cache.latents[row * cache.latent + c]) *
               cache.scales[row * (cache.latent / kScaled) + c / kScaled];
    }
    return number(cache.ropes[row * cache.rope + c - cache.latent]);
}

extern "C" __global__ void gk_mla_decode_reference(const Element *q, const Element *kv,
                                                   const u8 *latents, const float *scales,
                                                   const Element *ropes, const int *pages,
                                                   const int *lengths, double *out, double *lse_out,
                                                   i64 q_heads, i64 q_len, i64 latent, i64 rope,
                                                   i64 cache_rows, i64 pages_row, double scale)
{
    __shared__ double scores[kKeys], sizes[kKeys];
    __shared__ i64 rows[kKeys];
    const Cache cache{kv, latents, scales, ropes, latent, rope};
    const i64 row = blockIdx.x, query = row / q_heads % q_len, request = row / q_heads / q_len;
    const i64 dim = latent + rope, all = lengths[request];
    const i64 seen = GK_CAUSAL ? all - q_len + 1 + query : all; // none or fewer: no key
    const double minus_infinity = __longlong_as_double(0xfff0000000000000LL);

    const double adding = (double)(dim / 8 + 8) * 0x1p-23; // with scale and difference
    const double rounding = kv ? 0.0 : 8.0 * 0.58 * kUnit;

    double top = minus_infinity, sum = 0.0, off = 0.0; // off: p times what scores may be off by
    double value[kColumns] = {}, size[kColumns] = {}, moved[kColumns] = {};
    for (i64 first = 0; first < seen; first += kKeys) {
        const i64 j = first + threadIdx.x;
        double score = minus_infinity, total = 0.0, squares = 0.0;
        if (j < seen) {
            const i64 at =
                pages ? pages[request * pages_row + j / cache_rows] * cache_rows + j % cache_rows
                      : request * cache_rows + j;
            rows[threadIdx.x] = at;
            score = 0.0;
            for (i64 c = 0; c < dim; ++c) {
                const double product = number(q[row * dim + c]) * cached(cache, at, c);
                score += product;
                total += fabs(product);
                squares += product * product;
            }
            score *= scale;
        }
        scores[threadIdx.x] = score;
        sizes[threadIdx.x] = adding * total * scale + rounding * sqrt(squares) * scale;
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
            for (i64 i = 0; i < count && c < latent; ++i) {
                const double x = cached(cache, rows[i], c);
                value[n] += scores[i] * x;
                size[n] += scores[i] * fabs(x);
                moved[n] += sizes[i] * fabs(x);
            }
        }
        __syncthreads(); // before the next keys' scores
    }

    // Widened latents are rounded as values too.
    const double own = cache.rows ? 1.0 : 2.0;
    for (int n = 0; n < kColumns; ++n) {
        const i64 c = threadIdx.x + n * kKeys;
        if (c < latent) {
            const double result = sum > 0.0 ? value[n] / sum : 0.0;
            const double errors = moved[n] + off * fabs(result);
            out[2 * (row * latent + c)] = result;
            out[2 * (row * latent + c) + 1] =
                sum > 0.0 ? (own * size[n] + errors / kUnit) / sum : 0.0;
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
