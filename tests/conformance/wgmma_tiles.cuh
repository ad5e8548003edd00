// Products of one type for all widths that tiles of templates have: sums weighted and added up by
// thread. What the cases wgmma_tiles_*.cu share. TYPE: of A and B.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
template <u32 kN> __device__ void product(const u32 *s, unsigned *out)
{
    float d[kN / 2];
    for (u32 i = 0; i < kN / 2; ++i) {
        d[i] = (float)(i % 17);
    }
    pin_registers(d);
    const u64 a = wgmma_descriptor_k128(ptx::shared_address(s));
    const u64 b = wgmma_descriptor_k128(ptx::shared_address(s) + 8192);
    wgmma_fence();
    for (u32 step = 0; step < 4; ++step) {
        Wgmma<TYPE, kN>::multiply(d, wgmma_advance(a, step * 32), wgmma_advance(b, step * 32),
                                  step != 1);
    }
    wgmma_commit();
    wgmma_wait<0>();
    pin_registers(d);
    u32 sum = 0;
    for (u32 i = 0; i < kN / 2; ++i) {
        sum = sum * 31 + __float_as_uint(d[i]);
    }
    *out = sum;
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[10240];
    const u32 t = threadIdx.x;
    for (u32 i = t; i < 10240; i += 128) {
        s[i] = pack_pair<TYPE>((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 7) - 3.0f);
    }
    fence_async_shared();
    __syncthreads();
    unsigned *o = out + t;
    product<256>(s, o);
    product<224>(s, o + 128);
    product<192>(s, o + 256);
    product<160>(s, o + 384);
    product<128>(s, o + 512);
    product<96>(s, o + 640);
    product<64>(s, o + 768);
    product<32>(s, o + 896);
}
