// twin: target=sm_90a grid=2 block=64 cluster=2 out=128
// wants: BAD_OPERAND|DEADLOCK|RACE
// A second barrier of the cluster of which only the wait was kept.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 s[64];
    const u32 t = threadIdx.x, other = cluster_rank() ^ 1;
    s[t] = in[blockIdx.x * 64 + t];
    cluster_sync();
    out[blockIdx.x * 64 + t] =
        cluster_load_u32(cluster_address(ptx::shared_address(&s[63 - t]), other));
#if !BAD
    cluster_arrive();
#endif
    cluster_wait();
}
