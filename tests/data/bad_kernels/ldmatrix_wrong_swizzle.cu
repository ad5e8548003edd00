// twin: target=sm_80 grid=1 block=32 out=128
// wants: WRONG
// A tile stored in swizzled chunks and read as if its rows were permuted by another rule.
#include <gk/ptx.cuh>
#include <gk/swizzle.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    using Tile = SwizzledTile<16, 64>;
    __shared__ __align__(128) u32 s[512];
    const u32 t = threadIdx.x, at = ptx::shared_address(s);
    for (u32 i = t; i < 128; i += 32) {
        const uint4 v = reinterpret_cast<const uint4 *>(in)[i];
        ptx::st_shared_v2(at + Tile::offset(i / 8, i % 8), v.x, v.y);
        ptx::st_shared_v2(at + Tile::offset(i / 8, i % 8) + 8, v.z, v.w);
    }
    __syncwarp();
    u32 r[4];
    const u32 row = t % 16, chunk = 2 + t / 16;
    const u32 offset = BAD ? row * 128 + (chunk ^ row % 4) * 16 : Tile::offset(row, chunk);
    ptx::ldmatrix_x4(at + offset, r[0], r[1], r[2], r[3]);
    for (u32 i = 0; i < 4; ++i) {
        out[i * 32 + t] = r[i];
    }
}
