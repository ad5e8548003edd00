// case: target=90 block=128 out=1280
// wgmma on small integers, f16, N of 8, 24, 96, 200 and 256: sums weighted and added up by thread,
// those of N = 8 as they are.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
__device__ float small(u32 bits, u32 range)
{
    return (float)(bits % range) - (float)(range / 2);
}
template <u32 kN> __device__ void product(const u32 *s, unsigned *out)
{
    float d[kN / 2];
    for (u32 i = 0; i < kN / 2; ++i) {
        d[i] = (float)i;
    }
    pin_registers(d);
    const u64 a = wgmma_descriptor_k128(ptx::shared_address(s));
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s) + 8192);
    wgmma_fence();
    for (u32 step = 0; step < 4; ++step) {
        Wgmma<f16, kN>::multiply(d, wgmma_advance(a, step * 32), wgmma_advance(b, step * 32), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
    pin_registers(d);
    u32 sum = 0;
    for (u32 i = 0; i < kN / 2; ++i) {
        sum = sum * 31 + __float_as_uint(d[i]);
    }
    out[0] = sum;
    for (u32 i = 0; i < 4; ++i) {
        out[128 + i * 128] = __float_as_uint(d[i]);
    }
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[10240];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 10240; i += 128) {
        s[i] = pack_pair<f16>(small(in[i], 5), small(in[i] / 5, 7));
    }
    fence_async_shared();
    __syncthreads();
    unsigned *o = out + t;
    product<256>(s, o + 512);
    product<200>(s, o + 384);
    product<96>(s, o + 256);
    product<24>(s, o + 128);
    product<8>(s, o);
}
