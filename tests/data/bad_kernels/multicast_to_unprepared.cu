// twin: target=sm_90a grid=2 block=64 cluster=2 out=256
// wants: BAD_OPERAND|RACE|DEADLOCK|UNWRITTEN
// A multicast into a block whose barriers may not be set up yet.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[128];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
    }
#if BAD
    __syncthreads();
#else
    cluster_sync();
#endif
    if (t == 0) {
        full.arrive_expect_bytes(512);
        bulk_load_multicast(ptx::shared_address(s + rank * 64), in + rank * 64, 256, full, 3);
    }
    full.wait<Scope::kCluster>(0);
    out[rank * 128 + t] = s[t];
    out[rank * 128 + 64 + t] = s[64 + t];
    cluster_sync();
}
