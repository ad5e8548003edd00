// twin: target=sm_80 grid=6 block=32 out=7 work=8
// A lock taken by compare-and-swap that acquires, given back by a store that releases.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    if (threadIdx.x != 0) {
        return;
    }
    unsigned old = 1;
    while (old) {
        asm volatile("atom.cas.acquire.gpu.global.b32 %0, [%1], 0, 1;"
                     : "=r"(old)
                     : "l"(work)
                     : "memory");
    }
    work[1] += in[blockIdx.x];
    work[2] += 1;
    out[blockIdx.x] = in[blockIdx.x];
    if (work[2] == gridDim.x) {
        out[6] = work[1];
    }
    asm volatile("st.release.gpu.global.b32 [%0], 0;" : : "l"(work) : "memory");
}
