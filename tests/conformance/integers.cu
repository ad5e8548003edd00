// case: target=80 block=128 out=2048
// Integers beyond plain arithmetic: bit fields, carries, 64 bits, saturation, bytes and halves.
#define ONE(I, TO, FROM)      asm(I " %0, %1;" : "=r"(TO) : "r"(FROM))
#define TWO(I, TO, X, Y)      asm(I " %0, %1, %2;" : "=r"(TO) : "r"(X), "r"(Y))
#define THREE(I, TO, X, Y, Z) asm(I " %0, %1, %2, %3;" : "=r"(TO) : "r"(X), "r"(Y), "r"(Z))
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, a = in[t], b = in[t + 128], c = in[t + 256];
    const unsigned long long x = (unsigned long long)a << 32 | b,
                             y = (unsigned long long)c << 20 | b;
    unsigned *o = out + t, r, low, high;
    THREE("bfe.u32", r, a, b % 40, c % 40);
    o[0] = r;
    THREE("bfe.s32", r, a, b % 40, c % 40);
    o[128] = r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c % 40), "r"(c / 64 % 40));
    o[256] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xd8;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[384] = r;
    THREE("sad.s32", r, a, b, c);
    o[512] = r;
    THREE("mad24.lo.s32", r, a, b, c);
    o[640] = r;
    asm("add.cc.u32 %0, %2, %3;\naddc.u32 %1, %4, %5;"
        : "=&r"(low), "=r"(high)
        : "r"(a), "r"(b), "r"(c), "r"(a));
    o[768] = low ^ high * 3;
    asm("sub.cc.u32 %0, %2, %3;\nsubc.u32 %1, %4, %5;"
        : "=&r"(low), "=r"(high)
        : "r"(a), "r"(b), "r"(c), "r"(a));
    o[896] = low ^ high * 3;
    o[1024] = (unsigned)(x * y >> 32) ^ (unsigned)__umul64hi(x, y);
    o[1152] = (unsigned)(x / (y | 1)) ^ (unsigned)((long long)x % (long long)(y | 1));
    o[1280] = (unsigned)__clzll((long long)y) + (unsigned)__popcll(x) * 100 +
              (unsigned)__ffsll((long long)y) * 10000;
    TWO("add.sat.s32", r, a, b);
    o[1408] = r;
    asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[1536] = r;
    ONE("bfind.u32", r, a >> (b % 32));
    ONE("bfind.shiftamt.s32", low, a);
    o[1664] = r + low * 100;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(low) : "r"(a), "r"(b), "r"(c));
    asm("prmt.b32.ecl %0, %1, %2, %3;" : "=r"(high) : "r"(a), "r"(b), "r"(c));
    o[1792] = r ^ low * 3 ^ high * 5;
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(a), "r"(b), "r"(c % 50));
    o[1920] = r ^ low * 3 ^ a << (c % 50) ^ (unsigned)((int)b >> (c % 50));
}
