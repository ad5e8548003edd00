// twin: target=sm_90a grid=1 block=64 out=256
// wants: RACE|PENDING
// An mbarrier counts the copies, and nobody waits for it: a barrier of threads does not in its
// place.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) u32 s[256];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    if (t == 0) {
        full.init(64);
        fence_barrier_init();
    }
    __syncthreads();
    ptx::cp_async_16(ptx::shared_address(&s[4 * t]), in + 4 * t, 16);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :
                 : "r"(full.address())
                 : "memory");
#if BAD
    __syncthreads();
#else
    full.wait(0);
#endif
    for (u32 i = 0; i < 4; ++i) {
        out[i * 64 + t] = s[i * 64 + (t ^ 33)];
    }
}
