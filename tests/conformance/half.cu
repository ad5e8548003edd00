// case: target=90 block=128 out=2048
// Arithmetic in pairs of f16 and bf16: sums, products, fused, minima, comparisons, ReLU.
#define OP2(TO, I, X, Y)    asm(I " %0, %1, %2;" : "=r"(o[TO]) : "r"(X), "r"(Y))
#define OP3(TO, I, X, Y, Z) asm(I " %0, %1, %2, %3;" : "=r"(o[TO]) : "r"(X), "r"(Y), "r"(Z))
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, x = in[t], y = in[t + 128], z = in[t + 256];
    unsigned *o = out + t;
    OP2(0, "add.f16x2", x, y);
    OP2(128, "sub.f16x2", x, y);
    OP2(256, "mul.f16x2", x, y);
    OP3(384, "fma.rn.f16x2", x, y, z);
    OP3(512, "fma.rn.ftz.f16x2", x & 0x83ff83ff, y, z & 0x83ff83ff);
    OP2(640, "min.f16x2", x, y);
    OP2(768, "max.NaN.f16x2", x, y);
    OP2(896, "add.rn.bf16x2", x, y);
    OP2(1024, "mul.rn.bf16x2", x, y);
    OP3(1152, "fma.rn.bf16x2", x, y, z);
    OP3(1280, "fma.rn.relu.bf16x2", x, y, z);
    OP2(1408, "min.bf16x2", x, y);
    OP2(1536, "max.NaN.bf16x2", x, y);
    OP2(1664, "set.lt.f16x2.f16x2", x, y);
    OP3(1792, "fma.rn.sat.f16x2", x, y, z);
    OP3(1920, "fma.rn.relu.f16x2", x, y, z);
}
