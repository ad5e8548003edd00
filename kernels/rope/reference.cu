// What rope means: one column of one head of one token a thread, in double.

#include <gk/plain.cuh>

// The column of one head: value and the sizes of what was added.
FUNCTION void column(const Element *x, const float *row, i64 c, i64 rotary_dim, double *pair)
{
    const i64 half = rotary_dim / 2;
    if (c >= rotary_dim) {
        pair[0] = number(x[c]);
        pair[1] = fabs(pair[0]);
        return;
    }
#if GK_STYLE == GK_STYLE_NEOX
    const i64 angle = c % half, other = c < half ? c + half : c - half;
    const bool is_first = c < half;
#else
    const i64 angle = c / 2, other = c % 2 == 0 ? c + 1 : c - 1;
    const bool is_first = c % 2 == 0;
#endif
    const double own = number(x[c]) * row[angle], turned = number(x[other]) * row[half + angle];
    pair[0] = is_first ? own - turned : own + turned;
    pair[1] = fabs(own) + fabs(turned);
}

extern "C" __global__ void gk_rope_reference(const Element *q, const Element *k,
                                             const Element *q_place, const Element *k_place,
                                             const i64 *positions, const float *table,
                                             double *q_out, double *k_out, double *q_place_out,
                                             double *k_place_out, i64 tokens, i64 q_heads,
                                             i64 kv_heads, i64 head_dim, i64 rotary_dim)
{
    const i64 index = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const i64 of_q = tokens * q_heads * head_dim, all = of_q + tokens * kv_heads * head_dim;
    if (index >= all) {
        return;
    }
    const bool is_q = index < of_q;
    const i64 at = is_q ? index : index - of_q, heads = is_q ? q_heads : kv_heads;
    const i64 c = at % head_dim, token = at / head_dim / heads;
    const Element *in = is_q ? (q_place ? q_place : q) : (k_place ? k_place : k);
    double *out = is_q ? (q_place ? q_place_out : q_out) : (k_place ? k_place_out : k_out);
    column(in + (at - c), table + positions[token] * rotary_dim, c, rotary_dim, out + 2 * at);
}
