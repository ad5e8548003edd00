// case: target=80 block=128 out=64
// Atomic operations whose result does not depend on their order.
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ unsigned s[16];
    const unsigned t = threadIdx.x, v = in[t];
    if (t < 16) {
        s[t] = 0;
    }
    __syncthreads();
    atomicAdd(&s[0], v);
    atomicMax(&s[1], v);
    atomicMin((int *)&s[2], (int)v);
    atomicOr(&s[3], 1u << (v & 31));
    atomicXor(&s[4], v);
    atomicInc(&s[5], 76);
    atomicAdd((float *)&s[6], (float)(v & 7));
    atomicCAS(&s[7], 0u, 77u);
    atomicAdd(&out[16], v);
    atomicAdd((float *)&out[17], (float)(v & 15));
    atomicMax((int *)&out[18], (int)v);
    atomicAdd((unsigned long long *)&out[20], (unsigned long long)v << 8);
    atomicDec(&out[22], 1000);
    __syncthreads();
    if (t < 16) {
        out[t] = s[t];
    }
}
