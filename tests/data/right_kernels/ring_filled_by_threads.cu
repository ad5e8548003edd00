// twin: target=sm_90a grid=1 block=64 out=256
// One warp fills stages with plain stores, the other reads them; mbarriers alone order both.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    constexpr u32 kStages = 2, kTiles = 8;
    __shared__ u32 s[kStages][32];
    __shared__ Barrier full[kStages], empty[kStages];
    const u32 t = threadIdx.x, lane = t % 32;
    if (t == 0) {
        for (u32 i = 0; i < kStages; ++i) {
            full[i].init(32);
            empty[i].init(32);
        }
        fence_barrier_init();
    }
    __syncthreads();
    RingPosition<kStages> at;
    for (u32 tile = 0; tile < kTiles; ++tile, at.advance()) {
        if (t < 32) {
            empty[at.stage].wait(at.parity ^ 1);
            s[at.stage][lane] = in[tile * 32 + lane] + tile;
            full[at.stage].arrive();
        } else {
            full[at.stage].wait(at.parity);
            out[tile * 32 + lane] = s[at.stage][31 - lane];
            empty[at.stage].arrive();
        }
    }
}
