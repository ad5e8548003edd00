// case: target=80 block=32 out=256
// mma of bf16 and f16 on small integers: exact in every order.
#include <gk/mma.cuh>
using namespace gk;
template <typename T> __device__ u32 pair(u32 bits)
{
    return pack_pair<T>((float)(int)(bits % 5) - 2.0f, (float)(int)(bits / 5 % 7) - 3.0f);
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const u32 t = threadIdx.x;
    FragmentD d{{1.0f, 2.0f, 3.0f, (float)t}}, e = d;
    FragmentA a;
    FragmentB b;
    for (u32 i = 0; i < 4; ++i) {
        a.r[i] = pair<bf16>(in[i * 32 + t]);
    }
    for (u32 i = 0; i < 2; ++i) {
        b.r[i] = pair<bf16>(in[128 + i * 32 + t]);
    }
    mma_m16n8k16(d, a, b, bf16{});
    for (u32 i = 0; i < 4; ++i) {
        a.r[i] = pair<f16>(in[i * 32 + t]);
    }
    for (u32 i = 0; i < 2; ++i) {
        b.r[i] = pair<f16>(in[128 + i * 32 + t]);
    }
    mma_m16n8k16(e, a, b, f16{});
    for (u32 i = 0; i < 4; ++i) {
        out[i * 32 + t] = __float_as_uint(d.v[i]);
        out[128 + i * 32 + t] = __float_as_uint(e.v[i]);
    }
}
