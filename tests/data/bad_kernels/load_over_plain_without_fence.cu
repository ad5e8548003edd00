// twin: target=sm_90a grid=1 block=64 out=128
// wants: RACE
// A bulk copy lands where threads wrote before, without the fence between the two proxies.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
    }
    s[t] = in[t];
    __syncthreads();
    out[t] = s[63 - t];
#if !BAD
    fence_async_shared();
#endif
    __syncthreads();
    if (t == 0) {
        full.arrive_expect_bytes(256);
        bulk_load(ptx::shared_address(s), in + 64, 256, full);
    }
    full.wait(0);
    out[64 + t] = s[63 - t];
}
