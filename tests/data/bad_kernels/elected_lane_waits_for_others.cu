// twin: target=sm_90a grid=1 block=32 out=32
// wants: DEADLOCK|DIVERGENT
// The elected lane waits for arrivals of lanes that wait for it.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier all;
    const u32 t = threadIdx.x;
    if (t == 0) {
        all.init(32);
        fence_barrier_init();
    }
    __syncwarp();
    if (!BAD) {
        all.arrive();
    }
    if (elect_one()) {
        all.wait(0);
    }
    __syncwarp();
    if (BAD) {
        all.arrive();
    }
    out[t] = in[t];
}
