// twin: target=sm_90a grid=1 block=64 out=64
// map: in bf16 dims=64,64 box=64,2
// wants: MISALIGNED
// A box lands at an address that is no multiple of 128.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *,
                             const __grid_constant__ TensorMap map)
{
    __shared__ __align__(1024) u32 s[128];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, at = BAD ? 16 : 32;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
        const i32 corner[2] = {0, 3};
        full.arrive_expect_bytes(256);
        tma_load(ptx::shared_address(s + at), map, corner, full);
    }
    __syncthreads();
    full.wait(0);
    out[t] = s[at + t];
}
