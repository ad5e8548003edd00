// twin: target=sm_80 grid=2 block=1 out=1 work=2
// wants: RACE
// A flag written by a plain store.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    volatile unsigned *flag = work;
    if (blockIdx.x == 0) {
        work[1] = in[0];
        __threadfence();
#if BAD
        work[0] = 1; // (1)
#else
        *flag = 1;
#endif
    } else {
        while (*flag == 0) { // (2)
        }
        __threadfence();
        out[0] = work[1];
    }
}
