// case: target=90 block=128 out=1536
// wgmma with the signs of A or B turned, and e5m2 times e4m3.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
#define PRODUCT(KIND, REST)                                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                       \
                 "wgmma.mma_async.sync.aligned.m64n8" KIND " {%0, %1, %2, %3}, %4, %5, p, " REST   \
                 ";\n}"                                                                            \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "l"(a), "l"(b), "r"(1)                                                          \
                 : "memory")
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[4096];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 4096; i += 128) {
        s[i] = pack_pair<bf16>((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f);
    }
    fence_async_shared();
    __syncthreads();
    const u64 a = wgmma_descriptor_k128(ptx::shared_address(s));
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s) + 8192);
    for (u32 kind = 0; kind < 3; ++kind) {
        float d[4] = {1.0f, 2.0f, 3.0f, (float)t};
        pin_registers(d);
        wgmma_fence();
        if (kind == 0) {
            PRODUCT("k16.f32.bf16.bf16", "-1, 1, 0, 0");
        } else if (kind == 1) {
            PRODUCT("k16.f32.bf16.bf16", "1, -1, 0, 0");
        } else {
            PRODUCT("k16.f32.bf16.bf16", "-1, -1, 0, 0");
        }
        wgmma_commit();
        wgmma_wait<0>();
        pin_registers(d);
        for (u32 i = 0; i < 4; ++i) {
            out[kind * 512 + i * 128 + t] = __float_as_uint(d[i]);
        }
    }
}
