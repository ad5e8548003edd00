// twin: target=sm_80 grid=2 block=64 out=48
// Threads, and blocks, that write neighbouring bytes and halves of the same words.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[16];
    const unsigned t = threadIdx.x, b = blockIdx.x;
    reinterpret_cast<unsigned char *>(s)[t ^ 3] = (unsigned char)in[t];
    __syncthreads();
    reinterpret_cast<unsigned char *>(out)[t * 2 + b] = (unsigned char)(s[t / 4] >> t % 4 * 8);
    if (t < 16) {
        reinterpret_cast<unsigned short *>(out + 32)[t * 2 + b] = (unsigned short)(in[t] + b);
    }
}
