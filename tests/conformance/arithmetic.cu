// case: target=80 block=128 out=2048
// Integer and fp32 arithmetic, bit fields, conversions: rounding, saturation, subnormals, NaN.
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, a = in[t], b = in[t + 128], c = in[t + 256];
    const float x = __uint_as_float(a), y = __uint_as_float(b);
    unsigned *o = out + t;
    o[0] = a * b + c;
    o[128] = __umulhi(a, b);
    o[256] = __byte_perm(a, b, c & 0x7777);
    o[384] = __funnelshift_l(a, b, c);
    o[512] = __brev(a) ^ __popc(b) ^ __clz(c);
    o[640] = __float_as_uint(__fmaf_rn(x, y, x));
    o[768] = __float_as_uint(__fadd_rz(x, y));
    o[896] = __float_as_uint(__fmul_ru(x, y));
    o[1024] = __float_as_uint(__fdiv_rn(x, y));
    o[1152] = __float_as_uint(__fsqrt_rn(__uint_as_float(a & 0x7fffffff)));
    o[1280] = __float2int_rn(x);
    o[1408] = __float_as_uint(__uint2float_rz(a));
    o[1536] = __dp4a((int)a, (int)b, (int)c);
    o[1664] = __vabsdiffu4(a, b);
    o[1792] = a / (b | 1) + (int)a % (int)(c | 1);
    o[1920] = __float_as_uint(fminf(x, y)) ^ __float_as_uint(fmaxf(y, x));
}
