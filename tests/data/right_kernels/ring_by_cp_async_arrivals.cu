// twin: target=sm_90a grid=1 block=96 out=640
// A ring of stages: one warp copies by cp.async, whose end the mbarriers of full stages count; two
// warps read. The first stage of all was waited for by the warp itself as well.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) u32 s[2][128];
    __shared__ Barrier full[2], empty[2];
    const u32 t = threadIdx.x;
    if (t == 0) {
        for (u32 i = 0; i < 2; ++i) {
            full[i].init(32);
            empty[i].init(64);
        }
        fence_barrier_init();
    }
    __syncthreads();
    for (u32 lap = 0; lap < 5; ++lap) {
        const u32 stage = lap % 2, phase = lap / 2 % 2;
        if (t < 32) {
            empty[stage].wait(phase ^ 1);
            ptx::cp_async_16(ptx::shared_address(&s[stage][4 * t]), in + lap * 128 + 4 * t, 16);
            if (lap % 3) {
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                             :
                             : "r"(full[stage].address())
                             : "memory");
            } else {
                asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];"
                             :
                             : "r"(full[stage].address())
                             : "memory");
                full[stage].arrive();
            }
            if (lap == 0) {
                asm volatile("cp.async.wait_all;" : : : "memory");
                out[t] = s[0][4 * t + t % 4]; // its own words alone
            }
        } else {
            full[stage].wait(phase);
            for (u32 i = lap ? 0 : 32; i < 128; i += 64) {
                if (i + t - 32 < 128) {
                    out[lap * 128 + i + t - 32] = s[stage][(i + t - 32) ^ 5];
                }
            }
            empty[stage].arrive();
        }
    }
}
