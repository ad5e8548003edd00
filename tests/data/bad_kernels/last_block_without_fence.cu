// twin: target=sm_80 grid=6 block=32 out=6 work=8
// wants: RACE
// The last block reads what the others wrote; nothing makes it visible before they count.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    const unsigned sum = __reduce_add_sync(~0u, in[blockIdx.x * 32 + t]);
    if (t == 0) {
        work[1 + blockIdx.x] = sum; // (1)
#if !BAD
        __threadfence();
#endif
        last = atomicAdd(&work[0], 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && t < gridDim.x) {
        out[t] = work[1 + t]; // (2)
    }
}
