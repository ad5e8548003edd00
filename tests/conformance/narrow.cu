// case: target=80 block=128 out=640
// bf16 and f16: conversions of every kind of value.
#include <gk/types.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const float x = __uint_as_float(in[threadIdx.x]);
    const float y = (float)(int)in[threadIdx.x + 128] * 0x1p-24f;
    unsigned *o = out + threadIdx.x;
    o[0] = ptx::cvt_bf16x2(x, y);
    o[128] = ptx::cvt_f16x2(x, y);
    o[256] = __float_as_uint(ptx::cvt_f32_from_f16((u16)in[threadIdx.x]));
    o[384] = ptx::cvt_bf16(y * 0x1p-120f);
    o[512] = ptx::cvt_f16(y * 0x1p-20f);
}
