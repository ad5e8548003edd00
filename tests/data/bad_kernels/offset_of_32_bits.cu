// twin: target=sm_80 grid=1 block=32 out=32 big=4831838208
// wants: UNWRITTEN
// A byte offset past 2^32 in 32 bits: the row lands where another one belongs.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x, row = 70000 + t, pitch = 16 << 10;
#if BAD
    const unsigned offset = row * pitch * 4;
#else
    const unsigned long long offset = (unsigned long long)row * pitch * 4;
#endif
    *reinterpret_cast<unsigned *>(reinterpret_cast<char *>(work) + offset) = in[t];
    out[t] = work[(unsigned long long)row * pitch];
}
