// twin: target=sm_90a grid=1 block=256 out=256
// wants: DIVERGENT|BAD_OPERAND|DEADLOCK
// One warp of a warpgroup gives registers back.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void __launch_bounds__(256, 1)
    k(const unsigned *in, unsigned *out, unsigned *)
{
    const u32 t = threadIdx.x;
    if (BAD ? t < 32 : t < 128) {
        release_registers<40>();
    }
    out[t] = in[t] + 1;
}
