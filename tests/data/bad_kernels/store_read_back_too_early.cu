// twin: target=sm_90a grid=1 block=64 out=64 work=64
// wants: RACE
// Global memory is read when the store has only read its shared memory.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ __align__(128) u32 s[64];
    const u32 t = threadIdx.x;
    s[t] = in[t];
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        bulk_store(work, ptx::shared_address(s), 256); // (1)
        commit_stores();
        if (BAD) {
            wait_for_store_reads<0>();
        } else {
            wait_for_stores<0>();
        }
        fence_async();
    }
    __syncthreads();
    out[t] = work[63 - t]; // (2)
}
