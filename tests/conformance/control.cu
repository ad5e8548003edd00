// case: target=80 block=64 out=576
// Calls, jumps by table, local and constant memory, generic addresses of every space,
// accesses of every width.
__constant__ unsigned TABLE[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ __noinline__ unsigned twice(unsigned x, unsigned *kept)
{
    *kept += x;
    return 2 * x + 1;
}
__device__ __noinline__ unsigned steps(unsigned x)
{
    return x < 2 ? x : twice(x / 2, &x) + x;
}
__device__ __noinline__ unsigned read_any(const unsigned *p, unsigned i)
{
    return p[i];
}
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ unsigned s[64];
    __shared__ unsigned char bytes[64];
    __shared__ unsigned short shorts[64];
    const unsigned t = threadIdx.x, v = in[t];
    unsigned local[16], kept = 0;
    unsigned *o = out + t;
    for (unsigned i = 0; i < 16; ++i) {
        local[(i + v) % 16] = in[t + i] ^ i;
    }
    s[t] = v;
    bytes[t ^ 1] = (unsigned char)v;
    shorts[t ^ 2] = (unsigned short)(v >> 8);
    __syncthreads();
    o[0] = twice(v, &kept) + kept;
    o[64] = steps(v % 50);
    switch (v % 9) {
    case 0:
        o[128] = 17;
        break;
    case 1:
        o[128] = v * 3;
        break;
    case 2:
        o[128] = v ^ 99;
        break;
    case 3:
        o[128] = local[v / 9 % 16];
        break;
    case 4:
        o[128] = __brev(v);
        break;
    case 6:
        o[128] = TABLE[v / 9 % 8];
        break;
    default:
        o[128] = v + t;
    }
    o[192] = read_any(t % 4 == 0 ? in : t % 4 == 1 ? s : t % 4 == 2 ? local : TABLE, v % 8);
    o[256] = bytes[t] + (unsigned)(signed char)bytes[63 - t] * 7;
    o[320] = shorts[t] + (unsigned)(short)shorts[63 - t] * 7;
    const uint4 four = reinterpret_cast<const uint4 *>(in)[t];
    o[384] = four.x ^ four.y * 3 ^ four.z * 5 ^ four.w * 7;
    o[448] = __ldg(in + t + 5) + __ldcs(in + t + 6) * 3 + __ldcg(in + t + 7) * 5;
    unsigned laps = 0;
    for (unsigned x = v; x != 0 && laps < 100; x = x & 1 ? x / 3 : x / 2, ++laps) {
    }
    o[512] = laps;
}
