// twin: target=sm_80 grid=1 block=64 out=64 work=64
// wants: RACE|BAD_OPERAND
// A load through the read-only path of what this launch wrote: no fence reaches that path.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x;
    unsigned v;
    work[t] = in[t];
    __syncthreads();
#if BAD
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(work + (t ^ 1)) : "memory");
#else
    v = work[t ^ 1];
#endif
    out[t] = v;
}
