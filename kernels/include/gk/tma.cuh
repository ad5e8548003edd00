// The tensor memory accelerator: one thread starts the copy of a whole box of a tensor, or of a run
// of bytes, between global and shared memory; the hardware computes addresses, clips at the edges
// and reports the end. sm_90.
//
// Tensor map   128 bytes that the host encodes: base, extents, byte strides, box and swizzle of a
//              tensor of rank 1 to 5, dimensions innermost first. A kernel takes it as `const
//              __grid_constant__ TensorMap`, since the hardware reads it from the parameters.
// Box          `at` names its first element, innermost first; it may lie outside the tensor, also
//              below 0. A load fills what is outside with the map's fill value and counts those
//              bytes as landed; a store leaves out what is outside.
// Layout       In shared memory a box is packed, innermost dimension first. With a swizzle of S =
//              32, 64 or 128 bytes the innermost box is at most S bytes, and the 16-byte chunk at
//              byte address x lies at x ^ (x / 128 % (S / 16) * 16): the chunk's number in a run of
//              S bytes is XORed with that of its 128-byte line. It goes by the address, so a box
//              begins with a multiple of 8 lines (1024 bytes for 128, 512 for 64, 256 for 32), and
//              row r of a box with rows of S = 128 bytes has its chunk c at c ^ (r % 8). That is
//              the order of gk::SwizzledTile for rows of 64 and of 128 bytes.
// End of loads   Bytes that land count on a Barrier, in each block that they go to.
// End of stores  Groups of the thread that started them: commit_stores closes one, and
//                wait_for_store_reads<N> or wait_for_stores<N> return when at most the N youngest
//                are not done. So one thread starts all stores that it has to wait for.
//
// PTX ISA: "Data Movement and Conversion Instructions: Asynchronous copy", cp.async.bulk,
// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor.
#pragma once

#include <gk/mbarrier.cuh>

