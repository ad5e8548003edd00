// One wrapper an instruction: what it does, and the section of the PTX ISA that defines it.
// Whatever orders memory, or whose effect on memory the compiler cannot see, carries a "memory"
// clobber.
#pragma once

#include <gk/base.cuh>

namespace gk::ptx
{

// ---------------------------------------------------------------------------- addresses

// Address of an object in the shared window, as the 32-bit operand of shared-space instructions.
// PTX ISA: cvta.
GK_DEVICE u32 shared_address(const void *pointer)
{
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ---------------------------------------------------------------------------- asynchronous copies
// PTX ISA: "Data Movement and Conversion Instructions: cp.async" and its commit and wait forms.
// source_bytes of the copy are read; the rest of the destination is filled with zeros. With
// source_bytes == 0 the source is not touched, so its address may lie outside the buffer.

// 16 bytes past L1, into L2 only: tiles are read once a block.
GK_DEVICE void cp_async_16(u32 destination, const void *source, u32 source_bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(destination), "l"(source), "r"(source_bytes)
                 : "memory");
}

// 8 bytes through L1: the narrow forms exist with .ca only, and neighbours share a sector.
GK_DEVICE void cp_async_8(u32 destination, const void *source, u32 source_bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :
                 : "r"(destination), "l"(source), "r"(source_bytes)
                 : "memory");
}

GK_DEVICE void cp_async_4(u32 destination, const void *source, u32 source_bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(destination), "l"(source), "r"(source_bytes)
                 : "memory");
}

// Closes the group of this thread's copies since the last commit; an empty group is complete at
// once.
GK_DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

// Returns when at most `pending` of this thread's youngest groups are still in flight. It says
// nothing about other threads' copies: a barrier must follow before their bytes are read.
template <u32 pending> GK_DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

// ---------------------------------------------------------------------------- shared memory

// PTX ISA: st.shared, ld.shared.
GK_DEVICE void st_shared_u16(u32 address, u16 value)
{
    asm volatile("st.shared.b16 [%0], %1;" : : "r"(address), "h"(value) : "memory");
}

GK_DEVICE void st_shared_u32(u32 address, u32 value)
{
    asm volatile("st.shared.b32 [%0], %1;" : : "r"(address), "r"(value) : "memory");
}

GK_DEVICE void st_shared_v2(u32 address, u32 x, u32 y)
{
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" : : "r"(address), "r"(x), "r"(y) : "memory");
}

GK_DEVICE uint4 ld_shared_v4(u32 address)
{
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

// ---------------------------------------------------------------------------- matrix loads
// PTX ISA: "Warp-level matrix instructions: ldmatrix". Lanes 8j .. 8j+7 give the 16-byte row
// addresses of 8x8 matrix j of 16-bit elements; afterwards lane l holds the elements (l / 4, 2 (l %
// 4)) and (l / 4, 2 (l % 4) + 1) of each matrix, or of its transpose with .trans.

GK_DEVICE void ldmatrix_x1(u32 address, u32 &r0)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r0)
                 : "r"(address)
                 : "memory");
}

GK_DEVICE void ldmatrix_x1_trans(u32 address, u32 &r0)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r0)
                 : "r"(address)
                 : "memory");
}

GK_DEVICE void ldmatrix_x2(u32 address, u32 &r0, u32 &r1)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
}

GK_DEVICE void ldmatrix_x2_trans(u32 address, u32 &r0, u32 &r1)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r0), "=r"(r1)
                 : "r"(address)
                 : "memory");
}

GK_DEVICE void ldmatrix_x4(u32 address, u32 &r0, u32 &r1, u32 &r2, u32 &r3)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
}

GK_DEVICE void ldmatrix_x4_trans(u32 address, u32 &r0, u32 &r1, u32 &r2, u32 &r3)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(address)
                 : "memory");
}

// ---------------------------------------------------------------------------- global memory
// PTX ISA: ld, st, "Cache Operators", "Cache Eviction Priority Hints". Sizes are bytes of one
// thread.

// Element of an input that nobody writes during the launch.
GK_DEVICE u16 ld_global_u16(const void *address)
{
    u16 v;
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(v) : "l"(address) : "memory");
    return v;
}

GK_DEVICE u32 ld_global_u32(const void *address)
{
    u32 v;
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
    return v;
}

