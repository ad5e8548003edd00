// twin: target=sm_80 grid=1 block=64 out=64
// wants: DIVERGENT|DEADLOCK
// __syncthreads that part of the block never reaches.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    const unsigned t = threadIdx.x;
    s[t] = in[t];
#if BAD
    if (t < 40) {
        __syncthreads();
    }
#else
    __syncthreads();
#endif
    const unsigned x = t < 40 ? s[39 - t] : s[t];
    __syncthreads();
    s[t] = x + 1;
    __syncthreads();
    out[t] = s[t ^ 5];
}
