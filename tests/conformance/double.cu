// case: target=80 block=128 out=2304
// fp64 arithmetic and conversions to and from it: rounding, subnormals, NaN.
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x;
    const double x = __hiloint2double((int)in[t], (int)in[t + 128]);
    const double y = __hiloint2double((int)in[t + 256], (int)in[t + 384]);
    const double near = __hiloint2double((int)(in[t] & 0x800fffff | 0x41000000), (int)in[t + 128]);
    const double results[8] = {__dadd_rn(x, y), __dadd_rz(near, y),
                               __dmul_rn(x, y), __fma_rn(x, y, x),
                               __ddiv_rn(x, y), __dsqrt_rn(fabs(x)),
                               fmin(x, y),      (double)__int_as_float((int)in[t + 512])};
    for (unsigned i = 0; i < 8; ++i) {
        out[i * 256 + t] = (unsigned)__double2hiint(results[i]);
        out[i * 256 + 128 + t] = (unsigned)__double2loint(results[i]);
    }
    out[2048 + t] =
        __float_as_uint(__double2float_rn(near)) ^ __float_as_uint(__double2float_ru(x));
    out[2176 + t] = (unsigned)__double2ll_rz(near) ^ (unsigned)__double2int_rn(near) * 3;
}
