// twin: target=sm_80 grid=6 block=32 out=32 work=200
// The counter itself releases and acquires.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    unsigned before = 0;
    work[1 + blockIdx.x * 32 + t] = in[blockIdx.x * 32 + t];
    __syncwarp();
    if (t == 0) {
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
                     : "=r"(before)
                     : "l"(work)
                     : "memory");
    }
    before = __shfl_sync(~0u, before, 0);
    __syncwarp();
    if (before == gridDim.x - 1) {
        unsigned sum = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) {
            sum += work[1 + b * 32 + (31 - t)];
        }
        out[t] = sum;
    }
}
