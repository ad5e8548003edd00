// twin: target=sm_90a grid=2 block=64 cluster=2 out=128
// wants: OUT_OF_BOUNDS|BAD_OPERAND|RACE
// A block leaves although its neighbour still copies into it.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[64];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
        full.arrive_expect_bytes(256);
    }
    cluster_sync();
    if (rank == 1) {
        if (t == 0) {
            bulk_load_multicast(ptx::shared_address(s), in, 256, full, 3);
        }
        full.wait(0);
    } else if (!BAD) {
        full.wait<Scope::kCluster>(0);
    }
    out[rank * 64 + t] = BAD ? in[t] : s[t];
}
