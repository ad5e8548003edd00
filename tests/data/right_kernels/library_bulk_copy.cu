// twin: target=sm_90a grid=1 block=128 out=256
// A bulk copy that counts on a cuda::barrier.
#include <cuda/barrier>
namespace device = cuda::device;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    using Bar = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(128) unsigned s[256];
    __shared__ Bar bar;
    if (threadIdx.x == 0) {
        init(&bar, 128);
        device::experimental::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    Bar::arrival_token token;
    if (threadIdx.x == 0) {
        device::experimental::cp_async_bulk_global_to_shared(s, in, sizeof(s), bar);
        token = device::barrier_arrive_tx(bar, 1, sizeof(s));
    } else {
        token = bar.arrive();
    }
    bar.wait(static_cast<Bar::arrival_token &&>(token));
    out[threadIdx.x] = s[threadIdx.x];
    out[128 + threadIdx.x] = s[255 - threadIdx.x];
}
