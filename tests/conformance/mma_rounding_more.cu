// case: target=90 block=32 out=1024
// mma on values of all magnitudes, of the other types and shapes, on sums that are not zero.
#include <gk/types.cuh>
using namespace gk;
#define MMA(SHAPE, A, B, ...)                                                                      \
    asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, " A ", " B ", {%0, %1, %2, %3};"             \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                           \
        : __VA_ARGS__)
#define A4 "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define MASK(AND, OR)                                                                              \
    for (u32 i = 0; i < 4; ++i) {                                                                  \
        a[i] = (in[i * 32 + t] & (AND)) | (OR);                                                    \
        d[i] = (float)(i32)in[512 + i * 32 + t] * 0x1p-37f;                                        \
    }                                                                                              \
    for (u32 i = 0; i < 2; ++i) {                                                                  \
        b[i] = (in[128 + i * 32 + t] & (AND)) | (OR);                                              \
    }
#define SHOW(PLACE)                                                                                \
    for (u32 i = 0; i < 4; ++i) {                                                                  \
        out[(PLACE)*128 + i * 32 + t] = __float_as_uint(d[i]);                                     \
    }
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const u32 t = threadIdx.x;
    u32 a[4], b[2];
    float d[4];
    MASK(0x87ff87ffu, 0x38003800u)
    MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
        "r"(b[1]));
    SHOW(0)
    MASK(0xbfffbfffu, 0)
    MMA("m16n8k16.row.col.f32.f16.f16.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
        "r"(b[1]));
    SHOW(1)
    MASK(0x87ff87ffu, 0x38003800u)
    MMA("m16n8k8.row.col.f32.bf16.bf16.f32", "{%4, %5}", "{%6}", "r"(a[0]), "r"(a[1]), "r"(b[0]));
    SHOW(2)
    MASK(0x87ffffffu, 0x38000000u)
    MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
        "r"(b[1]));
    SHOW(3)
    MASK(0xbfbfbfbfu, 0)
    MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
        "r"(b[1]));
    SHOW(4)
    MASK(0xbbbbbbbbu, 0)
    MMA("m16n8k32.row.col.f32.e5m2.e4m3.f32", "{%4, %5, %6, %7}", "{%8, %9}", A4, "r"(b[0]),
        "r"(b[1]));
    SHOW(5)
    MASK(0xbfffbfffu, 0)
    u32 h[2] = {in[700 + t] & 0xbfffbfffu, in[800 + t] & 0xbfffbfffu};
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
        "{%0, %1};"
        : "+r"(h[0]), "+r"(h[1])
        : A4, "r"(b[0]), "r"(b[1]));
    out[768 + t] = h[0];
    out[800 + t] = h[1];
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
        : "+r"(h[0]), "+r"(h[1])
        : "r"(a[2]), "r"(a[3]), "r"(b[1]));
    out[832 + t] = h[0];
    out[864 + t] = h[1];
    for (u32 i = 896 + t; i < 1024; i += 32) {
        out[i] = 0;
    }
}
