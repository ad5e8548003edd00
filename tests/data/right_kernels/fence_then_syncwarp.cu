// twin: target=sm_80 grid=2 block=32 out=32 work=40
// Each lane has its own fence, the warp meets, and lane 0 raises the flag: the fences are those of
// the memory model (fence.sc), so what came before them is seen behind the fence of who saw the
// flag.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        work[t] = in[t];
        __threadfence();
        __syncwarp();
        if (t == 0) {
            atomicExch(&work[32], 1u);
        }
    } else {
        while (atomicAdd(&work[32], 0u) == 0) {
        }
        __threadfence();
        out[t] = work[t ^ 1];
    }
}
