// twin: target=sm_90a grid=4 block=32 cluster=2 out=128
// wants: RACE|UNWRITTEN
// A neighbour's memory is written before the neighbour is known to run and to be done with it.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 s[32];
    const u32 t = threadIdx.x, other = cluster_rank() ^ 1;
    s[t] = 0; // (1)
#if !BAD
    cluster_sync();
#endif
    const u32 there = cluster_address(ptx::shared_address(&s[t]), other);
    cluster_store_u32(there, in[blockIdx.x * 32 + t]); // (2)
    cluster_sync();
    out[blockIdx.x * 32 + t] = s[t];
}
