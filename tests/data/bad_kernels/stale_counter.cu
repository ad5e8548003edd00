// twin: target=sm_80 grid=4 block=32 out=5 work=8 launches=2
// wants: WRONG
// The last block leaves the counter as it is: the next launch never has a last block.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    if (t != 0) {
        return;
    }
    work[1 + blockIdx.x] = in[blockIdx.x] + work[7];
    __threadfence();
    if (atomicAdd(&work[0], 1u) == gridDim.x - 1) {
        __threadfence();
        for (unsigned i = 0; i < 4; ++i) {
            out[i] = work[1 + i];
        }
        work[7] += 1; // launches that came this far
        out[4] = work[7];
#if !BAD
        work[0] = 0;
#endif
    }
}
