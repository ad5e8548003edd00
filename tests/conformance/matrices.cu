// case: target=80 block=32 out=512
// ldmatrix in all sizes, transposed and not.
#include <gk/ptx.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) u32 s[128];
    const u32 t = threadIdx.x;
    for (u32 i = 0; i < 4; ++i) {
        s[i * 32 + t] = in[i * 32 + t];
    }
    __syncwarp();
    const u32 at = ptx::shared_address(&s[4 * (t ^ 5)]);
    u32 r[4];
    ptx::ldmatrix_x4(at, r[0], r[1], r[2], r[3]);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 32 + t] = r[i];
    }
    ptx::ldmatrix_x4_trans(at, r[0], r[1], r[2], r[3]);
    for (u32 i = 0; i < 4; ++i) {
        out[128 + i * 32 + t] = r[i];
    }
    ptx::ldmatrix_x2(at, r[0], r[1]);
    ptx::ldmatrix_x1_trans(at, r[2]);
    out[256 + t] = r[0];
    out[288 + t] = r[1];
    out[320 + t] = r[2];
}
