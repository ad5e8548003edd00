// case: target=90 grid=4 block=64 cluster=2 out=4096
// map: in bf16 dims=64,20,6 box=64,4,1 swizzle=128
// map: out bf16 dims=64,12,4 box=64,4,2 swizzle=128 offset=8192
// Boxes of rank 3 as templates move them: multicast, with a cache policy, stored; a reader's
// arrival.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap from,
                             const __grid_constant__ TensorMap to)
{
    __shared__ __align__(1024) u32 tile[3][256];
    __shared__ Barrier full, read;
    const u32 t = threadIdx.x, rank = cluster_rank();
    u32 *o = out + blockIdx.x * 512 + t;
    if (t == 0) {
        full.init(1);
        read.init(2);
        fence_barrier_init();
        prefetch(from);
    }
    for (u32 i = t; i < 768; i += 64) {
        tile[i / 256][i % 256] = 0;
    }
    fence_async();
    cluster_sync();
    for (u32 lap = 0; lap < 2; ++lap) {
        if (t == 0) {
            const i32 row = (i32)(blockIdx.x * 4 + lap * 2), plane = (i32)(lap * 3);
            const i32 both[3] = {0, row, plane}, own[3] = {0, row + 1, plane + 1};
            read.wait<Scope::kCluster>(lap ^ 1);
            full.arrive_expect_bytes(3 * 512);
            tma_load_multicast(ptx::shared_address(tile[rank]), from, both, full, 3);
            tma_load_hinted(ptx::shared_address(tile[2]), from, own, full, policy_evict_first());
        }
        full.wait(lap);
        for (u32 i = 0; i < 4; ++i) {
            o[(lap * 4 + i) * 64] =
                tile[0][i * 64 + t] ^ tile[1][i * 64 + t] * 3 ^ tile[2][i * 64 + t] * 5;
        }
        __syncthreads();
        if (t < 2) {
            read.arrive_read_at(t);
        }
    }
    __syncthreads();
    cluster_sync();
    if (t == 0 && rank == 0) { // tiles 0 and 1 are one box of two planes
        const i32 at[3] = {0, (i32)(blockIdx.x * 4), (i32)blockIdx.x};
        fence_async();
        tma_store(to, at, ptx::shared_address(tile[0]));
        commit_stores();
        wait_for_stores<0>();
    }
    cluster_sync();
}
