// twin: target=sm_80 grid=64 block=1024 out=64 work=2
// wants: DEADLOCK|WORK_LIMIT somewhere
// Blocks wait for one that only starts when they have ended.
extern "C" __global__ void __launch_bounds__(1024)
    k(const unsigned *in, unsigned *out, unsigned *work)
{
    if (threadIdx.x == 0) {
        if (blockIdx.x == gridDim.x - 1) {
            atomicExch(work, 1u);
        }
        while (BAD && atomicAdd(work, 0u) == 0) {
        }
        out[blockIdx.x] = in[blockIdx.x];
    }
}
