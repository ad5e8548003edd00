// twin: target=sm_80 grid=4 block=64 out=2 work=4
// Sums of floats by atomics, exact in any order.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    atomicAdd((float *)&work[0], (float)(in[blockIdx.x * 64 + t] % 64));
    __syncthreads();
    if (t == 0) {
        __threadfence();
        if (atomicAdd(&work[1], 1u) == gridDim.x - 1) {
            __threadfence();
            out[0] = work[0];
            out[1] = 3;
        }
    }
}
