// twin: target=sm_80 grid=1 block=128 out=128
// wants: RACE|UNWRITTEN|DEADLOCK
// Two pairs of warps that should have a barrier each use the same one.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[128];
    const unsigned t = threadIdx.x, pair = t / 32 % 2;
    s[t] = in[t];
    asm volatile("bar.sync %0, 64;" : : "r"(BAD ? 1 : 1 + pair) : "memory");
    out[t] = s[t ^ 64];
}
