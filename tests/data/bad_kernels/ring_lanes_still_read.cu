// twin: target=sm_90a grid=2 block=96 out=512
// wants: RACE
// Lane 0 gives the stage back before the others have read: no __syncwarp.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    constexpr u32 kStages = 2, kTiles = 4;
    __shared__ __align__(128) u32 s[kStages][64];
    __shared__ Barrier full[kStages], empty[kStages];
    const u32 t = threadIdx.x;
    if (t == 0) {
        for (u32 i = 0; i < kStages; ++i) {
            full[i].init(1);
            empty[i].init(2);
        }
        fence_barrier_init();
    }
    __syncthreads();
    RingPosition<kStages> at;
    if (t == 64) {
        for (u32 tile = 0; tile < kTiles; ++tile, at.advance()) {
            empty[at.stage].wait(at.parity ^ 1);
            full[at.stage].arrive_expect_bytes(256);
            bulk_load(ptx::shared_address(s[at.stage]), in + (blockIdx.x * kTiles + tile) * 64, 256,
                      full[at.stage]);
        }
    } else if (t < 64) {
        for (u32 tile = 0; tile < kTiles; ++tile, at.advance()) {
            full[at.stage].wait(at.parity);
            out[(blockIdx.x * kTiles + tile) * 64 + t] = s[at.stage][63 - t];
#if !BAD
            __syncwarp();
#endif
            if (t % 32 == 0) {
                empty[at.stage].arrive();
            }
        }
    }
}
