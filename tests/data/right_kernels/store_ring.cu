// twin: target=sm_90a grid=2 block=64 out=1024
// Tiles written by all threads and stored by one, through two buffers in turn.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[2][64];
    const u32 t = threadIdx.x;
    for (u32 tile = 0; tile < 8; ++tile) {
        if (t == 0) {
            wait_for_store_reads<1>();
        }
        __syncthreads();
        s[tile % 2][63 - t] = in[blockIdx.x * 512 + tile * 64 + t];
        fence_async_shared();
        __syncthreads();
        if (t == 0) {
            bulk_store(out + blockIdx.x * 512 + tile * 64, ptx::shared_address(s[tile % 2]), 256);
            commit_stores();
        }
    }
    if (t == 0) {
        wait_for_stores<0>();
    }
}
