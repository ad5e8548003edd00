// case: target=90 block=128 out=4096
// map: out bf16 dims=100,30 box=64,16 swizzle=128
// map: out f32 dims=20,12,3 box=8,4,2 swizzle=32 offset=8192
// Tensor stores clipped at the edges, and sums.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap two,
                             const __grid_constant__ TensorMap three)
{
    __shared__ __align__(1024) u32 s[1024];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 512; i += 128) {
        s[i] = in[i];
        s[512 + i] = __float_as_uint((float)(in[i] % 64));
    }
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        const i32 a[2] = {56, 20}, b[2] = {8, 3}, c[3] = {16, 10, 2}, d[3] = {4, 0, 1};
        tma_store(two, a, ptx::shared_address(s));
        tma_store(two, b, ptx::shared_address(s));
        tma_reduce_add(three, c, ptx::shared_address(s + 512));
        tma_reduce_add(three, d, ptx::shared_address(s + 512));
        commit_stores();
        wait_for_stores<0>();
    }
}