// 16 bytes, kept in L1 and L2 (.ca), in L2 only (.cg), or marked to leave first (.cs).
GK_DEVICE uint4 ld_global_v4_ca(const void *address)
{
    uint4 v;
    asm volatile("ld.global.ca.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

GK_DEVICE uint4 ld_global_v4_cg(const void *address)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

GK_DEVICE uint4 ld_global_v4_cs(const void *address)
{
    uint4 v;
    asm volatile("ld.global.cs.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

// 16 bytes that are not wanted in L1: for data read once, beside data that should stay.
GK_DEVICE uint4 ld_global_v4_no_allocate(const void *address)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

// The same, and L2 may fetch the 256 bytes around it at once: for rows that are read through.
GK_DEVICE uint4 ld_global_v4_prefetch_256(const void *address)
{
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}

// Calls a line of 128 bytes into L2; nothing waits for it. PTX ISA: prefetch.
GK_DEVICE void prefetch_l2(const void *address)
{
    asm volatile("prefetch.global.L2 [%0];" : : "l"(address) : "memory");
}

GK_DEVICE void st_global_u16(void *address, u16 value)
{
    asm volatile("st.global.b16 [%0], %1;" : : "l"(address), "h"(value) : "memory");
}

GK_DEVICE void st_global_u32(void *address, u32 value)
{
    asm volatile("st.global.b32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
}

GK_DEVICE void st_global_v2(void *address, u32 x, u32 y)
{
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" : : "l"(address), "r"(x), "r"(y) : "memory");
}

GK_DEVICE void st_global_v4(void *address, uint4 v)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// The same, marked to leave the caches first: for output that this launch does not read again.
GK_DEVICE void st_global_v4_cs(void *address, uint4 v)
{
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// ---------------------------------------------------------------------------- barriers

// All `threads` threads (a multiple of 32) that name barrier `id` wait for one another; their
// earlier accesses to shared memory are visible after it. Barrier 0 is __syncthreads. PTX ISA:
// bar.sync.
GK_DEVICE void named_barrier_sync(u32 id, u32 threads)
{
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// Counts this warp in without waiting; the waiters use named_barrier_sync. PTX ISA: bar.arrive.
GK_DEVICE void named_barrier_arrive(u32 id, u32 threads)
{
    asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// ---------------------------------------------------------------------------- shuffles
// PTX ISA: shfl.sync. All 32 lanes take part.

GK_DEVICE u32 shuffle_xor(u32 value, u32 lane_mask)
{
    u32 v;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                 : "=r"(v)
                 : "r"(value), "r"(lane_mask));
    return v;
}

GK_DEVICE float shuffle_xor(float value, u32 lane_mask)
{
    return __uint_as_float(shuffle_xor(__float_as_uint(value), lane_mask));
}

GK_DEVICE u32 shuffle_from(u32 value, u32 lane)
{
    u32 v;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                 : "=r"(v)
                 : "r"(value), "r"(lane));
    return v;
}

GK_DEVICE float shuffle_from(float value, u32 lane)
{
    return __uint_as_float(shuffle_from(__float_as_uint(value), lane));
}

// ---------------------------------------------------------------------------- conversions
// PTX ISA: cvt. Rounding to nearest, ties to even; overflow of bf16 and f16 gives infinity.

GK_DEVICE u16 cvt_bf16(float x)
{
    u16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}

GK_DEVICE u16 cvt_f16(float x)
{
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}

// Two values in one register, `low` in the lower half (the instruction names the upper one first).
GK_DEVICE u32 cvt_bf16x2(float low, float high)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

GK_DEVICE u32 cvt_f16x2(float low, float high)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

GK_DEVICE float cvt_f32_from_f16(u16 bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

#if __CUDA_ARCH__ >= 890
// Two e4m3 values, `low` in the lower byte; out of range becomes the largest finite value.
GK_DEVICE u16 cvt_e4m3x2(float low, float high)
{
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}

// The two f16 values of a pair of e4m3, exact; the lower byte's in the lower half.
GK_DEVICE u32 cvt_f16x2_from_e4m3x2(u16 bits)
{
    u32 r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(bits));
    return r;
}
#endif

// ---------------------------------------------------------------------------- fast functions
// PTX ISA: ex2.approx (2 units of the last place), rcp.approx (1 unit). Subnormals count as zero.

GK_DEVICE float exp2_approx(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

GK_DEVICE float rcp_approx(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

} // namespace gk::ptx
