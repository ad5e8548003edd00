// case: target=90 block=128 out=256
// Atomic operations in 16 and 64 bits, on pairs, with results: of what depends on order, only what
// does not.
#include <gk/types.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 s[32];
    const u32 t = threadIdx.x, v = in[t];
    u32 old = 0;
    u64 wide = 0;
    double real = 0;
    if (t < 32) {
        s[t] = 0;
    }
    __syncthreads();
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;"
                 :
                 : "l"(out), "r"(pack_pair<f16>((float)(v % 8), (float)(v / 8 % 8)))
                 : "memory");
    asm volatile("atom.global.add.noftz.bf16x2 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(out + 1), "r"(pack_pair<bf16>((float)(v & 1), -(float)(v >> 1 & 1)))
                 : "memory");
    asm volatile("red.global.max.u64 [%0], %1;" : : "l"(out + 2), "l"((u64)v << 8 | t) : "memory");
    asm volatile("red.global.min.s64 [%0], %1;" : : "l"(out + 4), "l"(-(i64)v * 77) : "memory");
    asm volatile("red.shared.and.b32 [%0], %1;" : : "r"(ptx::shared_address(s)), "r"(v) : "memory");
    asm volatile("atom.shared.add.f64 %0, [%1], %2;"
                 : "=d"(real)
                 : "r"(ptx::shared_address(s + 2)), "d"((double)(v % 99))
                 : "memory");
    asm volatile("atom.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(wide)
                 : "l"(out + 6), "l"(0ull), "l"(0x123456789abcull)
                 : "memory");
    asm volatile("atom.global.exch.b32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(out + 8), "r"(5u)
                 : "memory");
    const u32 place = atomicAdd(&s[4], 1); // each of 0 .. 127 once
    out[128 + place] = 7 + place;
    atomicXor(&s[5], atomicAdd(&s[6], v) ^ atomicSub(&s[7], v)); // only its end is shown
    atomicAnd(&s[8], v);
    atomicExch(&s[9], 3);
    __syncthreads();
    if (t < 5) {
        out[16 + t] = s[t];
    }
    if (t >= 6 && t < 10) {
        out[16 + t] = s[t];
    }
}
