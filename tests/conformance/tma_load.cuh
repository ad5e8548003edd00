// Tensor loads, 2D and 3D, over all edges: what the cases tma_load_*.cu share. WIDTH: elements of a
// row of both boxes.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap two,
                             const __grid_constant__ TensorMap three)
{
    __shared__ __align__(1024) u32 s[2048];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 2048; i += 128) {
        s[i] = 0x55555555u;
    }
    if (t == 0) {
        full.init(1);
    }
    fence_async();
    fence_barrier_init();
    __syncthreads();
    if (t == 0) {
        const i32 at2[2] = {168, 20}, at3[3] = {-8, 6, -1};
        full.arrive_expect_bytes(WIDTH * 32 * 2 + WIDTH * 12 * 2);
        tma_load(ptx::shared_address(s), two, at2, full);
        tma_load(ptx::shared_address(s + 1024), three, at3, full);
    }
    full.wait(0);
    for (u32 i = t; i < 2048; i += 128) {
        out[i] = s[i];
    }
    __syncthreads();
    if (t == 0) {
        const i32 at2[2] = {-16, -5}, at3[3] = {24, -2, 3};
        fence_async();
        full.arrive_expect_bytes(WIDTH * 32 * 2 + WIDTH * 12 * 2);
        tma_load(ptx::shared_address(s), two, at2, full);
        tma_load(ptx::shared_address(s + 1024), three, at3, full);
    }
    full.wait(1);
    for (u32 i = t; i < 2048; i += 128) {
        out[2048 + i] = s[i];
    }
}
