// case: target=90 block=128 out=4096
// map: out f32 dims=200 box=64
// map: out bf16 dims=24,5,4,3 box=16,2,3,2 swizzle=32 offset=1024
// map: out f16 dims=16,3,3,4,3 box=8,2,2,2,2 offset=6144
// map: out bf16 dims=64,12 box=32,8 swizzle=64 offset=12288
// Tensor stores of rank 1, 4 and 5 clipped at the edges, sums of bf16 and f16, u32 counts.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
#include <gk/types.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap one,
                             const __grid_constant__ TensorMap four,
                             const __grid_constant__ TensorMap five,
                             const __grid_constant__ TensorMap two)
{
    __shared__ __align__(1024) u32 s[768];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 256; i += 128) {
        s[i] = in[i];
        s[256 + i] = pack_pair<bf16>((float)(in[i] % 16), (float)(in[i] / 16 % 16) - 8.0f);
        s[512 + i] = pack_pair<f16>((float)(in[i] % 99), (float)(in[i] / 128 % 99) - 8.0f);
    }
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        const i32 at1[1] = {8}, end1[1] = {180}, at4[4] = {8, 1, 2, 2}, at5[5] = {8, 2, 1, 3, 1};
        const i32 at2[2] = {8, 2}, end2[2] = {48, 7};
        tma_store(one, at1, ptx::shared_address(s));
        tma_store(one, end1, ptx::shared_address(s));
        tma_store(four, at4, ptx::shared_address(s));
        tma_store(five, at5, ptx::shared_address(s + 512));
        commit_stores();
        wait_for_stores<0>(); // the sums below come after the stores
        tma_reduce_add(five, at5, ptx::shared_address(s + 512));
        tma_reduce_add(two, at2, ptx::shared_address(s + 256));
        tma_reduce_add(two, end2, ptx::shared_address(s + 256));
        commit_stores();
        wait_for_stores<0>();
    }
}
