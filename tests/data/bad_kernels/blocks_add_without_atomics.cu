// twin: target=sm_80 grid=8 block=32 out=1 work=2
// wants: RACE|UNWRITTEN
// Blocks that add to one word without atomics. The last one by a counter reads it.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ unsigned last;
    const unsigned t = threadIdx.x;
    const unsigned sum = __reduce_add_sync(~0u, in[blockIdx.x * 32 + t]);
    if (t == 0) {
#if BAD
        out[0] = blockIdx.x ? out[0] + sum : sum; // (1) (2)
#else
        atomicAdd(&work[0], sum);
        __threadfence();
        last = atomicInc(&work[1], 7) == 7;
        __threadfence();
        if (last) {
            out[0] = work[0];
        }
#endif
    }
}
