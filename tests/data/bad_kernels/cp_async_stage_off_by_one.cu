// twin: target=sm_80 grid=1 block=64 out=512
// wants: PENDING|RACE
// A ring of three tiles filled one tile too far ahead: over the one that is being read.
#include <gk/ptx.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    constexpr u32 kStages = 3;
    __shared__ __align__(16) u32 s[kStages][256];
    const u32 t = threadIdx.x, ahead = BAD ? kStages : kStages - 1;
    for (u32 tile = 0; tile < ahead; ++tile) {
        ptx::cp_async_16(ptx::shared_address(&s[tile % kStages][4 * t]), in + tile * 256 + 4 * t,
                         16);
        ptx::cp_async_commit();
    }
    for (u32 tile = 0; tile < 8; ++tile) {
        ptx::cp_async_wait<kStages - 2>();
        __syncthreads();
        if (tile + ahead < 8) {
            ptx::cp_async_16(ptx::shared_address(&s[(tile + ahead) % kStages][4 * t]),
                             in + (tile + ahead) * 256 + 4 * t, 16);
        }
        ptx::cp_async_commit();
        out[tile * 64 + t] = s[tile % kStages][4 * (t ^ 33)];
    }
}
