// Last launch of attention_decode: adds the parts of each row, weighted by their sums of
// exponentials
// (<gk/key_parts.cuh>). Rows of a single part were stored by the launch ahead; their blocks leave
// at once.
//
// Grid      x: rows of the output, one a block.
// Barriers  __syncthreads behind the weights, and before slices are added.
// Overlap   On sm_90 it may begin while the launch ahead still runs: it asks for the request's
//           length, which no launch writes, and waits before it reads the workspace and before it
//           writes. Every block waits, also one that leaves at once: a launch behind this one may
//           begin when this one has ended, whatever the one ahead still does.

#include <gk/hopper.cuh>
#include <gk/key_parts.cuh>

using namespace gk;

// How caches treat the parts, which are read for the last time.
constexpr CacheUse kParts =
    GK_PARTS == GK_PARTS_EVICT_FIRST ? CacheUse::kEvictFirst : CacheUse::kL2;

using Row = PartsOfRow<GK_DTYPE, GK_HEAD_DIM, GK_SLICES, kParts>;

extern "C" __global__ void __launch_bounds__(Row::kThreads)
    gk_decode_combine(float *partial_sums, float2 *partial_stats, const i32 *lengths, GK_DTYPE *out,
                      float *lse, i32 rows_of_request, i32 chunk, i32 prefix_parts,
                      i64 partial_rows)
{
    __shared__ Row::Shared shared;
    const i64 row = blockIdx.x;
    const i32 parts = prefix_parts + parts_of(lengths[row / rows_of_request], chunk);
#if __CUDA_ARCH__ >= 900
    wait_for_earlier_launches();
#endif
    if (prefix_parts == 0 && parts <= 1) {
        return;
    }
    Row::add(shared, Partial{partial_sums, partial_stats, partial_rows},
             Output<GK_DTYPE, Row::kDim>{out, lse}, row, parts);
}
