// twin: target=sm_80 grid=4 block=64 out=256 work=260
// wants: RACE
// One thread counts for its block before the others have written.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    work[4 + blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t]; // (1)
    __threadfence();
#if !BAD
    __syncthreads();
#endif
    if (t == 0) {
        last = atomicAdd(&work[0], 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    for (unsigned i = 0; last && i < 4; ++i) {
        out[i * 64 + t] = work[4 + i * 64 + (t ^ 32)]; // (2)
    }
}
