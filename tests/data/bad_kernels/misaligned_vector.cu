// twin: target=sm_80 grid=1 block=32 out=32
// wants: MISALIGNED
// 16 bytes from an odd element.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    const unsigned t = threadIdx.x;
    const uint4 v = *reinterpret_cast<const uint4 *>(in + t * 4 + (BAD ? 1 : 4));
    out[t] = v.x ^ v.w;
}
