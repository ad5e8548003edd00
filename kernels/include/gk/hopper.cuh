// Single instructions of sm_90 and sm_90a that belong to no other header: electing a lane, moving
// registers between warpgroups, storing matrices, ordering proxies, launches that overlap.
#pragma once

#include <gk/ptx.cuh>

namespace gk
{

constexpr u32 kWarpgroupThreads = 128; // four warps, the first of them a multiple of four

// True in one lane of the warp, the same one each time. All 32 lanes take part. What only one
// thread may do (start copies, arrive) is better chosen so than by a lane's number: the compiler
// then knows that one lane runs it, and does not serialise over lanes. PTX ISA: elect.sync.
GK_DEVICE bool elect_one()
{
    u32 elected;
    asm volatile("{\n"
                 ".reg .pred elected;\n"
                 "elect.sync _|elected, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, elected;\n"
                 "}"
                 : "=r"(elected)
                 :
                 : "memory");
    return elected != 0;
}

// The warpgroup gives registers back (down to kRegisters a thread) or waits until it gets as many.
// All four warps call it, kRegisters is a multiple of 8 from 24 to 256, and the kernel must have
// launch bounds, or ptxas ignores it (C7508). PTX ISA: setmaxnreg.
template <u32 kRegisters> GK_DEVICE void release_registers()
{
    static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "a legal count");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

template <u32 kRegisters> GK_DEVICE void acquire_registers()
{
    static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256, "a legal count");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(kRegisters));
}

// The reverse of ldmatrix: lanes 8j .. 8j+7 give the 16-byte row addresses of 8x8 matrix j of
// 16-bit elements, lane l gives the elements (l / 4, 2 (l % 4)) and (l / 4, 2 (l % 4) + 1) of each.
// PTX ISA: stmatrix.
GK_DEVICE void stmatrix_x4(u32 address, u32 r0, u32 r1, u32 r2, u32 r3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

GK_DEVICE void stmatrix_x4_trans(u32 address, u32 r0, u32 r1, u32 r2, u32 r3)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                 : "memory");
}

GK_DEVICE void stmatrix_x2(u32 address, u32 r0, u32 r1)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
                 :
                 : "r"(address), "r"(r0), "r"(r1)
                 : "memory");
}

// Orders this thread's plain accesses to shared memory before asynchronous ones (copies, wgmma)
// that start after it, in whichever thread a barrier lets start them. Without it a copy may read
// what lay there before. PTX ISA: fence.proxy.async.
GK_DEVICE void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

// The same for all memory.
GK_DEVICE void fence_async()
{
    asm volatile("fence.proxy.async;" : : : "memory");
}

// In a launch with the attribute `pdl`: waits until the launches before are complete and their
// results visible; nothing that they write may be read before. PTX ISA: griddepcontrol.
GK_DEVICE void wait_for_earlier_launches()
{
    asm volatile("griddepcontrol.wait;" : : : "memory");
}

// Lets the next launch with that attribute begin, once all blocks have said so or ended.
GK_DEVICE void allow_next_launch()
{
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
}

} // namespace gk
