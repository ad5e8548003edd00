// twin: target=sm_90a grid=8 block=64 cluster=4 out=8
// Each block's sum goes into its neighbours' shared memory, plain and by atomics.
#include <gk/cluster.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 sums[4], all, own;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        all = 0;
        own = 0;
    }
    __syncthreads();
    atomicAdd(&own, in[blockIdx.x * 64 + t]);
    cluster_sync();
    if (t < 4) {
        const u32 sum = own;
        cluster_store_u32(cluster_address(ptx::shared_address(&sums[rank]), t), sum);
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;"
                     :
                     : "r"(cluster_address(ptx::shared_address(&all), t)), "r"(sum * 3)
                     : "memory");
    }
    cluster_sync();
    if (t == 0) {
        out[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3] + all;
    }
}
