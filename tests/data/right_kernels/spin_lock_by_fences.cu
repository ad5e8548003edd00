// twin: target=sm_80 grid=4 block=64 out=3 work=8
// The same with relaxed atomics and __threadfence, by one thread for its block.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    if (t == 0) {
        while (atomicCAS(&work[0], 0u, 1u) != 0) {
        }
        __threadfence();
    }
    __syncthreads();
    if (t < 3) {
        work[1 + t] += in[blockIdx.x * 64 + t];
    }
    __syncthreads();
    if (t == 0) {
        work[4] += 1;
        if (work[4] == gridDim.x) {
            for (unsigned i = 0; i < 3; ++i) {
                out[i] = work[1 + i];
            }
        }
        __threadfence();
        atomicExch(&work[0], 0u);
    }
}
