// twin: target=sm_80 grid=1 block=64 out=512
// wants: PENDING|RACE
// A ring of two tiles that waits until two groups are left, not one.
#include <gk/ptx.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) u32 s[2][256];
    const u32 t = threadIdx.x;
    ptx::cp_async_16(ptx::shared_address(&s[0][4 * t]), in + 4 * t, 16);
    ptx::cp_async_commit();
    for (u32 tile = 0; tile < 8; ++tile) {
        if (tile < 7) {
            ptx::cp_async_16(ptx::shared_address(&s[(tile + 1) % 2][4 * t]),
                             in + (tile + 1) * 256 + 4 * t, 16);
        }
        ptx::cp_async_commit();
        ptx::cp_async_wait<BAD ? 2 : 1>();
        __syncthreads();
        out[tile * 64 + t] = s[tile % 2][4 * (t ^ 33)];
        __syncthreads();
    }
}
