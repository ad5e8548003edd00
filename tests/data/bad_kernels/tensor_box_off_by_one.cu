// twin: target=sm_90a grid=1 block=64 out=256
// map: in bf16 dims=64,64 box=64,8 swizzle=128
// wants: WRONG
// The row of the box is one off.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *,
                             const __grid_constant__ TensorMap map)
{
    __shared__ __align__(1024) u32 s[256];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
        const i32 at[2] = {0, BAD ? 9 : 8};
        full.arrive_expect_bytes(1024);
        tma_load(ptx::shared_address(s), map, at, full);
    }
    __syncthreads();
    full.wait(0);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 64 + t] = s[i * 64 + t];
    }
}
