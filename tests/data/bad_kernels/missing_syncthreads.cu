// twin: target=sm_80 grid=2 block=128 out=2
// wants: RACE
// A tree over shared memory whose levels are not kept apart.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[128];
    const unsigned t = threadIdx.x;
    s[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (unsigned half = 64; half > 0; half /= 2) {
        if (t < half) {
            s[t] += s[t + half]; // (1) (2)
        }
#if !BAD
        __syncthreads();
#endif
    }
    if (t == 0) {
        out[blockIdx.x] = s[0];
    }
}
