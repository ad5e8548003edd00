// case: target=90 block=128 out=256
// mbarrier: arrivals that leave for good, arrivals that must not complete a phase, counts asked
// for.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
__device__ u32 ended(u32 at, u32 parity)
{
    u32 answer;
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(answer)
                 : "r"(at), "r"(parity)
                 : "memory");
    return answer;
}
__device__ u32 pending(u64 state)
{
    u32 count;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ Barrier bar, all;
    const u32 t = threadIdx.x, at = bar.address();
    if (t == 0) {
        u64 state;
        bar.init(5);
        all.init(128);
        fence_barrier_init();
        asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 2;"
                     : "=l"(state)
                     : "r"(at)
                     : "memory");
        out[0] = pending(state);
        asm volatile("mbarrier.arrive_drop.noComplete.shared::cta.b64 %0, [%1], 2;"
                     : "=l"(state)
                     : "r"(at)
                     : "memory");
        out[1] = pending(state);
        out[2] = ended(at, 0);
        bar.arrive();
        out[3] = ended(at, 0);
        bar.arrive(); // the first of three that are left
        asm volatile("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %0, [%1], 32;"
                     : "=l"(state)
                     : "r"(at)
                     : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 32;"
                     :
                     : "r"(at)
                     : "memory");
        out[4] = ended(at, 1);
        bar.arrive();
        out[5] = ended(at, 1);
        bar.arrive(); // of two
        bar.arrive();
        out[6] = ended(at, 0);
    }
    __syncthreads();
    for (u32 lap = 0; lap < 3; ++lap) { // a quarter of the threads leaves in each lap
        if (t / 32 < lap) {
            break;
        }
        if (t / 32 == lap) {
            asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];"
                         :
                         : "r"(all.address())
                         : "memory");
        } else {
            all.arrive();
            all.wait(lap % 2);
        }
    }
    out[128 + t] = in[t];
}
