// case: target=80 block=32 out=768
// The older warp-wide products: loads and stores of whole tiles, f16, bf16 and bytes.
#include <gk/types.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(32) u32 s[512];
    const u32 t = threadIdx.x;
    u32 a[8], b[8];
    float d[8];
    i32 i[8];
    for (u32 j = 0; j < 8; ++j) {
        const u32 x = in[j * 32 + t];
        s[j * 32 + t] = pack_pair<f16>((float)(x % 9) - 4.0f, (float)(x / 9 % 9) - 4.0f);
        s[256 + j * 32 + t] = pack_pair<bf16>((float)(x % 9) - 4.0f, (float)(x / 9 % 9) - 4.0f);
    }
    __syncwarp();
    const u32 at = ptx::shared_address(s);
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, "
                 "%7}, [%8], 16;"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]), "=r"(a[4]), "=r"(a[5]),
                   "=r"(a[6]), "=r"(a[7])
                 : "r"(at)
                 : "memory");
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, "
                 "%7}, [%8], 16;"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]), "=r"(b[4]), "=r"(b[5]),
                   "=r"(b[6]), "=r"(b[7])
                 : "r"(at + 512)
                 : "memory");
    for (u32 j = 0; j < 8; ++j) {
        d[j] = 0.5f;
    }
    asm volatile(
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
        "{%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
          "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1, %2, %3, %4, %5, "
                 "%6, %7, %8}, 16;"
                 :
                 : "l"(out), "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]),
                   "f"(d[6]), "f"(d[7])
                 : "memory");
    asm volatile("wmma.load.a.sync.aligned.col.m32n8k16.shared.bf16 {%0, %1, %2, %3, %4, %5, %6, "
                 "%7}, [%8], 32;"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]), "=r"(a[4]), "=r"(a[5]),
                   "=r"(a[6]), "=r"(a[7])
                 : "r"(at + 1024)
                 : "memory");
    asm volatile("wmma.load.b.sync.aligned.row.m32n8k16.shared.bf16 {%0, %1}, [%2], 8;"
                 : "=r"(b[0]), "=r"(b[1])
                 : "r"(at + 1536)
                 : "memory");
    for (u32 j = 0; j < 8; ++j) {
        d[j] = -1.5f;
    }
    asm volatile(
        "wmma.mma.sync.aligned.col.row.m32n8k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, "
        "%7}, "
        "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17}, {%0, %1, %2, %3, %4, %5, %6, %7};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]),
          "r"(b[0]), "r"(b[1]));
    asm volatile("wmma.store.d.sync.aligned.col.m32n8k16.global.f32 [%0], {%1, %2, %3, %4, %5, %6, "
                 "%7, %8}, 32;"
                 :
                 : "l"(out + 256), "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]),
                   "f"(d[6]), "f"(d[7])
                 : "memory");
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%0, %1}, [%2], 16;"
                 : "=r"(a[0]), "=r"(a[1])
                 : "l"(in)
                 : "memory");
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.global.s8 {%0, %1}, [%2], 16;"
                 : "=r"(b[0]), "=r"(b[1])
                 : "l"(in + 64)
                 : "memory");
    for (u32 j = 0; j < 8; ++j) { // which lane holds which sum is the hardware's secret
        i[j] = 7;
    }
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%0, %1, %2, %3, %4, %5, "
                 "%6, %7}, {%8, %9}, {%10, %11}, "
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3]), "+r"(i[4]), "+r"(i[5]),
                   "+r"(i[6]), "+r"(i[7])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.s32 [%0], {%1, %2, %3, %4, %5, "
                 "%6, %7, %8}, 16;"
                 :
                 : "l"(out + 512), "r"(i[0]), "r"(i[1]), "r"(i[2]), "r"(i[3]), "r"(i[4]), "r"(i[5]),
                   "r"(i[6]), "r"(i[7])
                 : "memory");
}
