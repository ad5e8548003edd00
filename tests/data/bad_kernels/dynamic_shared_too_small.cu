// twin: target=sm_80 grid=1 block=64 out=64 smem=256
// wants: OUT_OF_BOUNDS
// The launch gives less shared memory than the kernel uses.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    extern __shared__ unsigned s[];
    const unsigned t = threadIdx.x, at = BAD ? t * 2 : t;
    s[at] = in[t];
    __syncthreads();
    out[t] = s[at];
}
