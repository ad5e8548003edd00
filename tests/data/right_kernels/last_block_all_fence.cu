// twin: target=sm_80 grid=4 block=64 out=64 work=260
// As in many libraries: every thread has its own fence, then the barrier, then one counts.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    work[4 + blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t];
    __threadfence();
    __syncthreads();
    if (t == 0) {
        last = atomicAdd(&work[0], 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        unsigned sum = 0;
        __threadfence();
        for (unsigned i = 0; i < 4; ++i) {
            sum += work[4 + i * 64 + (t ^ 33)];
        }
        out[t] = sum;
        if (t == 0) {
            work[0] = 0;
        }
    }
}
