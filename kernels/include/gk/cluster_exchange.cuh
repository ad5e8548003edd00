// Wide accesses to another block's shared memory, by addresses from cluster_address: plain reads,
// and sends that count on an mbarrier over there.
//
// Who reads needs two barriers of the cluster: what is read was written before the first, and the
// other block stays until the second. Who sends needs one, so that the receiver has set up its
// mbarrier; the receiver waits for the bytes with Scope::kCluster, and the sender may end.
//
// PTX ISA: ld with .shared::cluster, st.async, barrier.cluster.
#pragma once

#include <gk/cluster.cuh>

namespace gk
{

GK_DEVICE float2 cluster_load_f32x2(u32 address)
{
    float2 value;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(value.x), "=f"(value.y)
                 : "r"(address)
                 : "memory");
    return value;
}

GK_DEVICE float4 cluster_load_f32x4(u32 address)
{
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

// `value` to shared address `to`; 8 or 16 bytes of the phase in progress of the mbarrier at
// `arrived`, which lies in the same block as `to`.
GK_DEVICE void cluster_send_f32x2(u32 to, float2 value, u32 arrived)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, "
                 "%2}, [%3];"
                 :
                 : "r"(to), "f"(value.x), "f"(value.y), "r"(arrived)
                 : "memory");
}

GK_DEVICE void cluster_send_f32x4(u32 to, float4 value, u32 arrived)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, "
                 "%2, %3, %4}, [%5];"
                 :
                 : "r"(to), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(arrived)
                 : "memory");
}

// An arrival that publishes nothing but inits of mbarriers behind a fence_barrier_init.
GK_DEVICE void cluster_arrive_relaxed()
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}

} // namespace gk
