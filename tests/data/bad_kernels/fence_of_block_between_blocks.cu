// twin: target=sm_80 grid=2 block=1 out=1 work=2
// wants: RACE
// A message between blocks behind a fence that reaches this block alone.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    if (blockIdx.x == 0) {
        work[1] = in[0]; // (1)
#if BAD
        __threadfence_block();
#else
        __threadfence();
#endif
        atomicExch(work, 1u);
    } else {
        while (atomicAdd(work, 0u) == 0) {
        }
        __threadfence();
        out[0] = work[1]; // (2)
    }
}
