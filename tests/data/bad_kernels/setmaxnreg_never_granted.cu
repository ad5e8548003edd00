// twin: target=sm_90a grid=1 block=384 out=384
// wants: DEADLOCK
// Two warpgroups ask for registers that nobody gives back.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void __launch_bounds__(384, 1)
    k(const unsigned *in, unsigned *out, unsigned *)
{
    const u32 t = threadIdx.x;
    if (t < 128) {
        if (!BAD) {
            release_registers<40>();
        }
    } else {
        acquire_registers<232>();
    }
    out[t] = in[t] + 1;
}
