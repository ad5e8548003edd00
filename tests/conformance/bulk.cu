// case: target=90 block=128 out=1024
// mbarrier phases, bulk load, store and sum of a run of bytes.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(128) u32 s[512];
    __shared__ Barrier full;
    const u32 t = threadIdx.x;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
    }
    __syncthreads();
    for (u32 lap = 0; lap < 2; ++lap) {
        if (t == 0) {
            full.arrive_expect_bytes(2048);
            bulk_load(ptx::shared_address(s), in + lap * 512, 1024, full);
            bulk_load(ptx::shared_address(s + 256), in + 2048 + lap * 512, 1024, full);
        }
        full.wait(lap);
        for (u32 i = 0; i < 4; ++i) {
            s[i * 128 + t] = s[i * 128 + t] % 1000 + lap;
        }
        fence_async_shared();
        __syncthreads();
        if (t == 0) {
            bulk_store(out + lap * 512, ptx::shared_address(s), 2048);
            commit_stores();
            wait_for_stores<0>();
        }
        __syncthreads();
    }
    if (t == 0) {
        for (u32 i = 0; i < 64; ++i) {
            s[i] = __float_as_uint((float)(in[i] % 100));
        }
        fence_async();
        bulk_reduce_add_f32((float *)(out + 512), ptx::shared_address(s), 256);
        commit_stores();
        wait_for_stores<0>();
    }
}
