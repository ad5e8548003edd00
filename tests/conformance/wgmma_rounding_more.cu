// case: target=90 block=128 out=2048
// wgmma of f16, e5m2 and A in registers on values of all magnitudes and sums that are not zero.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
#define PRODUCT(KIND)                                                                              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                       \
                 "wgmma.mma_async.sync.aligned.m64n8" KIND                                         \
                 " {%0, %1, %2, %3}, %4, %5, p, 1, 1;\n}"                                          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "l"(wgmma_advance(a, step * 32)), "l"(wgmma_advance(b, step * 32)), "r"(1)      \
                 : "memory")
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[2304];
    const u32 t = threadIdx.x;
    const u64 a = wgmma_descriptor_k128(ptx::shared_address(s));
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s) + 8192);
    for (u32 kind = 0; kind < 4; ++kind) {
        const u32 mask = kind == 0 ? 0xbfffbfffu : kind == 1 ? 0xbbbbbbbbu : 0xbfbfbfbfu;
        for (u32 i = t; i < 2304; i += 128) {
            s[i] = in[i] & mask;
        }
        fence_async_shared();
        __syncthreads();
        float d[4];
        u32 r[4];
        for (u32 i = 0; i < 4; ++i) {
            d[i] = (float)(i32)in[3000 + i * 128 + t] * 0x1p-33f;
            r[i] = in[4000 + i * 128 + t] & mask;
        }
        pin_registers(d);
        pin_registers(r);
        wgmma_fence();
        for (u32 step = 0; step < 4; ++step) {
            if (kind == 0) {
                Wgmma<f16, 8>::multiply(d, wgmma_advance(a, step * 32), wgmma_advance(b, step * 32),
                                        true);
            } else if (kind == 1) {
                PRODUCT("k32.f32.e5m2.e5m2");
            } else if (kind == 2) {
                PRODUCT("k32.f32.e4m3.e5m2");
            } else {
                Wgmma<e4m3, 8>::multiply(d, r, wgmma_advance(b, step * 32), true);
            }
        }
        wgmma_commit();
        wgmma_wait<0>();
        pin_registers(d);
        pin_registers(r);
        for (u32 i = 0; i < 4; ++i) {
            out[kind * 512 + i * 128 + t] = __float_as_uint(d[i]);
        }
        __syncthreads();
    }
}
