// twin: target=sm_90a grid=1 block=64 out=64
// wants: RACE
// The fence between the proxies is that of the storing thread alone: the others' stores it does not
// cover.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    const u32 t = threadIdx.x;
    s[t] = in[t] + 1; // (1)
#if BAD
    if (t == 0) {
        fence_async_shared();
    }
#else
    fence_async_shared();
#endif
    __syncthreads();
    if (t == 0) {
        bulk_store(out, ptx::shared_address(s), 256); // (2)
        commit_stores();
        wait_for_stores<0>();
    }
}
