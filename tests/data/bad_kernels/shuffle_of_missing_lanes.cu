// twin: target=sm_80 grid=1 block=32 out=32
// wants: DIVERGENT|DEADLOCK
// A shuffle of all lanes inside a branch that some of them do not take.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned t = threadIdx.x;
    unsigned v = in[t];
    if (t < 20) {
#if BAD
        v += __shfl_xor_sync(~0u, v, 1);
#else
        v += __shfl_xor_sync(0xfffffu, v, 1);
#endif
    }
    __syncwarp();
    out[t] = v;
}
