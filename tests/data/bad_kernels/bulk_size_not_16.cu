// twin: target=sm_90a grid=1 block=64 out=64
// wants: BAD_OPERAND|MISALIGNED
// A bulk copy of a size that is no multiple of 16 bytes.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, bytes = BAD ? 248 : 256;
    s[t] = 0;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
    }
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        full.arrive_expect_bytes(bytes);
        bulk_load(ptx::shared_address(s), in, bytes, full);
    }
    full.wait(0);
    out[t] = s[t];
}
