// case: target=80 block=128 out=256
// Named barriers that part of the block arrives at, and reductions over barriers.
#include <gk/ptx.cuh>
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ unsigned s[128];
    const unsigned t = threadIdx.x;
    if (t < 64) {
        s[t] = in[t];
        gk::ptx::named_barrier_arrive(3, 128);
        gk::ptx::named_barrier_sync(4, 128);
        out[t] = s[64 + t];
    } else {
        gk::ptx::named_barrier_sync(3, 128);
        s[t] = s[127 - t] + in[t];
        gk::ptx::named_barrier_arrive(4, 128);
        out[t] = s[t];
    }
    out[128 + t] = __syncthreads_count(in[t] & 1) * 4 + __syncthreads_and(in[t] != 0) * 2 +
                   __syncthreads_or(in[t] == 1);
}
