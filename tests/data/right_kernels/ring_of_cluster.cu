// twin: target=sm_90a grid=4 block=64 cluster=2 out=1024
// Both blocks of a cluster copy half of each tile to both; a stage is free when both have read it.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(128) u32 s[2][64];
    __shared__ Barrier full[2], empty[2];
    const u32 t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        for (u32 i = 0; i < 2; ++i) {
            full[i].init(1);
            empty[i].init(2);
        }
        fence_barrier_init();
    }
    cluster_sync();
    RingPosition<2> at;
    in += blockIdx.x / 2 * 512;
    out += blockIdx.x * 256;
    for (u32 tile = 0; tile < 8; ++tile, at.advance()) {
        if (t == 32) {
            empty[at.stage].wait<Scope::kCluster>(at.parity ^ 1);
            full[at.stage].arrive_expect_bytes(256);
            bulk_load_multicast(ptx::shared_address(s[at.stage] + rank * 32),
                                in + tile * 64 + rank * 32, 128, full[at.stage], 3);
        } else if (t < 32) {
            full[at.stage].wait(at.parity);
            out[tile * 32 + t] = s[at.stage][t] ^ s[at.stage][63 - t];
            __syncwarp();
            if (t < 2) {
                empty[at.stage].arrive_read_at(t);
            }
        }
    }
    cluster_sync();
}
