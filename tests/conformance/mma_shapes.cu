// case: target=90 block=32 out=1536
// mma of all other types and shapes on small integers: tf32, f16 sums, bytes, e4m3, e5m2, fp64.
#include <gk/types.cuh>
using namespace gk;
#define MMA_F32(SHAPE, A, B, ...)                                                                  \
    asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, " A ", " B ", {%0, %1, %2, %3};"             \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : __VA_ARGS__)
#define MMA_S32(SHAPE, A, B, ...)                                                                  \
    asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, " A ", " B ", {%0, %1, %2, %3};"             \
        : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3])                                           \
        : __VA_ARGS__)
#define A4 "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
__device__ float small(u32 bits)
{
    return (float)(bits % 9) - 4.0f;
}
__device__ u32 bytes(u32 bits)
{
    return ptx::cvt_e4m3x2(small(bits), small(bits / 9)) |
           (u32)ptx::cvt_e4m3x2(small(bits / 81), small(bits / 729)) << 16;
}
__device__ void start(float (&d)[4], u32 t)
{
    d[0] = 1.0f, d[1] = 2.0f, d[2] = 3.0f, d[3] = (float)t;
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const u32 t = threadIdx.x;
    u32 *o = out + t, x[6], a[4], b[2];
    float d[4];
    for (u32 i = 0; i < 6; ++i) {
        x[i] = in[i * 32 + t];
    }
#define SHOW(PLACE)                                                                                \
    for (u32 j = 0; j < 4; ++j)                                                                    \
    o[(PLACE)*128 + j * 32] = __float_as_uint(d[j])
#define FILL(MAKE)                                                                                 \
    for (u32 j = 0; j < 4; ++j)                                                                    \
        a[j] = MAKE(x[j]);                                                                         \
    b[0] = MAKE(x[4]), b[1] = MAKE(x[5]);                                                          \
    start(d, t)
#define TF32(X)   __float_as_uint(small(X) * 0.125f)
#define HALF(X)   pack_pair<f16>(small(X), small((X) / 9))
#define BFLOAT(X) pack_pair<bf16>(small(X), small((X) / 9))
    FILL(TF32);
    MMA_F32("m16n8k8.row.col.f32.tf32.tf32.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
            "r"(b[1]));
    SHOW(0);
    FILL(TF32);
    MMA_F32("m16n8k4.row.col.f32.tf32.tf32.f32", "{%4, %5}", "{%6}", "r"(a[0]), "r"(a[1]),
            "r"(b[0]));
    SHOW(1);
    FILL(HALF);
    MMA_F32("m16n8k8.row.col.f32.f16.f16.f32", "{%4, %5}", "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
    SHOW(2);
    FILL(BFLOAT);
    MMA_F32("m16n8k8.row.col.f32.bf16.bf16.f32", "{%4, %5}", "{%6}", "r"(a[0]), "r"(a[1]),
            "r"(b[0]));
    SHOW(3);
    FILL(bytes);
    MMA_F32("m16n8k32.row.col.f32.e4m3.e4m3.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
            "r"(b[1]));
    MMA_F32("m16n8k32.row.col.f32.e5m2.e4m3.f32", "{%4, %5, %6, %7}", "{%8, %9}", "r"(0x3c003c00),
            "r"(0xbc44), "r"(0x40), "r"(0x3c3c), "r"(b[0]), "r"(b[1]));
    SHOW(4);
    u32 h[2] = {HALF(x[2]), HALF(x[3])};
    FILL(HALF);
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
        "{%0, %1};"
        : "+r"(h[0]), "+r"(h[1])
        : A4, "r"(b[0]), "r"(b[1]));
    o[640] = h[0], o[672] = h[1];
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
        : "+r"(h[0]), "+r"(h[1])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    o[704] = h[0], o[736] = h[1];
    i32 i[4] = {1, 2, 3, (i32)t};
    MMA_S32("m16n8k32.row.col.s32.s8.u8.s32", "{%4, %5, %6, %7}", "{%8, %9}", "r"(x[0]), "r"(x[1]),
            "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]));
    for (u32 j = 0; j < 4; ++j) {
        o[768 + j * 32] = (u32)i[j];
    }
    i[3] = 0x7ffffff0;
    MMA_S32("m16n8k16.row.col.satfinite.s32.u8.s8.s32", "{%4, %5}", "{%6}", "r"(x[0]), "r"(x[1]),
            "r"(x[4]));
    for (u32 j = 0; j < 4; ++j) {
        o[896 + j * 32] = (u32)i[j];
    }
    double sums[2] = {0.5, (double)t};
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sums[0]), "+d"(sums[1])
        : "d"((double)small(x[0]) * 0.25), "d"((double)small(x[4])));
    o[1024] = (u32)__double2hiint(sums[0]) ^ (u32)__double2loint(sums[0]) * 3;
    o[1056] = (u32)__double2hiint(sums[1]) ^ (u32)__double2loint(sums[1]) * 3;
    u32 moved;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(moved) : "r"(x[0]));
    o[1088] = moved;
}
