// Adds two vectors, or makes the mistake that GK_BUG names.
#if GK_DTYPE_BF16
typedef unsigned short Element;
__device__ float number(Element x)
{
    return __uint_as_float((unsigned)x << 16);
}
__device__ Element element(float x)
{
    const unsigned bits = __float_as_uint(x);
    return (Element)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#else
typedef float Element;
__device__ float number(Element x)
{
    return x;
}
__device__ Element element(float x)
{
    return x;
}
#endif

#if GK_BUG == GK_BUG_LATE_INPUT || GK_BUG == GK_BUG_LATE_GUARD
__device__ unsigned launches_before; // verification launches a few times, timing many
#endif

extern "C" __global__ void add_some(const Element *a, const Element *b, Element *y, unsigned *flags,
                                    float *scratch, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if GK_BUG == GK_BUG_BEYOND
    if (i == 0) {
        y[n] = element(1.0f);
    }
#elif GK_BUG == GK_BUG_MISALIGNED
    if (i == 0) {
        *(volatile int *)((char *)y + 1) = 1;
    }
#elif GK_BUG == GK_BUG_DEADLOCK
    if (threadIdx.x < 16) {
        while (atomicAdd(&flags[1], 0) == 0) {
        }
    }
#elif GK_BUG == GK_BUG_ENDLESS
    volatile unsigned *spin = flags;
    while (*spin == 0) {
    }
#elif GK_BUG == GK_BUG_INPUT
    if (i == 3) {
        ((Element *)a)[i] = element(5.0f);
    }
#elif GK_BUG == GK_BUG_DIRTY
    if (i == 0) {
        flags[7] = 1;
    }
#elif GK_BUG == GK_BUG_TRAP
    __trap();
#elif GK_BUG == GK_BUG_HEAVY // no mistake, but seconds of work for the compiler
    unsigned mixed = i;
#pragma unroll
    for (int k = 0; k < 6000; ++k) {
        mixed = (mixed ^ mixed >> (k % 13 + 1)) * (2u * k + 3u);
    }
    if (i < 64) {
        scratch[i] = mixed;
    }
#elif GK_BUG == GK_BUG_LATE_INPUT
    if (i == 3 && atomicAdd(&launches_before, 1) >= 8) {
        ((Element *)a)[i] = element(5.0f);
    }
#elif GK_BUG == GK_BUG_LATE_GUARD
    if (i == 0 && atomicAdd(&launches_before, 1) >= 8) {
        y[n] = element(1.0f);
    }
#elif GK_BUG == GK_BUG_SYNTAX
    this is not C++;
#endif
    if (i >= n) {
        return;
    }
    float sum = number(a[i]) + number(b[i]);
#if GK_BUG == GK_BUG_OFF_BY_ONE
    if (i == n / 2) {
        sum = number(a[i]) + number(b[i > 0 ? i - 1 : i + 1]) + 1.0f;
    }
#elif GK_BUG == GK_BUG_WRONG_PLACE
    if (i == 1) {
        return;
    }
    if (i == 2) {
        y[1] = element(sum);
    }
#elif GK_BUG == GK_BUG_NEVER_WRITTEN
    if (i == n - 1) {
        return;
    }
#elif GK_BUG == GK_BUG_NAN
    if (i == 5) {
        sum = sum / 0.0f * 0.0f;
    }
#elif GK_BUG == GK_BUG_DIRTY_INPUT
    if (i == n - 1) {
        flags[7] = 1;
        ((Element *)a)[i] = element(5.0f);
    }
#elif GK_BUG == GK_BUG_LARGE
    if (number(a[i]) > 100.0f) {
        sum = 100.0f;
    }
#elif GK_BUG == GK_BUG_SLOW_LARGE // right
    for (int k = 0; number(a[i]) > 100.0f && k < 1000; ++k) {
        asm volatile("add.f32 %0, %0, 0f00000000;" : "+f"(sum));
    }
#elif GK_BUG == GK_BUG_UNWRITTEN
    sum += scratch[i % 64];
#endif
    y[i] = element(sum);
}
