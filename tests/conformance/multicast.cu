// case: target=90 grid=8 block=64 cluster=4 out=4096
// map: in bf16 dims=64,64 box=64,4 swizzle=128
// Clusters of four: multicast to some blocks, by tensor and by bytes; memory sent to a neighbour;
// counts of arrivals from all blocks; split barriers of the cluster.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap map)
{
    __shared__ __align__(1024) u32 tile[768], sent[64], mine[64];
    __shared__ Barrier full, told, come;
    const u32 t = threadIdx.x, rank = cluster_rank();
    u32 *o = out + blockIdx.x * 512 + t;
    if (t == 0) {
        full.init(1);
        told.init(4);
        come.init(1);
        fence_barrier_init();
    }
    for (u32 i = t; i < 768; i += 64) {
        tile[i] = 0;
    }
    mine[t] = in[blockIdx.x * 64 + t];
    fence_async();
    cluster_sync();
    if (t == 0) {
        // Block r sends a tile of 512 bytes to all but itself, 256 bytes to itself and the next.
        const i32 at[2] = {0, (i32)(blockIdx.x * 4)};
        const u16 others = (u16)(15 ^ 1u << rank), two = (u16)(1u << rank | 1u << (rank + 1) % 4);
        full.arrive_expect_bytes(3 * 512 + 2 * 256);
        tma_load_multicast(ptx::shared_address(tile + rank * 128), map, at, full, others);
        bulk_load_multicast(ptx::shared_address(tile + 512 + rank * 64), in + blockIdx.x * 64, 256,
                            full, two);
        come.arrive_expect_bytes(256);
        bulk_send(cluster_address(ptx::shared_address(sent), (rank + 3) % 4),
                  ptx::shared_address(mine), 256, cluster_address(come.address(), (rank + 3) % 4));
    }
    full.wait<Scope::kCluster>(0);
    come.wait<Scope::kCluster>(0);
    for (u32 i = 0; i < 6; ++i) {
        o[i * 64] = tile[i * 64 + t] ^ tile[(i + 6) * 64 + t] * 3;
    }
    o[384] = sent[t];
    if (t == 0) {
        for (u32 other = 0; other < 4; ++other) {
            told.arrive_at(other);
        }
    }
    told.wait<Scope::kCluster>(0);
    cluster_arrive();
    o[448] = rank * 16 + cluster_size();
    cluster_wait(); // nobody leaves while its memory may still be read
}
