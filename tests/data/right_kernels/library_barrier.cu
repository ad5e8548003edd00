// twin: target=sm_80 grid=1 block=64 out=192
// cuda::barrier on mbarriers of sm_80, waited for by tokens.
#include <cuda/barrier>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        init(&bar, 64);
    }
    __syncthreads();
    for (unsigned lap = 0; lap < 3; ++lap) {
        s[t] = in[lap * 64 + t];
        bar.arrive_and_wait();
        out[lap * 64 + t] = s[63 - t];
        auto token = bar.arrive();
        bar.wait(static_cast<decltype(token) &&>(token));
    }
}
