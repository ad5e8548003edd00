// case: target=90 block=64 out=512
// cp.async whose end counts on an mbarrier: as an arrival of its own, and as one that was due.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 s[2][256];
    __shared__ Barrier full[2];
    const u32 t = threadIdx.x;
    if (t == 0) {
        full[0].init(64);
        full[1].init(64);
        fence_barrier_init();
    }
    __syncthreads();
    ptx::cp_async_16(ptx::shared_address(&s[0][4 * t]), in + 4 * t, 16);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :
                 : "r"(full[0].address())
                 : "memory");
    ptx::cp_async_16(ptx::shared_address(&s[1][4 * t]), in + 256 + 4 * t, 16);
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];"
                 :
                 : "r"(full[1].address())
                 : "memory");
    full[1].arrive();
    full[0].wait(0);
    full[1].wait(0);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 64 + t] = s[0][i * 64 + (t ^ 33)];
        out[256 + i * 64 + t] = s[1][i * 64 + (t ^ 17)];
    }
}
