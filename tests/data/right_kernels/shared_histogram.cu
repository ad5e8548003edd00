// twin: target=sm_80 grid=4 block=64 out=16 work=20
// Counts in shared memory by atomics, then in global memory; the last block takes them out.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ unsigned s[16];
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    if (t < 16) {
        s[t] = 0;
    }
    __syncthreads();
    atomicAdd(&s[in[blockIdx.x * 64 + t] % 16], 1u);
    __syncthreads();
    if (t < 16) {
        atomicAdd(&work[t], s[t]);
    }
    __syncthreads();
    if (t == 0) {
        __threadfence();
        last = atomicAdd(&work[16], 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && t < 16) {
        out[t] = work[t];
    }
}
