// twin: target=sm_80 grid=1 block=64 out=192
// The same shared memory as bytes, words and wide words in turn, a barrier between.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ __align__(16) unsigned s[64];
    const unsigned t = threadIdx.x;
    reinterpret_cast<unsigned short *>(s)[t] = (unsigned short)in[t];
    __syncthreads();
    out[t] = s[t / 2];
    __syncthreads();
    s[t] = in[64 + t];
    __syncthreads();
    const uint4 v = reinterpret_cast<const uint4 *>(s)[t % 16];
    out[64 + t] = v.x ^ v.y ^ v.z ^ v.w;
    __syncthreads();
    if (t < 16) {
        reinterpret_cast<uint4 *>(s)[15 - t] = make_uint4(t, t + 1, t + 2, in[t]);
    }
    __syncthreads();
    out[128 + t] = s[t];
}
