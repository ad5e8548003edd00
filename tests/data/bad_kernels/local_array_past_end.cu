// twin: target=sm_80 grid=1 block=32 out=32
// wants: OUT_OF_BOUNDS|UNWRITTEN
// An index past an array of the thread's own.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    unsigned local[16];
    const unsigned t = threadIdx.x;
    for (unsigned i = 0; i < 16; ++i) {
        local[(i + in[t]) % 16] = in[t + i];
    }
    out[t] = local[in[t + 1] % (BAD ? 40 : 16)];
}
