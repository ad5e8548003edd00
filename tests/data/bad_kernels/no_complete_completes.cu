// twin: target=sm_90a grid=1 block=32 out=32
// wants: BAD_OPERAND
// Arrivals that promise not to end the phase are all that it waits for.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier bar;
    const u32 t = threadIdx.x;
    if (t == 0) {
        u64 state;
        bar.init(3);
        fence_barrier_init();
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], %2;"
                     : "=l"(state)
                     : "r"(bar.address()), "r"(BAD ? 3 : 2)
                     : "memory");
#if !BAD
        bar.arrive();
#endif
        bar.wait(0);
    }
    out[t] = in[t];
}
