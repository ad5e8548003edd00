// twin: target=sm_90a grid=2 block=32 cluster=2 out=64
// wants: RACE
// Data for the neighbour, told by an arrival that publishes nothing beyond this block.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 s[32];
    __shared__ Barrier told;
    const u32 t = threadIdx.x, rank = cluster_rank(), other = rank ^ 1;
    if (t == 0) {
        told.init(32);
        fence_barrier_init();
    }
    cluster_sync();
    cluster_store_u32(cluster_address(ptx::shared_address(&s[t]), other), in[rank * 32 + t]); // (1)
#if BAD
    told.arrive_read_at(other);
#else
    told.arrive_at(other);
#endif
    told.wait<Scope::kCluster>(0);
    out[rank * 32 + t] = s[31 - t]; // (2)
    cluster_sync();
}
