// twin: target=sm_80 grid=1 block=64 out=1
// wants: RACE
// One warp adds by atomics, another stores plainly to the same word.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned sum;
    const unsigned t = threadIdx.x;
    if (t == 0) {
        sum = 0;
    }
    __syncthreads();
    if (t >= 32) {
        atomicAdd(&sum, in[t]); // (1)
    } else if (BAD && t == 0) {
        sum = 5; // (2)
    }
    __syncthreads();
    if (t == 0) {
        out[0] = sum;
    }
}
