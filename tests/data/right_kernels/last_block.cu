// twin: target=sm_80 grid=12 block=64 out=2 work=16 launches=3
// Sums of blocks, added by the block that comes last; the counter is left as it was found.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ unsigned sum, last;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        sum = 0;
    }
    __syncthreads();
    atomicAdd(&sum, in[blockIdx.x * 64 + t]);
    __syncthreads();
    if (t == 0) {
        work[1 + blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(&work[0], gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last) {
        if (t == 0) {
            sum = 0;
            out[1] = 12;
        }
        __syncthreads();
        if (t < 12) {
            atomicAdd(&sum, work[1 + t]);
        }
        __syncthreads();
        if (t == 0) {
            out[0] = sum;
        }
    }
}
