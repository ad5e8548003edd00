// attention_decode over the keys that all requests share: see decode_body.cuh. The rows of all
// requests are one list here, so that a key is read once for 16 M_TILES of them. Grid: x key heads
// and tiles of rows; y parts of the prefix. Its cache has no pages; arguments about pages, outputs
// and arrivals are not used.

#define DECODE_PREFIX        true
#define DECODE_LAST_COMBINES false // blocks of two launches do not count one another
#define DECODE_SENDS         false
#define DECODE_CLUSTER       false
#define DECODE_EARLY         false // its length is an argument
#include "decode_body.cuh"

using namespace decode;

extern "C" __global__ void __launch_bounds__(Config::kThreads, Config::kBlocks)
    gk_decode_prefix(const Config::Element *q, const Config::Cached *k, const Config::Cached *v,
                     const i32 *pages, const i32 *lengths, const float *k_scale,
                     const float *v_scale, const float *table, Config::Element *out, float *lse,
                     float *partial_sums, float2 *partial_stats, u32 *arrivals, i32 q_len,
                     i32 q_heads, i32 kv_heads, i32 group, i32 prefix, i32 rotary, i32 pages_row,
                     i64 page_stride, i64 key_stride, i64 head_stride, i32 chunk, i32 rows,
                     i32 prefix_parts, i64 partial_rows, float scale_log2)
{
    extern __shared__ Smem shared[];
    const Inputs in{q, k, v, pages, lengths, k_scale, v_scale, table};
    const Shape shape{q_len, q_heads, kv_heads,     group,        prefix,    rotary,
                      chunk, rows,    prefix_parts, partial_rows, scale_log2};
    const Strides strides{pages_row, prefix, page_stride, key_stride, head_stride};
    run_block(shared[0], in, shape, strides, Output<Config::Element, Config::kDim>{out, lse},
              Partial{partial_sums, partial_stats, partial_rows}, arrivals);
}
