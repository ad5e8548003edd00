// twin: target=sm_90a grid=1 block=32 out=32
// wants: BAD_OPERAND|RACE
// A store runs over a barrier that lies behind the array.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
struct Shared {
    u32 s[32];
    Barrier all;
};
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Shared m;
    const u32 t = threadIdx.x;
    if (t == 0) {
        m.all.init(32);
        fence_barrier_init();
    }
    __syncwarp();
    u32 *at = m.s;
    asm("" : "+l"(at));
    at[t + (BAD ? 1 : 0)] = in[t];
    m.all.arrive();
    m.all.wait(0);
    out[t] = m.s[t ^ 1];
}
