// twin: target=sm_80 grid=40 block=64 out=160 work=1
// More blocks than fit: pieces of work are drawn from a counter until none is left.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ unsigned piece;
    const unsigned t = threadIdx.x;
    for (;;) {
        if (t == 0) {
            piece = atomicAdd(work, 1u);
        }
        __syncthreads();
        const unsigned mine = piece;
        __syncthreads();
        if (mine >= 160) {
            return;
        }
        const unsigned sum = __reduce_add_sync(~0u, in[(mine * 7 + t) % 4096]);
        if (t == 32) {
            out[mine] = sum;
        }
    }
}
