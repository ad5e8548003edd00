// case: target=90 block=128 out=512
// mbarrier beyond what gk/ wraps: counts and states of arrivals, bytes counted by hand, tests by
// state and by parity, both kinds of wait, a second life of the same 8 bytes.
#include <gk/hopper.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
__device__ u64 arrive(u32 at, u32 count)
{
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
                 : "=l"(state)
                 : "r"(at), "r"(count)
                 : "memory");
    return state;
}
__device__ u64 arrive_expect(u32 at, u32 bytes)
{
    u64 state;
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %0, [%1], %2;"
                 : "=l"(state)
                 : "r"(at), "r"(bytes)
                 : "memory");
    return state;
}
__device__ void landed(u32 at, u32 bytes)
{
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(at), "r"(bytes)
                 : "memory");
}
#define ASK(NAME, INSTRUCTION, TYPE, KIND)                                                         \
    __device__ u32 NAME(u32 at, TYPE phase)                                                        \
    {                                                                                              \
        u32 ended;                                                                                 \
        asm volatile("{\n.reg .pred p;\n" INSTRUCTION ".shared::cta.b64 p, [%1], %2;\n"            \
                     "selp.u32 %0, 1, 0, p;\n}"                                                    \
                     : "=r"(ended)                                                                 \
                     : "r"(at), KIND(phase)                                                        \
                     : "memory");                                                                  \
        return ended;                                                                              \
    }
ASK(test, "mbarrier.test_wait", u64, "l")
ASK(test_parity, "mbarrier.test_wait.parity", u32, "r")
ASK(attempt, "mbarrier.try_wait", u64, "l")
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ Barrier bar, all;
    const u32 t = threadIdx.x, at = bar.address();
    if (t == 0) {
        u32 answers = 0, i = 0;
        all.init(128);
        bar.init(3);
        fence_barrier_init();
        const u64 first = arrive(at, 2);
        answers |= test(at, first) << i++ | test_parity(at, 0) << i++ | test_parity(at, 1) << i++;
        (void)arrive(at, 1);
        answers |= test(at, first) << i++ | test_parity(at, 0) << i++ | test_parity(at, 1) << i++;
        bar.expect_bytes(48); // second phase: bytes before arrivals, in three pieces
        landed(at, 16);
        const u64 second = arrive_expect(at, 64);
        (void)arrive(at, 2);
        answers |= test(at, second) << i++;
        landed(at, 80);
        answers |= test_parity(at, 0) << i++;
        landed(at, 16);
        answers |= test(at, second) << i++ | test_parity(at, 0) << i++ | test_parity(at, 1) << i++;
        bar.invalidate();
        bar.init(1);
        answers |= test_parity(at, 1) << i++ | test_parity(at, 0) << i++;
        const u64 again = arrive(at, 1);
        while (!attempt(at, again)) {
        }
        answers |= test_parity(at, 0) << i++;
        out[0] = answers;
        out[1] = i;
    }
    __syncthreads();
    for (u32 lap = 0; lap < 3; ++lap) { // all threads of the block, as a barrier of their own
        out[128 + lap * 128 + (t ^ lap)] = in[lap * 128 + t];
        const u64 state = arrive(all.address(), 1);
        while (!attempt(all.address(), state)) {
        }
    }
}
