// case: target=90 block=384 out=1152
// Registers that warpgroups give and take, launches that overlap (none does here), one lane chosen.
#include <gk/hopper.cuh>
using namespace gk;
extern "C" __global__ void __launch_bounds__(384, 1) k(const unsigned *in, unsigned *out)
{
    const u32 t = threadIdx.x;
    u32 x = in[t];
    wait_for_earlier_launches();
    if (t / 128 == 0) {
        release_registers<24>();
        x = x * 3 + 1;
    } else {
        acquire_registers<240>();
        x = x * 5 + 7;
    }
    allow_next_launch();
    out[t] = x;
    out[384 + t] = __popc(__ballot_sync(~0u, elect_one()));
    if (t / 32 % 2) {
        if (elect_one()) {
            out[768 + t / 32] = x % 2 + 1;
        }
    }
}
