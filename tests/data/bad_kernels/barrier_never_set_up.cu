// twin: target=sm_90a grid=1 block=32 out=32
// wants: BAD_OPERAND|UNWRITTEN|RACE
// An mbarrier that nobody set up.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier all;
    const u32 t = threadIdx.x;
    if (!BAD && t == 0) {
        all.init(32);
        fence_barrier_init();
    }
    __syncwarp();
    all.arrive();
    all.wait(0);
    out[t] = in[t];
}
