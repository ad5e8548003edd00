// Wide plain reads of another block's shared memory, by an address from cluster_address. The other
// block has written what is read before a barrier of the cluster, and stays until another one. PTX
// ISA: ld with .shared::cluster.
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

} // namespace gk
