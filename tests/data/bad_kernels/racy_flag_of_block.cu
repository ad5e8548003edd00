// twin: target=sm_80 grid=1 block=64 out=64
// wants: RACE|UNWRITTEN
// A flag in shared memory that one thread clears while others set it.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned found;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        found = 0; // (1)
    }
#if !BAD
    __syncthreads();
#endif
    if (in[t] % 3 == 0) {
        atomicOr(&found, 1u << t / 2); // (2)
    }
    __syncthreads();
    out[t] = found;
}
