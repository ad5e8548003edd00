// twin: target=sm_80 grid=1 block=32 out=32 big=4096
// wants: UNWRITTEN
// Sums into a workspace that nobody cleared.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
#if !BAD
    work[t] = 0;
#endif
    for (unsigned i = 0; i < 4; ++i) {
        work[t] += in[i * 32 + t];
    }
    out[t] = work[t];
}
