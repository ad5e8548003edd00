// case: target=90 block=128 out=4096
// wgmma on small integers, both operands MN-major with a swizzle of 32 bytes.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[4096];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 4096; i += 128) {
        s[i] = pack_pair<bf16>((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f);
    }
    fence_async_shared();
    __syncthreads();
    float d[32];
    for (u32 i = 0; i < 32; ++i) {
        d[i] = (float)i;
    }
    pin_registers(d);

    const u64 a = wgmma_descriptor(ptx::shared_address(s), 512, 256, Swizzle::k32);
    const u64 b = wgmma_descriptor(ptx::shared_address(s) + 8192, 256, 1024, Swizzle::k32);
    wgmma_fence();
    Wgmma<bf16, 64>::template multiply<true, true>(d, a, b, true);
    wgmma_commit();
    wgmma_wait<0>();
    pin_registers(d);
    for (u32 i = 0; i < 32; ++i) {
        out[i * 128 + t] = __float_as_uint(d[i]);
    }
}
