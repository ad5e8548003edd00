// case: target=80 block=64 out=2304
// Forms that templates are compiled to: signed arithmetic and comparisons, wide and narrow accesses
// with every hint, parameters of calls.
#define SIGNED3(I, X, Y)                                                                           \
    asm(I " %0, %1, %2;" : "=r"(r) : "r"(X), "r"(Y));                                              \
    o[64 * place++] = r
#define COMPARE(I, KIND, X, Y)                                                                     \
    asm("{\n.reg .pred p, q;\n" I " p, %1, %2;\nsetp.ne.u32 q, %3, 7;\nor.pred p, p, q;\n"         \
        "selp.f32 %0, 0f3f800000, 0f40000000, p;\n}"                                               \
        : "=f"(f)                                                                                  \
        : KIND(X), KIND(Y), "r"(t % 2 ? 7 : t));                                                   \
    o[64 * place++] = __float_as_uint(f)
#define LOAD4(HOW, AT)                                                                             \
    asm volatile("ld.global" HOW ".v4.b32 {%0, %1, %2, %3}, [%4];"                                 \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                                      \
                 : "l"(in + (AT) + t * 4)                                                          \
                 : "memory");                                                                      \
    o[64 * place++] = v.x ^ v.y * 3 ^ v.z * 5 ^ v.w * 7
__device__ __noinline__ float scaled(float x, float y)
{
    return x * 0.5f - y;
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) unsigned s[256];
    const unsigned t = threadIdx.x;
    const int a = (int)in[t], b = (int)in[t + 64] >> 12;
    const long long wide = (long long)a * 12345678 + b;
    const float x = (float)a, y = (float)b;
    unsigned *o = out + t, place = 0, r;
    unsigned short h;
    long long l;
    float f;
    uint4 v;
    uint2 two;
    SIGNED3("div.s32", a, b ? b : 1);
    SIGNED3("rem.s32", a, b ? b : 1);
    SIGNED3("min.s32", a, b);
    SIGNED3("max.s32", a, b);
    SIGNED3("mul.hi.s32", a, b * 4099);
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(l) : "r"(a), "r"(b));
    o[64 * place++] = (unsigned)(l >> 16);
    asm("sub.s64 %0, %1, %2;" : "=l"(l) : "l"(l), "l"(wide));
    o[64 * place++] = (unsigned)(l >> 20);
    asm("div.s64 %0, %1, %2;" : "=l"(l) : "l"(wide), "l"((long long)(b ? b : 1)));
    o[64 * place++] = (unsigned)l;
    asm("cvt.s64.s32 %0, %1;" : "=l"(l) : "r"(b));
    o[64 * place++] = (unsigned)(l >> 8);
    asm("abs.f32 %0, %1;" : "=f"(f) : "f"(y));
    o[64 * place++] = __float_as_uint(f);
    asm("sub.f32 %0, %1, %2;" : "=f"(f) : "f"(x), "f"(y));
    o[64 * place++] = __float_as_uint(f);
    COMPARE("setp.lt.s32", "r", a, b);
    COMPARE("setp.le.s32", "r", a, b);
    COMPARE("setp.gt.s32", "r", a, b);
    COMPARE("setp.ge.s32", "r", a, b);
    COMPARE("setp.ge.s64", "l", wide, (long long)b);
    COMPARE("setp.lt.f32", "f", x, y);
    LOAD4("", 0);
    LOAD4(".ca", 256);
    LOAD4(".cg", 512);
    LOAD4(".cs", 768);
    LOAD4(".L1::no_allocate", 1024);
    LOAD4(".L1::no_allocate.L2::256B", 1280);
    asm volatile("ld.global.b16 %0, [%1];" : "=h"(h) : "l"((const char *)in + t * 2) : "memory");
    asm("cvt.u64.u16 %0, %1;" : "=l"(l) : "h"(h));
    o[64 * place++] = (unsigned)l;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(two.x), "=r"(two.y)
                 : "l"(in + t * 2)
                 : "memory");
    o[64 * place++] = two.x ^ two.y * 3;
    o[64 * place++] = __float_as_uint(scaled(x, y));
    const unsigned at = (unsigned)__cvta_generic_to_shared(s);
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" : : "r"(at + t * 8), "r"(a), "r"(b) : "memory");
    asm volatile("st.shared.b16 [%0], %1;" : : "r"(at + 512 + (t ^ 1) * 2), "h"(h) : "memory");
    asm volatile("st.shared.f32 [%0], %1;" : : "r"(at + 640 + t * 4), "f"(y) : "memory");
    __syncthreads();
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at + (t % 32) * 16)
                 : "memory");
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(f) : "r"(at + 640 + (63 - t) * 4) : "memory");
    o[64 * place++] = v.x ^ v.y * 3 ^ v.z * 5 ^ v.w * 7;
    o[64 * place++] = __float_as_uint(f);
    o[64 * place++] = s[128 + t / 2];
    asm("mul.wide.u16 %0, %1, %2;" : "=r"(r) : "h"(h), "h"((unsigned short)(a >> 5)));
    out[32 * 64 + t] = r;
    asm("{\n.reg .pred p;\nsetp.ge.u32 p, %1, %2;\nselp.b64 %0, %3, %4, p;\n}"
        : "=l"(l)
        : "r"(a), "r"(b), "l"(wide), "l"((long long)t));
    out[33 * 64 + t] = (unsigned)(l >> 3);
    asm volatile("ld.global.b32 %0, [%1];" : "=r"(r) : "l"(in + t + 77) : "memory");
    out[34 * 64 + t] = r;
    out[35 * 64 + t] = t;
    asm volatile("membar.gl;" : : : "memory");
    // 29 planes of 64 words so far; the last three take what wide and narrow stores leave.
    unsigned *rest = out + 29 * 64;
    if (t < 32) {
        asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                     :
                     : "l"(rest + t * 2), "r"(a), "r"(b)
                     : "memory");
    } else if (t < 48) {
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(rest + 64 + (t - 32) * 4), "r"(a), "r"(b), "r"(a ^ b), "r"(t)
                     : "memory");
    } else {
        asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(rest + 128 + (t - 48) * 4), "r"(a), "r"(b), "r"(a ^ b), "r"(t)
                     : "memory");
    }
    __syncthreads();
    if (t < 16) {
        asm volatile("st.global.u16 [%0], %1;"
                     :
                     : "l"((char *)(rest + 128) + t * 4), "h"(h)
                     : "memory");
        asm volatile("st.global.b32 [%0], %1;" : : "l"(rest + 160 + t), "r"(a) : "memory");
    }
}
