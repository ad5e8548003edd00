// twin: target=sm_80 grid=1 block=64 out=64
// wants: RACE
// Lanes of a warp that exchange through shared memory: they run one by one for all that is
// promised.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    const unsigned t = threadIdx.x;
    s[t] = in[t] * 3; // (1)
#if !BAD
    __syncwarp();
#endif
    out[t] = s[t ^ 1]; // (2)
}
