// twin: target=sm_80 grid=1 block=128 out=16
// wants: RACE
// Counts in shared memory without atomics.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[16];
    const unsigned t = threadIdx.x;
    if (t < 16) {
        s[t] = 0;
    }
    __syncthreads();
#if BAD
    s[in[t] % 16] += 1; // (1) (2)
#else
    atomicAdd(&s[in[t] % 16], 1u);
#endif
    __syncthreads();
    if (t < 16) {
        out[t] = s[t];
    }
}
