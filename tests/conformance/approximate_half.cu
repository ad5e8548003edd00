// case: target=90 block=128 out=640
// differs: ulps=1 abs=1e-5 halves=384 the hardware has tables of its own
// Approximate functions on pairs of f16 and bf16, tanh and cosine of fp32.
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, x = in[t] & 0xbfffbfff;
    const float y = (float)(int)in[t] * 0x1p-29f;
    unsigned *o = out + t, r;
    float z;
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(r) : "r"(x));
    o[0] = r;
    asm("tanh.approx.f16x2 %0, %1;" : "=r"(r) : "r"(x));
    o[128] = r;
    asm("ex2.approx.ftz.bf16x2 %0, %1;" : "=r"(r) : "r"(x));
    o[256] = r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(z) : "f"(y));
    o[384] = __float_as_uint(z);
    asm("cos.approx.f32 %0, %1;" : "=f"(z) : "f"(y));
    o[512] = __float_as_uint(z);
}
