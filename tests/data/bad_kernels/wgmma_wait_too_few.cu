// twin: target=sm_90a grid=1 block=128 out=512
// wants: RACE
// One group may be unfinished where there is one.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
extern "C" __global__ void __launch_bounds__(128) k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(1024) u32 s[2304];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 2304; i += 128) {
        s[i] = pack_pair<bf16>((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f);
    }
    fence_async_shared();
    __syncthreads();
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    pin_registers(d);
    const u64 a = wgmma_descriptor_k128(ptx::shared_address(s));
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s) + 8192);
    wgmma_fence();
    for (u32 step = 0; step < 4; ++step) {
        Wgmma<bf16, 8>::multiply(d, wgmma_advance(a, step * 32), wgmma_advance(b, step * 32), true);
    }
    wgmma_commit();
    wgmma_wait<BAD ? 1 : 0>();
    pin_registers(d);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 128 + t] = __float_as_uint(d[i]);
    }
}
