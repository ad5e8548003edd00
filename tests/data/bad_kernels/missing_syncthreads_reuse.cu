// twin: target=sm_80 grid=1 block=128 out=256
// wants: RACE
// Shared memory filled again while others still read it.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[128];
    const unsigned t = threadIdx.x;
    for (unsigned lap = 0; lap < 2; ++lap) {
        s[t] = in[lap * 128 + t]; // (1)
        __syncthreads();
        out[lap * 128 + t] = s[127 - t]; // (2)
#if !BAD
        __syncthreads();
#endif
    }
}
