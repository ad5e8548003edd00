// case: target=90 block=128 out=2048
// map: in f32 dims=1000 box=64
// map: in bf16 dims=24,5,4,3 box=16,2,3,2 swizzle=32
// map: in f16 dims=16,3,3,4,3 box=8,2,2,2,2 nan
// map: in u32 dims=300 box=32 swizzle=128 offset=64
// Tensor loads of rank 1, 4 and 5, inside and over all edges.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap one,
                             const __grid_constant__ TensorMap four,
                             const __grid_constant__ TensorMap five,
                             const __grid_constant__ TensorMap line)
{
    __shared__ __align__(1024) u32 s[1024];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 1024; i += 128) {
        s[i] = 0x55555555u;
    }
    if (t == 0) {
        full.init(1);
    }
    fence_async();
    fence_barrier_init();
    __syncthreads();
    for (u32 lap = 0; lap < 2; ++lap) {
        if (t == 0) {
            const i32 at1[1] = {lap ? 968 : -16},
                      at4[4] = {lap ? 8 : -8, lap ? 4 : 1, 2 - 3 * (i32)lap, 1};
            const i32 at5[5] = {lap ? 8 : 8, lap ? 2 : 0, 1, lap ? -1 : 2, lap ? 2 : -1};
            const i32 at[1] = {lap ? 284 : 8};
            fence_async();
            full.arrive_expect_bytes(256 + 16 * 12 * 2 + 8 * 16 * 2 + 128);
            tma_load(ptx::shared_address(s), one, at1, full);
            tma_load(ptx::shared_address(s + 256), four, at4, full);
            tma_load_hinted(ptx::shared_address(s + 512), five, at5, full, policy_evict_first());
            tma_load(ptx::shared_address(s + 768), line, at, full);
        }
        full.wait(lap);
        for (u32 i = t; i < 1024; i += 128) {
            out[lap * 1024 + i] = s[i];
        }
        __syncthreads();
    }
}