namespace gk
{

struct alignas(64) TensorMap {
    u64 opaque[16]; // the driver's format
};

static_assert(sizeof(TensorMap) == 128, "as the driver encodes it");

// Brings the map itself into the cache, so that the first copy need not wait for it.
GK_DEVICE void prefetch(const TensorMap &map)
{
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

// How L2 shall treat the lines of a copy. PTX ISA: createpolicy.
GK_DEVICE u64 policy_evict_first()
{
    u64 policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

GK_DEVICE u64 policy_evict_last()
{
    u64 policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// ---------------------------------------------------------------------------- tensors
// For each rank, with `at` an array of as many coordinates:
//
// tma_load            box to shared memory of this block, counted on `full`.
// tma_load_hinted     the same with a cache policy.
// tma_load_multicast  box to the same place in each block of the cluster whose rank's bit is set in
//                     `blocks`; its bytes count there on the barrier at the same place as `full`.
// tma_store           shared memory to the box; belongs to this thread's open group.
// tma_reduce_add      adds shared memory to the box, element by element, atomically.
// tma_prefetch        box to L2 alone.
//
// Before a store, whoever wrote the shared memory calls fence_async_shared, then a barrier.

#define GK_TMA_FUNCTIONS(RANK, DIM, AT1, AT2, AT3, AT4, ...)                                       \
    GK_DEVICE void tma_load(u32 destination, const TensorMap &map, const i32(&at)[RANK],           \
                            const Barrier &full)                                                   \
    {                                                                                              \
        asm volatile("cp.async.bulk.tensor." DIM ".shared::cluster.global.tile."                   \
                     "mbarrier::complete_tx::bytes [%0], [%1, " AT3 "], [%2];"                     \
                     :                                                                             \
                     : "r"(destination), "l"(&map), "r"(full.address()), __VA_ARGS__               \
                     : "memory");                                                                  \
    }                                                                                              \
    GK_DEVICE void tma_load_hinted(u32 destination, const TensorMap &map, const i32(&at)[RANK],    \
                                   const Barrier &full, u64 policy)                                \
    {                                                                                              \
        asm volatile("cp.async.bulk.tensor." DIM ".shared::cluster.global.tile."                   \
                     "mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, " AT4 "], [%2], %3;"  \
                     :                                                                             \
                     : "r"(destination), "l"(&map), "r"(full.address()), "l"(policy), __VA_ARGS__  \
                     : "memory");                                                                  \
    }                                                                                              \
    GK_DEVICE void tma_load_multicast(u32 destination, const TensorMap &map, const i32(&at)[RANK], \
                                      const Barrier &full, u16 blocks)                             \
    {                                                                                              \
        asm volatile("cp.async.bulk.tensor." DIM ".shared::cluster.global.tile."                   \
                     "mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, " AT4             \
                     "], [%2], %3;"                                                                \
                     :                                                                             \
                     : "r"(destination), "l"(&map), "r"(full.address()), "h"(blocks), __VA_ARGS__  \
                     : "memory");                                                                  \
    }                                                                                              \
    GK_DEVICE void tma_store(const TensorMap &map, const i32(&at)[RANK], u32 source)               \
    {                                                                                              \
        asm volatile("cp.async.bulk.tensor." DIM ".global.shared::cta.tile.bulk_group "            \
                     "[%0, " AT2 "], [%1];"                                                        \
                     :                                                                             \
                     : "l"(&map), "r"(source), __VA_ARGS__                                         \
                     : "memory");                                                                  \
    }                                                                                              \
    GK_DEVICE void tma_reduce_add(const TensorMap &map, const i32(&at)[RANK], u32 source)          \
    {                                                                                              \
        asm volatile("cp.reduce.async.bulk.tensor." DIM ".global.shared::cta.add.tile.bulk_group " \
                     "[%0, " AT2 "], [%1];"                                                        \
                     :                                                                             \
                     : "l"(&map), "r"(source), __VA_ARGS__                                         \
                     : "memory");                                                                  \
    }                                                                                              \
    GK_DEVICE void tma_prefetch(const TensorMap &map, const i32(&at)[RANK])                        \
    {                                                                                              \
        asm volatile("cp.async.bulk.prefetch.tensor." DIM ".L2.global.tile [%0, " AT1 "];"         \
                     :                                                                             \
                     : "l"(&map), __VA_ARGS__                                                      \
                     : "memory");                                                                  \
    }

GK_TMA_FUNCTIONS(1, "1d", "{%1}", "{%2}", "{%3}", "{%4}", "r"(at[0]))
GK_TMA_FUNCTIONS(2, "2d", "{%1, %2}", "{%2, %3}", "{%3, %4}", "{%4, %5}", "r"(at[0]), "r"(at[1]))
GK_TMA_FUNCTIONS(3, "3d", "{%1, %2, %3}", "{%2, %3, %4}", "{%3, %4, %5}", "{%4, %5, %6}",
                 "r"(at[0]), "r"(at[1]), "r"(at[2]))
GK_TMA_FUNCTIONS(4, "4d", "{%1, %2, %3, %4}", "{%2, %3, %4, %5}", "{%3, %4, %5, %6}",
                 "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]))
GK_TMA_FUNCTIONS(5, "5d", "{%1, %2, %3, %4, %5}", "{%2, %3, %4, %5, %6}", "{%3, %4, %5, %6, %7}",
                 "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))

#undef GK_TMA_FUNCTIONS

// ---------------------------------------------------------------------------- runs of bytes
// Addresses and sizes are multiples of 16 bytes.

GK_DEVICE void bulk_load(u32 destination, const void *source, u32 bytes, const Barrier &full)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :
                 : "r"(destination), "l"(source), "r"(bytes), "r"(full.address())
                 : "memory");
}

// To the same place in each block whose rank's bit is set, as tma_load_multicast.
GK_DEVICE void bulk_load_multicast(u32 destination, const void *source, u32 bytes,
                                   const Barrier &full, u16 blocks)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :
                 : "r"(destination), "l"(source), "r"(bytes), "r"(full.address()), "h"(blocks)
                 : "memory");
}

// From this block's shared memory to another's: destination and barrier are addresses that
// cluster_address gives for that block.
GK_DEVICE void bulk_send(u32 destination, u32 source, u32 bytes, u32 full_address)
{
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :
                 : "r"(destination), "r"(source), "r"(bytes), "r"(full_address)
                 : "memory");
}

GK_DEVICE void bulk_store(void *destination, u32 source, u32 bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :
                 : "l"(destination), "r"(source), "r"(bytes)
                 : "memory");
}

GK_DEVICE void bulk_reduce_add_f32(float *destination, u32 source, u32 bytes)
{
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
                 :
                 : "l"(destination), "r"(source), "r"(bytes)
                 : "memory");
}

// ---------------------------------------------------------------------------- groups of stores

// Closes the group of this thread's stores since the last commit.
GK_DEVICE void commit_stores()
{
    asm volatile("cp.async.bulk.commit_group;" : : : "memory");
}

// Returns when at most kPending of this thread's youngest groups have not yet read all of their
// shared memory: the older ones' may be written again.
template <u32 kPending> GK_DEVICE void wait_for_store_reads()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(kPending) : "memory");
}

// The same for the whole store: the older ones' bytes are in global memory.
template <u32 kPending> GK_DEVICE void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(kPending) : "memory");
}

} // namespace gk
