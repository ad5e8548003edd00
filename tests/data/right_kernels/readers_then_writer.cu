// twin: target=sm_80 grid=6 block=32 out=192 work=8 launches=2
// All blocks read a word, count, and the last one writes it for the next launch.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    const unsigned seen = work[1];
    out[blockIdx.x * 32 + t] = in[t] + seen;
    __syncwarp();
    if (t == 0) {
        __threadfence();
        if (atomicAdd(&work[0], 1u) == gridDim.x - 1) {
            __threadfence();
            work[1] = seen + 1;
            work[0] = 0;
        }
    }
}
