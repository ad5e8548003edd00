// Kernels of gpu_device.c: a few that work, and one for each way to go wrong.

extern "C" __global__ void add1(unsigned char *bytes, unsigned count)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += gridDim.x * blockDim.x) {
        bytes[i]++;
    }
}

extern "C" __global__ void outside(unsigned char *bytes, unsigned count)
{
    bytes[1ull << 40] = (unsigned char)count;
}

extern "C" __global__ void look(const unsigned char *bytes, unsigned char *out)
{
    *out = *bytes;
}

extern "C" __global__ void misaligned(unsigned char *bytes, unsigned count)
{
    *(volatile unsigned *)(bytes + 1) = count;
}

extern "C" __global__ void trapped(unsigned char *bytes, unsigned count)
{
    if (bytes[0] != 255 || count == 0) {
        __trap();
    }
}

extern "C" __global__ void endless(unsigned char *bytes, unsigned count)
{
    while (*(volatile unsigned char *)bytes != (unsigned char)(count + 1)) {
    }
}

// Dynamic shared memory beyond what needs no permission.
extern "C" __global__ void shared_sum(unsigned *out, unsigned words)
{
    extern __shared__ unsigned store[];
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
        store[i] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned i = 0; i < words; i++) {
            sum += store[i];
        }
        *out = sum;
    }
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void cluster_size(unsigned *out)
{
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
    if (threadIdx.x == 0) {
        out[blockIdx.x] = size;
    }
}

struct alignas(64) TensorMap {
    unsigned char bytes[128];
};

// One box of 64 x 8 two-byte elements at (x, y).
extern "C" __global__ void tensor_load(const __grid_constant__ TensorMap map, unsigned short *out,
                                       int x, int y)
{
    __shared__ alignas(128) unsigned short tile[64 * 8];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned barrier_at = (unsigned)__cvta_generic_to_shared(&barrier);
    unsigned tile_at = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
                     "r"((unsigned)sizeof tile)
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {%2, %3}], [%4];" ::"r"(tile_at),
                     "l"(&map), "r"(x), "r"(y), "r"(barrier_at)
                     : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier_at)
                     : "memory");
    }
    for (unsigned i = threadIdx.x; i < 64 * 8; i += blockDim.x) {
        out[i] = tile[i];
    }
}
#endif
