// twin: target=sm_80 grid=6 block=64 out=384 work=400
// A barrier of the whole grid by a counter, as cooperative groups have it; all blocks are resident.
__device__ void grid_sync(unsigned *count, unsigned target)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(count, 1u);
        while (*(volatile unsigned *)count < target) {
        }
        __threadfence();
    }
    __syncthreads();
}
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x, me = blockIdx.x * 64 + t;
    unsigned *data = work + 1;
    data[me] = in[me];
    grid_sync(work, 6);
    const unsigned x = data[383 - me];
    grid_sync(work, 12);
    data[me] = x * 3;
    grid_sync(work, 18);
    out[me] = data[(me + 100) % 384];
}
