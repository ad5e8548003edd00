// twin: target=sm_80 grid=2 block=32 out=32 work=40
// st.release and ld.acquire of the GPU.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    if (blockIdx.x == 0) {
        work[t] = in[t] ^ 5;
        __syncwarp();
        if (t == 0) {
            asm volatile("st.release.gpu.global.b32 [%0], 1;" : : "l"(work + 32) : "memory");
        }
    } else {
        unsigned seen = 0;
        while (!seen) {
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(work + 32)
                         : "memory");
        }
        out[t] = work[31 - t];
    }
}
