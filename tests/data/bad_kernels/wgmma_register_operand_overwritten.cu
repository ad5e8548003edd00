// twin: target=sm_90a grid=1 block=128 out=512
// wants: RACE
// Registers of A change while the products may still read them.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
extern "C" __global__ void __launch_bounds__(128) k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(1024) u32 s[256];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 256; i += 128) {
        s[i] = pack_pair<bf16>((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f);
    }
    fence_async_shared();
    __syncthreads();
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    u32 a[4];
    for (u32 i = 0; i < 4; ++i) {
        a[i] = pack_pair<bf16>((float)(in[i * 128 + t] % 5) - 2.0f, 1.0f);
    }
    pin_registers(d);
    pin_registers(a);
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s));
    wgmma_fence();
    Wgmma<bf16, 8>::multiply(d, a, b, true);
    wgmma_commit();
#if !BAD
    wgmma_wait<0>();
#endif
    asm volatile("mov.b32 %0, 0;" : "+r"(a[0]) : : "memory");
    wgmma_wait<0>();
    pin_registers(d);
    pin_registers(a);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 128 + t] = __float_as_uint(d[i]) + a[0];
    }
}
