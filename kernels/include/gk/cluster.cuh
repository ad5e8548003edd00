// Clusters: blocks that run at the same time on neighbouring SMs and reach one another's shared
// memory. sm_90. Clusters of gk kernels are one-dimensional, so that block b of the grid has rank b
// % size. PTX ISA: "Special Registers: %cluster_ctarank", barrier.cluster, mapa.
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

// This block's place in its cluster.
GK_DEVICE u32 cluster_rank()
{
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

GK_DEVICE u32 cluster_size()
{
    u32 size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// All threads of all blocks of the cluster arrive, then wait: what each did before its arrival is
// visible to all after their wait. All lanes of a warp must call it together.
GK_DEVICE void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory");
}

GK_DEVICE void cluster_wait()
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

GK_DEVICE void cluster_sync()
{
    cluster_arrive();
    cluster_wait();
}

// Shared address, valid in the whole cluster, of what lies at `address` in block `rank`.
GK_DEVICE u32 cluster_address(u32 address, u32 rank)
{
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

// Plain access to another block's shared memory, by an address from cluster_address.
// PTX ISA: ld, st with .shared::cluster.
GK_DEVICE u32 cluster_load_u32(u32 address)
{
    u32 value;
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

GK_DEVICE void cluster_store_u32(u32 address, u32 value)
{
    asm volatile("st.shared::cluster.b32 [%0], %1;" : : "r"(address), "r"(value) : "memory");
}

} // namespace gk
