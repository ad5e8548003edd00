// case: target=80 block=128 out=640
// differs: ulps=2 abs=1e-6 the hardware has tables, the emulated device the exact value
// Approximate functions of fp32: powers of two, reciprocals, roots, logarithms, sines.
#include <gk/activation.cuh>
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const float x = (float)(int)in[threadIdx.x] * 0x1p-28f;
    unsigned *o = out + threadIdx.x;
    o[0] = __float_as_uint(gk::ptx::exp2_approx(x));
    o[128] = __float_as_uint(gk::ptx::rcp_approx(x));
    o[256] = __float_as_uint(rsqrtf(x * x));
    o[384] = __float_as_uint(__log2f(x * x));
    o[512] = __float_as_uint(__sinf(x));
}
