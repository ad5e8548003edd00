// twin: target=sm_80 grid=1 block=64 out=64
// wants: UNWRITTEN
// The sum starts with what lay in shared memory.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[65];
    const unsigned t = threadIdx.x;
#if BAD
    s[t + 1] = in[t];
#else
    s[t] = in[t];
    if (t == 0) {
        s[64] = in[64];
    }
#endif
    __syncthreads();
    out[t] = s[t] + s[t + 1];
}
