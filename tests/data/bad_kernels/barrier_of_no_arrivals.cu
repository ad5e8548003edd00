// twin: target=sm_90a grid=1 block=32 out=32
// wants: BAD_OPERAND
// An mbarrier that waits for nobody.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier all;
    const u32 t = threadIdx.x;
    if (t == 0) {
        all.init(BAD ? 0 : 32);
        fence_barrier_init();
    }
    __syncwarp();
    all.arrive();
    all.wait(0);
    out[t] = in[t];
}
