// twin: target=sm_90a grid=1 block=64 out=256
// map: in bf16 dims=64,64 box=64,8 swizzle=128
// wants: WRONG
// A tile that TMA swizzled is read as if it lay in rows.
#include <gk/cluster.cuh>
#include <gk/hopper.cuh>
#include <gk/tma.cuh>
using namespace gk;
#include <gk/swizzle.cuh>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *,
                             const __grid_constant__ TensorMap map)
{
    __shared__ __align__(1024) u8 s[1024];
    __shared__ Barrier full;
    const u32 t = threadIdx.x, row = t / 8, chunk = t % 8;
    if (t == 0) {
        full.init(1);
        fence_barrier_init();
        const i32 at[2] = {0, 8};
        full.arrive_expect_bytes(1024);
        tma_load(ptx::shared_address(s), map, at, full);
    }
    __syncthreads();
    full.wait(0);
    const u32 offset = BAD ? row * 128 + chunk * 16 : SwizzledTile<8, 64>::offset(row, chunk);
    const uint4 v = ptx::ld_shared_v4(ptx::shared_address(s) + offset);
    out[t * 4] = v.x;
    out[t * 4 + 1] = v.y;
    out[t * 4 + 2] = v.z;
    out[t * 4 + 3] = v.w;
}
