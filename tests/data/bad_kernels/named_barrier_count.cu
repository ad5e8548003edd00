// twin: target=sm_80 grid=1 block=128 out=128
// wants: DEADLOCK|BAD_OPERAND
// A named barrier that counts one warp more than ever comes.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    const unsigned t = threadIdx.x;
    if (t < 64) {
        s[t] = in[t];
        asm volatile("bar.sync 1, %0;" : : "r"(BAD ? 96 : 64) : "memory");
        out[t] = s[63 - t];
    } else {
        out[t] = in[t];
    }
}
