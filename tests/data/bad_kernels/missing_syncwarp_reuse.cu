// twin: target=sm_80 grid=1 block=32 out=64
// wants: RACE
// The second use of a warp's scratch: it is written while a slower lane still reads.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[32];
    const unsigned t = threadIdx.x;
    for (unsigned lap = 0; lap < 2; ++lap) {
        s[t] = in[lap * 32 + t]; // (1)
        __syncwarp();
        out[lap * 32 + t] = s[31 - t]; // (2)
#if !BAD
        __syncwarp();
#endif
    }
}
