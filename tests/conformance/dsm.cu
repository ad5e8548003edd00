// case: target=90 grid=4 block=64 cluster=4 out=576
// Memory of other blocks of the cluster: atomics, wide and narrow accesses, generic addresses.
#include <gk/cluster.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 counts[16], words[64];
    const u32 t = threadIdx.x, rank = cluster_rank(), next = (rank + 1) % 4;
    u32 old, x, y, z, w, byte;
    u64 there, wide;
    if (t < 16) {
        counts[t] = t;
    }
    words[t] = in[rank * 64 + t];
    cluster_sync();
    for (u32 to = 0; to < 4; ++to) {
        const u32 at = cluster_address(ptx::shared_address(counts), to);
        asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;"
                     :
                     : "r"(at), "r"(in[t] & 255)
                     : "memory");
        asm volatile("atom.relaxed.cluster.shared::cluster.max.u32 %0, [%1], %2;"
                     : "=r"(old)
                     : "r"(at + 4), "r"(in[t] >> 8)
                     : "memory");
        asm volatile("atom.acq_rel.cluster.shared::cluster.or.b32 %0, [%1], %2;"
                     : "=r"(old)
                     : "r"(at + 8), "r"(1u << (in[t] & 31))
                     : "memory");
        asm volatile("atom.cluster.shared::cluster.add.u64 %0, [%1], %2;"
                     : "=l"(wide)
                     : "r"(at + 16), "l"((u64)in[t] << 16)
                     : "memory");
        asm volatile("atom.cluster.shared::cluster.inc.u32 %0, [%1], 99;"
                     : "=r"(old)
                     : "r"(at + 24)
                     : "memory");
    }
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(words), "r"(next));
    asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "l"(there + t / 4 * 16)
                 : "memory");
    asm volatile("ld.shared::cluster.u8 %0, [%1];"
                 : "=r"(byte)
                 : "r"(cluster_address(ptx::shared_address(words) + t, 3 - rank))
                 : "memory");
    out[rank * 64 + t] = x + y * 3 + z * 5 + w * 7 + byte * 11;
    cluster_sync();
    if (t < 8) {
        out[256 + rank * 8 + t] = counts[t];
    }
    if (t < 32) {
        asm volatile("st.v2.u32 [%0], {%1, %2};"
                     :
                     : "l"(there + t * 8), "r"(in[t] + rank), "r"(t)
                     : "memory");
    }
    cluster_sync();
    out[320 + rank * 64 + t] = words[t];
}
