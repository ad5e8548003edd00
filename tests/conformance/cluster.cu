// case: target=90 grid=4 block=64 cluster=2 out=1024
// map: in bf16 dims=64,64 box=64,8 swizzle=128
// Clusters: ranks, memory of the neighbour, remote arrivals, multicast.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap map)
{
    __shared__ __align__(1024) u32 tile[512];
    __shared__ u32 s[64];
    __shared__ Barrier full, told;
    const u32 t = threadIdx.x, rank = cluster_rank(), other = rank ^ 1;
    u32 *o = out + blockIdx.x * 256 + t;
    if (t == 0) {
        full.init(1);
        told.init(64);
        fence_barrier_init();
    }
    s[t] = in[blockIdx.x * 64 + t];
    cluster_sync();
    o[0] = cluster_load_u32(cluster_address(ptx::shared_address(&s[63 - t]), other)) + rank * 16 +
           cluster_size();
    if (t == 0) {
        const i32 at[2] = {0, (i32)(blockIdx.x * 8)};
        full.arrive_expect_bytes(2048);
        tma_load_multicast(ptx::shared_address(tile + rank * 256), map, at, full, 3);
    }
    full.wait<Scope::kCluster>(0);
    o[64] = tile[t * 4] ^ tile[t * 4 + 3];
    o[128] = tile[256 + t * 4 + 1];
    __syncthreads(); // the neighbour is written by one thread where another has read it
    told.arrive_at(other);
    told.wait<Scope::kCluster>(0);
    cluster_store_u32(cluster_address(ptx::shared_address(&s[t]), other), t + rank);
    cluster_sync();
    o[192] = s[t];
}
