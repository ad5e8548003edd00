// twin: target=sm_90a grid=1 block=64 out=64
// wants: DEADLOCK
// A warp that leaves still counts among the arrivals of the next phase.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier all;
    const u32 t = threadIdx.x;
    if (t == 0) {
        all.init(64);
        fence_barrier_init();
    }
    __syncthreads();
    out[t] = in[t];
    if (t / 32 == 1) {
#if BAD
        all.arrive();
#else
        asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];"
                     :
                     : "r"(all.address())
                     : "memory");
#endif
        return;
    }
    for (u32 lap = 0; lap < 3; ++lap) {
        all.arrive();
        all.wait(lap % 2);
    }
}
