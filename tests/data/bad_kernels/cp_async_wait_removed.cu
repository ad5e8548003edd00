// twin: target=sm_80 grid=1 block=64 out=64
// wants: PENDING|RACE
// A thread reads its own copy before it waits for it.
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
#endif
    out[t] = s[4 * t] ^ s[4 * t + 3];
}
