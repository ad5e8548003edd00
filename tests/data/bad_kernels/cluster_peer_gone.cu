// twin: target=sm_90a grid=4 block=32 cluster=2 out=128
// wants: OUT_OF_BOUNDS|BAD_OPERAND|RACE
// A block leaves while its neighbour still reads its memory.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 s[32];
    const u32 t = threadIdx.x, other = cluster_rank() ^ 1;
    s[t] = in[blockIdx.x * 32 + t];
    cluster_sync();
    out[blockIdx.x * 32 + t] =
        cluster_load_u32(cluster_address(ptx::shared_address(&s[31 - t]), other));
#if !BAD
    cluster_sync();
#endif
}
