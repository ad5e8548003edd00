// twin: target=sm_80 grid=6 block=64 out=6 work=8
// wants: RACE
// The last block: its other threads read without the fence of the one that counted.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        work[1 + blockIdx.x] = in[blockIdx.x]; // (1)
        __threadfence();
        last = atomicAdd(&work[0], 1u) == gridDim.x - 1;
#if !BAD
        __threadfence();
#endif
    }
    __syncthreads();
    if (last && t < gridDim.x) {
        out[t] = work[1 + t]; // (2)
    }
}
