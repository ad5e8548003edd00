// twin: target=sm_90a grid=2 block=64 cluster=2 out=512
// wants: RACE
// A stage that both blocks copy into is given back to this block alone.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[128];
    __shared__ Barrier full, empty;
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        full.init(1);
        empty.init(BAD ? 1 : 2);
        fence_barrier_init();
    }
    cluster_sync();
    for (u32 lap = 0; lap < 2; ++lap) {
        if (t == 32) {
            empty.wait<Scope::kCluster>(lap ^ 1);
            full.arrive_expect_bytes(512);
            bulk_load_multicast(ptx::shared_address(s + rank * 64), in + lap * 128 + rank * 64, 256,
                                full, 3);
        }
        if (t < 32) {
            full.wait<Scope::kCluster>(lap);
            for (u32 i = 0; i < 4; ++i) {
                out[rank * 256 + lap * 128 + i * 32 + t] = s[i * 32 + t];
            }
            __syncwarp();
            if (t < (BAD ? 1 : 2)) {
                empty.arrive_at(BAD ? rank : t);
            }
        }
    }
    cluster_sync();
}
