// twin: target=sm_90a grid=2 block=32 cluster=2 out=64
// wants: OUT_OF_BOUNDS|BAD_OPERAND|RACE
// The last arrival at the neighbour's mbarrier is one that the neighbour does not wait for.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier empty;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        empty.init(1);
        fence_barrier_init();
    }
    cluster_sync();
    out[rank * 32 + t] = in[rank * 32 + t];
    if (rank == 0 && t == 0) {
        empty.arrive_read_at(1);
    }
#if !BAD
    if (rank == 1) {
        empty.wait(0);
    }
#endif
}
