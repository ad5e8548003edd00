// twin: target=sm_90a grid=1 block=64 out=512
// wants: RACE|PENDING
// The arrival stands between the two copies that it should stand behind.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) u32 s[512];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    if (t == 0) {
        full.init(64);
        fence_barrier_init();
    }
    __syncthreads();
    ptx::cp_async_16(ptx::shared_address(&s[4 * t]), in + 4 * t, 16);
#if !BAD
    ptx::cp_async_16(ptx::shared_address(&s[256 + 4 * t]), in + 256 + 4 * t, 16);
#endif
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];"
                 :
                 : "r"(full.address())
                 : "memory");
#if BAD
    ptx::cp_async_16(ptx::shared_address(&s[256 + 4 * t]), in + 256 + 4 * t, 16);
#endif
    full.arrive();
    full.wait(0);
    for (u32 i = 0; i < 8; ++i) {
        out[i * 64 + t] = s[i * 64 + (t ^ 33)];
    }
}
