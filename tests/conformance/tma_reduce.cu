// case: target=90 block=128 out=2048
// map: out u32 dims=40,12 box=32,8
// map: out u32 dims=40,12 box=32,8 swizzle=128 offset=4096
// Reductions of boxes other than sums.
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
#define REDUCE(OP, MAP, X, Y)                                                                      \
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." OP ".tile.bulk_group "       \
                 "[%0, {%1, %2}], [%3];"                                                           \
                 :                                                                                 \
                 : "l"(&MAP), "r"(X), "r"(Y), "r"(ptx::shared_address(s))                          \
                 : "memory")
extern "C" __global__ void k(const unsigned *in, unsigned *out,
                             const __grid_constant__ TensorMap plain,
                             const __grid_constant__ TensorMap swizzled)
{
    __shared__ __align__(1024) u32 s[256];
    const u32 t = threadIdx.x;
    s[t] = in[t];
    s[128 + t] = in[128 + t];
    fence_async_shared();
    __syncthreads();
    if (t == 0) {
        REDUCE("max", plain, 0, 0);
        REDUCE("max", plain, 8, 4);
        REDUCE("or", swizzled, 0, 0);
        commit_stores();
        wait_for_stores<0>();
        REDUCE("xor", swizzled, 16, 6);
        commit_stores();
        wait_for_stores<0>();
    }
}
