// twin: target=sm_80 grid=1 block=32 out=32
// wants: RACE
// __syncwarp with the mask of a half orders that half alone.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[32];
    const unsigned t = threadIdx.x;
    s[t] = in[t]; // (1)
#if BAD
    __syncwarp(t < 16 ? 0xffffu : 0xffff0000u);
#else
    __syncwarp();
#endif
    out[t] = s[31 - t]; // (2)
}
