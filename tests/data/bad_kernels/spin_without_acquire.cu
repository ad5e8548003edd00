// twin: target=sm_80 grid=2 block=32 out=32 work=40
// wants: RACE
// A flag between blocks that orders nothing: the reader has no fence behind it.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        work[t] = in[t]; // (1)
        __syncwarp();
        if (t == 0) {
            __threadfence();
            atomicExch(&work[32], 1u);
        }
    } else {
        while (atomicAdd(&work[32], 0u) == 0) {
        }
#if !BAD
        __threadfence();
#endif
        out[t] = work[t ^ 1]; // (2)
    }
}
