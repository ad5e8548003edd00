// twin: target=sm_80 grid=2 block=32 out=32 work=40
// A flag between blocks: volatile accesses and __threadfence, as before there were scopes.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    volatile unsigned *flag = work + 32;
    const unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        work[t] = in[t];
        __syncwarp();
        if (t == 0) {
            __threadfence();
            *flag = 1;
        }
    } else {
        if (t == 0) {
            while (*flag == 0) {
            }
            __threadfence();
        }
        __syncwarp();
        out[t] = work[31 - t];
    }
}
