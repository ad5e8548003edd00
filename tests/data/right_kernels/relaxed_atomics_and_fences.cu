// twin: target=sm_80 grid=4 block=32 out=128 work=140
// Each lane fences, the warp meets, one lane counts; readers spin and fence.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x, me = blockIdx.x * 32 + t;
    work[me] = in[me];
    __threadfence();
    __syncwarp();
    if (t == 0) {
        atomicAdd(&work[128], 1u);
    }
    while (atomicAdd(&work[128], 0u) < 4) {
    }
    __threadfence();
    out[me] = work[127 - me];
}
