// twin: target=sm_80 grid=2 block=64 out=100
// Threads past the end leave; whole warps go on with barriers of their own.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    const unsigned t = threadIdx.x, me = blockIdx.x * 64 + t;
    s[t] = me < 100 ? in[me] : 0;
    __syncthreads();
    if (me >= 100) {
        return;
    }
    out[me] = s[t] + s[t ^ 1];
}
