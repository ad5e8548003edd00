// case: target=80 block=32 out=128
// mma of bf16 on values of all magnitudes: the order and rounding of sums inside the tensor core.
#include <gk/mma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const u32 t = threadIdx.x;
    FragmentD d{{0.0f, 0.0f, 0.0f, 0.0f}};
    FragmentA a;
    FragmentB b;
    for (u32 i = 0; i < 4; ++i) {
        a.r[i] = (in[i * 32 + t] & 0x87ff87ffu) | 0x38003800u;
    }
    for (u32 i = 0; i < 2; ++i) {
        b.r[i] = (in[128 + i * 32 + t] & 0x87ff87ffu) | 0x38003800u;
    }
    mma_m16n8k16(d, a, b, bf16{});
    for (u32 i = 0; i < 4; ++i) {
        out[i * 32 + t] = __float_as_uint(d.v[i]);
    }
}
