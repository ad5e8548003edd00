// twin: target=sm_90a grid=1 block=64 out=64
// wants: OUT_OF_BOUNDS
// The last piece of a run of bytes is copied whole.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, bytes = BAD ? 256 : 128;
    s[t] = 7;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
    }
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        full.arrive_expect_bytes(bytes);
        bulk_load(ptx::shared_address(s), in + 4096 - 32, bytes, full);
    }
    full.wait(0);
    out[t] = s[t];
}
