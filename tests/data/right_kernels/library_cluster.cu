// twin: target=sm_90a grid=4 block=64 cluster=2 out=256
// A cluster by CUDA's cooperative groups: the neighbour's shared memory by pointer.
#include <cooperative_groups.h>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    auto cluster = cooperative_groups::this_cluster();
    s[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    cluster.sync();
    const unsigned *other = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
    out[blockIdx.x * 64 + threadIdx.x] = other[63 - threadIdx.x];
    cluster.sync();
}
