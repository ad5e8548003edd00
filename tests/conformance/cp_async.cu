// case: target=80 block=64 out=512
// cp.async of 4, 8 and 16 bytes, with source sizes that leave zeros.
#include <gk/ptx.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 s[512];
    const u32 t = threadIdx.x;
    ptx::cp_async_16(ptx::shared_address(&s[4 * t]), in + 4 * t, t % 17);
    ptx::cp_async_commit();
    ptx::cp_async_8(ptx::shared_address(&s[256 + 2 * t]), in + 600 + 2 * t, t % 9);
    ptx::cp_async_4(ptx::shared_address(&s[384 + t]), in + 800 + t, t % 5);
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    s[448 + t] = t;
    __syncthreads();
    for (u32 i = 0; i < 8; ++i) {
        out[i * 64 + t] = s[i * 64 + (t ^ 33)];
    }
}
