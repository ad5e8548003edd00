// case: target=90 block=32 out=384
// stmatrix, transposed and not.
#include <gk/hopper.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 s[384];
    const u32 t = threadIdx.x;
    for (u32 i = 0; i < 12; ++i) {
        s[i * 32 + t] = 0;
    }
    __syncwarp();
    stmatrix_x4(ptx::shared_address(&s[4 * (t ^ 9)]), in[t], in[t + 32], in[t + 64], in[t + 96]);
    stmatrix_x4_trans(ptx::shared_address(&s[128 + 4 * t]), in[t], in[t + 32], in[t + 64],
                      in[t + 96]);
    stmatrix_x2(ptx::shared_address(&s[256 + 4 * (t & 15)]), in[t], in[t + 32]);
    __syncwarp();
    for (u32 i = 0; i < 12; ++i) {
        out[i * 32 + t] = s[i * 32 + t];
    }
}
