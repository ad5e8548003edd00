// twin: target=sm_80 grid=1 block=32 out=64
// The halves of a warp go separate ways, each with masks of its own, and meet again.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[32];
    const unsigned t = threadIdx.x;
    if (t < 16) {
        s[t] = in[t];
        __syncwarp(0xffffu);
        out[t] = s[15 - t] + __shfl_xor_sync(0xffffu, s[t], 3);
    } else {
        s[t] = in[t] * 2;
        __syncwarp(0xffff0000u);
        out[t] = s[47 - t] + __reduce_max_sync(0xffff0000u, s[t]);
    }
    __syncwarp();
    out[32 + t] = s[31 - t];
}
