// twin: target=sm_80 grid=1 block=128 out=128
// wants: OUT_OF_BOUNDS
// A wide read at the end of the input that its last element does not need.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned t = threadIdx.x, at = 4096 - 128 * 2 + t * 2;
    const unsigned *from = in + at + (BAD ? 2 : 0);
    const uint2 v = *reinterpret_cast<const uint2 *>(from);
    out[t] = v.x ^ v.y;
}
