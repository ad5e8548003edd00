// twin: target=sm_80 grid=1 block=128 out=128
// Threads of several warps set one flag to the same value, as searches do.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned found;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        found = 0;
    }
    __syncthreads();
    if (in[t] % 5 == 0) {
        *(volatile unsigned *)&found = 1;
    }
    __syncthreads();
    out[t] = found;
}
