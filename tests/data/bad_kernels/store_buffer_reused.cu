// twin: target=sm_90a grid=1 block=64 out=128
// wants: RACE
// The buffer of a bulk store is written again before the store has read it.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    const u32 t = threadIdx.x;
    for (u32 lap = 0; lap < 2; ++lap) {
        s[t] = in[lap * 64 + t]; // (1)
        fence_async_shared();
        __syncthreads();
        if (t == 0) {
            bulk_store(out + lap * 64, ptx::shared_address(s), 256); // (2)
            commit_stores();
            if (!BAD) {
                wait_for_store_reads<0>();
            }
        }
        __syncthreads();
    }
    if (t == 0) {
        wait_for_stores<0>();
    }
}
