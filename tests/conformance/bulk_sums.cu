// case: target=90 block=128 out=1024
// Sums of runs of bytes from shared into global memory, in every type that needs no order; the
// second of two groups may be waited for alone.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
#include <gk/types.cuh>
using namespace gk;
#define ADD(TYPE, TO, FROM)                                                                        \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add" TYPE " [%0], [%1], 512;" \
                 :                                                                                 \
                 : "l"(out + (TO)), "r"(ptx::shared_address(s + (FROM)))                           \
                 : "memory")
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(128) u32 s[512];
    const u32 t = threadIdx.x;
    s[t] = in[t];
    s[128 + t] = pack_pair<bf16>((float)(in[t] % 16), (float)(in[t] / 16 % 16) - 8.0f);
    s[256 + t] = pack_pair<f16>((float)(in[t] % 99), (float)(in[t] / 128 % 99) - 8.0f);
    s[384 + t] = __float_as_uint((float)(in[t] % 999));
    fence_async_shared();
    __syncthreads();
    if (t < 2) { // two threads, the same sums
        ADD(".u32", 0, 0);
        ADD(".s32", 128, 0);
        ADD(".u64", 256, 0);
        commit_stores();
        ADD(".noftz.bf16", 384, 128);
        ADD(".noftz.f16", 512, 256);
        ADD(".f32", 640, 384);
        commit_stores();
        wait_for_store_reads<1>();
        wait_for_stores<0>();
    }
}
