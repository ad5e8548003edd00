// case: target=90 block=128 out=1024
// map: in f32 dims=20,9,5 box=16,4,3 nan
// map: in f16 dims=40,9,5 box=32,4,3 swizzle=64 nan
// Fill of NaN in elements of 32 bits, and in f16.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap wide,
                             const __grid_constant__ TensorMap half)
{
    __shared__ __align__(1024) u32 s[512];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 512; i += 128) {
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
            const i32 a[3] = {lap ? 12 : -4, lap ? 7 : -2, lap ? 3 : -1};
            const i32 b[3] = {lap ? 24 : -8, lap ? -1 : 6, lap ? -2 : 4};
            fence_async();
            full.arrive_expect_bytes(16 * 12 * 4 + 32 * 12 * 2);
            tma_load(ptx::shared_address(s), wide, a, full);
            tma_load(ptx::shared_address(s + 256), half, b, full);
        }
        full.wait(lap);
        for (u32 i = t; i < 512; i += 128) {
            out[lap * 512 + i] = s[i];
        }
        __syncthreads();
    }
}
