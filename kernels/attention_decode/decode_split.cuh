// attention_decode over the keys that requests have of their own: see decode_body.cuh.
// Grid: x key heads, and tiles of rows where a request has more than 16 M_TILES; y parts, for the
// longest request that there is room for; z requests. Blocks without keys leave at once. In
// clusters (COMBINE = cluster, cluster_send) x counts parts, all of them one cluster, y the others,
// and no block leaves.

#define DECODE_PREFIX        false
#define DECODE_LAST_COMBINES (GK_COMBINE == GK_COMBINE_LAST)
#define DECODE_SENDS         (GK_COMBINE == GK_COMBINE_CLUSTER_SEND)
#define DECODE_CLUSTER       (DECODE_SENDS || GK_COMBINE == GK_COMBINE_CLUSTER)
#define DECODE_EARLY         (GK_EARLY == GK_EARLY_YES)
#include "decode_body.cuh"

using namespace decode;

extern "C" __global__ void __launch_bounds__(Config::kThreads, Config::kBlocks)
    gk_decode_split(const Config::Element *q, const Config::Cached *k, const Config::Cached *v,
                    const i32 *pages, const i32 *lengths, const float *k_scale,
                    const float *v_scale, const float *table, Config::Element *out, float *lse,
                    float *partial_sums, float2 *partial_stats, u32 *arrivals, i32 q_len,
                    i32 q_heads, i32 kv_heads, i32 group, i32 prefix, i32 rotary, i32 pages_row,
                    i32 room, i64 page_stride, i64 key_stride, i64 head_stride, i32 chunk, i32 rows,
                    i32 prefix_parts, i64 partial_rows, float scale_log2)
{
    extern __shared__ Smem shared[];
    const Inputs in{q, k, v, pages, lengths, k_scale, v_scale, table};
    const Shape shape{q_len, q_heads, kv_heads,     group,        prefix,    rotary,
                      chunk, rows,    prefix_parts, partial_rows, scale_log2};
    const Strides strides{pages_row, room, page_stride, key_stride, head_stride};
    run_block(shared[0], in, shape, strides, Output<Config::Element, Config::kDim>{out, lse},
              Partial{partial_sums, partial_stats, partial_rows}, arrivals);
}
