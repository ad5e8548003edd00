// case: target=90 block=256 out=4096
// wgmma by two warpgroups: groups of products of which one stays in flight, A in registers beside A
// in shared memory, products of e4m3 and e5m2, signs turned.
#include <gk/hopper.cuh>
#include <gk/wgmma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(1024) u32 s[6144];
    const u32 t = threadIdx.x, group = t / 128;
    for (u32 i = t; i < 6144; i += 256) {
        s[i] = ptx::cvt_e4m3x2((float)(in[i] % 5) - 2.0f, (float)(in[i] / 5 % 5) - 2.0f) |
               (u32)ptx::cvt_e4m3x2((float)(in[i] / 25 % 5) - 2.0f, (float)(in[i] / 125 % 5) - 2.0f)
                   << 16;
    }
    fence_async_shared();
    __syncthreads();
    float d[16], e[16];
    u32 a[4];
    for (u32 i = 0; i < 16; ++i) {
        d[i] = (float)i;
        e[i] = (float)(i * i);
    }
    for (u32 i = 0; i < 4; ++i) {
        a[i] = s[i * 256 + t];
    }
    const u64 left = wgmma_descriptor_k128(ptx::shared_address(s) + group * 8192);
    const u64 right = wgmma_descriptor_k128(ptx::shared_address(s) + 16384);
    pin_registers(d);
    pin_registers(e);
    pin_registers(a);
    wgmma_fence();
    for (u32 step = 0; step < 4; ++step) {
        Wgmma<e4m3, 32>::multiply(d, wgmma_advance(left, step * 32),
                                  wgmma_advance(right, step * 32), true);
        wgmma_commit();
        Wgmma<e4m3, 32>::multiply(e, a, wgmma_advance(right, step * 32), step != 1);
        wgmma_commit();
        wgmma_wait<1>();
    }
    wgmma_wait<0>();
    pin_registers(d);
    pin_registers(e);
    for (u32 i = 0; i < 8; ++i) {
        out[i * 256 + t] = __float_as_uint(d[i]);
        out[2048 + i * 256 + t] =
            __float_as_uint(e[i]) + __float_as_uint(d[8 + i]) * 3 + __float_as_uint(e[8 + i]) * 5;
    }
}
