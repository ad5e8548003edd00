// twin: target=sm_80 grid=1 block=64 out=64
// wants: WRONG
// K: a sum over one element too many takes the next row's first.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned depth = 13, t = threadIdx.x;
    unsigned sum = 0;
    for (unsigned i = 0; BAD ? i <= depth : i < depth; ++i) {
        sum += in[t * depth + i] & 1023;
    }
    out[t] = sum;
}
