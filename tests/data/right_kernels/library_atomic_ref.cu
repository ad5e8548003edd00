// twin: target=sm_80 grid=4 block=64 out=64 work=300
// The last block by a cuda::atomic_ref that releases and acquires.
#include <cuda/atomic>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(work[0]);
    __shared__ bool last;
    const unsigned t = threadIdx.x;
    work[4 + blockIdx.x * 64 + t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t == 0) {
        last = count.fetch_add(1, cuda::memory_order_acq_rel) == 3;
    }
    __syncthreads();
    if (last) {
        unsigned sum = 0;
        for (unsigned b = 0; b < 4; ++b) {
            sum += work[4 + b * 64 + 63 - t];
        }
        out[t] = sum;
    }
}
