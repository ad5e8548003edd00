// twin: target=sm_80 grid=1 block=64 out=256
// wants: RACE|PENDING
// Shared memory is used for something else while the last copy is still on its way.
#include <gk/ptx.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) u32 s[256];
    const u32 t = threadIdx.x;
    ptx::cp_async_16(ptx::shared_address(&s[4 * t]), in + 4 * t, 16);
    ptx::cp_async_commit();
#if !BAD
    ptx::cp_async_wait<0>();
    __syncthreads();
#endif
    for (u32 i = 0; i < 4; ++i) {
        s[i * 64 + t] = in[i * 64 + t] + 5;
    }
    __syncthreads();
    for (u32 i = 0; i < 4; ++i) {
        out[i * 64 + t] = s[i * 64 + (t ^ 7)];
    }
}
