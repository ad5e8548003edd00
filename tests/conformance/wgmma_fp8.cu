// case: target=90 block=128 out=4096
// wgmma on small integers, e4m3.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[4096];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 4096; i += 128) {
        s[i] = ptx::cvt_e4m3x2((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f) |
               (u32)ptx::cvt_e4m3x2((float)(in[i] / 25 % 5) - 2.0f, (float)(in[i] / 125 % 5) - 2.0f)
                   << 16;
    }
    fence_async_shared();
    __syncthreads();
    float d[32];
    for (u32 i = 0; i < 32; ++i) {
        d[i] = (float)i;
    }
    pin_registers(d);

    const u64 a = wgmma_descriptor(ptx::shared_address(s), 16, 1024, Swizzle::k128);
    const u64 b = wgmma_descriptor(ptx::shared_address(s) + 8192, 16, 1024, Swizzle::k128);
    wgmma_fence();
    for (u32 step = 0; step < 4; ++step)
        Wgmma<e4m3, 64>::multiply(d, wgmma_advance(a, step * 32), wgmma_advance(b, step * 32),
                                  step > 0);
    wgmma_commit();
    wgmma_wait<0>();
    pin_registers(d);
    for (u32 i = 0; i < 32; ++i) {
        out[i * 128 + t] = __float_as_uint(d[i]);
    }
}
