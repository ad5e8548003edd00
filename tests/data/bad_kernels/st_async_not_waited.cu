// twin: target=sm_90a grid=2 block=32 cluster=2 out=64
// wants: RACE
// Words sent to the neighbour are read behind the cluster's barrier, not behind the mbarrier.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ u32 s[32];
    __shared__ Barrier told;
    const u32 t = threadIdx.x, rank = cluster_rank(), other = rank ^ 1;
    s[t] = 0;
    if (t == 0) {
        told.init(1);
        fence_barrier_init();
        told.arrive_expect_bytes(128);
    }
    cluster_sync();
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 :
                 : "r"(cluster_address(ptx::shared_address(&s[t]), other)), "r"(in[rank * 32 + t]),
                   "r"(cluster_address(told.address(), other))
                 : "memory");
#if BAD
    cluster_sync();
#else
    told.wait<Scope::kCluster>(0);
#endif
    out[rank * 32 + t] = s[31 - t]; // (2)
    told.wait<Scope::kCluster>(0);
    cluster_sync();
}
