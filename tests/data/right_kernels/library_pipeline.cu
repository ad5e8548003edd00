// twin: target=sm_80 grid=1 block=64 out=64
// cuda::pipeline over two buffers.
#include <cuda/pipeline>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[2][64];
    auto pipe = cuda::make_pipeline();
    const unsigned t = threadIdx.x;
    unsigned sum = 0;
    pipe.producer_acquire();
    cuda::memcpy_async(&s[0][t], &in[t], sizeof(unsigned), pipe);
    pipe.producer_commit();
    for (unsigned tile = 0; tile < 4; ++tile) {
        pipe.producer_acquire();
        cuda::memcpy_async(&s[(tile + 1) % 2][t], &in[(tile + 1) * 64 + t], sizeof(unsigned), pipe);
        pipe.producer_commit();
        cuda::pipeline_consumer_wait_prior<1>(pipe);
        __syncthreads();
        sum += s[tile % 2][63 - t];
        __syncthreads();
        pipe.consumer_release();
    }
    out[t] = sum;
}
