// twin: target=sm_90a grid=2 block=32 cluster=2 out=64
// wants: OUT_OF_BOUNDS|BAD_OPERAND|RACE
// The last arrival at the neighbour's mbarrier is one that the neighbour does not wait for. It comes
// while the neighbour is there, by luck.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ Barrier told, empty;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        told.init(1);
        empty.init(1);
        fence_barrier_init();
    }
    cluster_sync();
    out[rank * 32 + t] = in[rank * 32 + t];
    if (rank == 0 && t == 0) {
        told.arrive_read_at(1);
        empty.arrive_read_at(1);
    }
    if (rank == 1) {
        told.wait(0);
#if !BAD
        empty.wait(0);
#endif
    }
}
