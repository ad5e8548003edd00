// case: target=90 block=128 out=1024
// map: in bf16 dims=64,40 box=32,16 steps=1,2 swizzle=64
// map: in f32 dims=20,12,9 box=8,9,6 steps=1,3,2
// Tensor loads that take every second or third row: a box counts the rows it spans.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap two,
                             const __grid_constant__ TensorMap three)
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
            const i32 at2[2] = {16, lap ? 29 : -3},
                      at3[3] = {lap ? 16 : 4, lap ? 6 : -2, lap ? 5 : 1};
            fence_async();
            full.arrive_expect_bytes(32 * 8 * 2 + 8 * 3 * 3 * 4);
            tma_load(ptx::shared_address(s), two, at2, full);
            tma_load(ptx::shared_address(s + 256), three, at3, full);
        }
        full.wait(lap);
        for (u32 i = t; i < 512; i += 128) {
            out[lap * 512 + i] = s[i];
        }
        __syncthreads();
    }
}
