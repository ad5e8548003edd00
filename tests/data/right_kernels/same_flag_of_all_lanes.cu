// twin: target=sm_80 grid=1 block=32 out=33
// All lanes of a warp store the same value to one word in one instruction.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned found;
    const unsigned t = threadIdx.x;
    found = 0;
    __syncwarp();
    if (in[t] % 2) {
        found = 1;
    }
    __syncwarp();
    out[t] = found + in[t];
    out[32] = 7;
}
