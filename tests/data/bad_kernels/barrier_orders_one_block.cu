// twin: target=sm_80 grid=2 block=64 out=64 work=64
// wants: RACE|UNWRITTEN
// Blocks write halves of an array and read the other's after a barrier of their own.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x, b = blockIdx.x;
#if BAD
    if (t < 32) {
        work[b * 32 + t] = in[b * 32 + t]; // (1)
    }
    __syncthreads();
    if (t < 32) {
        out[b * 32 + t] = work[(1 - b) * 32 + t]; // (2)
    }
#else
    if (t < 32) {
        out[b * 32 + t] = in[(1 - b) * 32 + t];
    }
#endif
}
