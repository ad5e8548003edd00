// twin: target=sm_90a grid=1 block=64 out=64
// wants: RACE
// A bulk store of what plain stores wrote, without the fence between the two proxies.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    const u32 t = threadIdx.x;
    s[t] = in[t] + 1; // (1)
#if !BAD
    fence_async_shared();
#endif
    __syncthreads();
    if (t == 0) {
        bulk_store(out, ptx::shared_address(s), 256); // (2)
        commit_stores();
        wait_for_stores<0>();
    }
}
