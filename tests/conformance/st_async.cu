// case: target=90 grid=4 block=64 cluster=4 out=1024
// Stores and atomics to other blocks' memory that count on an mbarrier there.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 one[64], four[256], sums[16];
    __shared__ Barrier told;
    const u32 t = threadIdx.x, rank = cluster_rank(), next = (rank + 1) % 4;
    const u32 *v = in + rank * 256 + t * 4;
    if (t == 0) {
        told.init(1);
        fence_barrier_init();
        told.arrive_expect_bytes(64 * 4 + 64 * 16 + 64 * 4 * 3);
    }
    if (t < 16) {
        sums[t] = t < 4 ? 0 : t < 8 ? ~0u : 0;
    }
    cluster_sync();
    const u32 bar = cluster_address(told.address(), next);
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];"
                 :
                 : "r"(cluster_address(ptx::shared_address(&one[t]), next)), "r"(v[0] * 3), "r"(bar)
                 : "memory");
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, "
                 "%3, %4}, [%5];"
                 :
                 : "r"(cluster_address(ptx::shared_address(&four[t * 4]), next)), "r"(v[0]),
                   "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(bar)
                 : "memory");
    const u32 at = cluster_address(ptx::shared_address(sums), next);
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
                 "[%0], %1, [%2];"
                 :
                 : "r"(at), "r"(v[0]), "r"(bar)
                 : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.u32 "
                 "[%0], %1, [%2];"
                 :
                 : "r"(at + 16), "r"(v[1]), "r"(bar)
                 : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 "
                 "[%0], %1, [%2];"
                 :
                 : "r"(at + 32), "r"(v[2]), "r"(bar)
                 : "memory");
    told.wait<Scope::kCluster>(0);
    unsigned *o = out + rank * 256;
    o[t] = one[t] ^ four[t * 4] ^ four[t * 4 + 1] * 3 ^ four[t * 4 + 3] * 5;
    if (t < 16) {
        o[64 + t] = sums[t];
    }
    for (u32 i = 80 + t; i < 256; i += 64) {
        o[i] = 0;
    }
    cluster_sync();
}
