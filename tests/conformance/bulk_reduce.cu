// case: target=90 block=128 out=1024
// Reductions of runs of bytes into global memory other than sums, by two threads.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
#define REDUCE(OP, TO)                                                                             \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OP " [%0], [%1], 256;"      \
                 :                                                                                 \
                 : "l"(out + (TO)), "r"(ptx::shared_address(s + (t ? 64 : 0)))                     \
                 : "memory")
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(128) u32 s[128];
    const u32 t = threadIdx.x;
    s[t] = in[t];
    fence_async_shared();
    __syncthreads();
    if (t < 2) {
        REDUCE("max.u32", 0);
        REDUCE("min.s32", 64);
        REDUCE("or.b32", 128);
        REDUCE("xor.b32", 192);
        REDUCE("inc.u32", 256);
        REDUCE("max.s64", 320);
        REDUCE("and.b32", 384);
        REDUCE("xor.b64", 448);
        commit_stores();
        wait_for_stores<0>();
    }
}
