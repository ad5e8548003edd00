/*
 * out = a + b, and one way of going wrong for each value of FAULT.
 *
 * 128 threads a block, an element a thread. Every fault stands in a function of its own that
 * returns what this thread writes; the clean step is the same kernel with none of them. The clean
 * steps differ in a constant that no problem reaches, so that each is code of its own and is run.
 */

#define IS(fault) (GK_STEP == GK_STEP_FAULT && GK_FAULT == GK_FAULT_##fault)

#if IS(STATIC_SHARED)
__shared__ float too_much[64 * 1024]; /* 256 KB: ptxas refuses it */
#endif

#if IS(STACK_BOMB)
/* Not a tail call, and a frame that cannot be kept in registers. The depth is never reached. */
__device__ __noinline__ float sink_deeper(volatile float *frame, long long depth)
{
    volatile float own[256];
    own[depth & 255] = frame[depth & 127] + 1.0f;
    if (depth == 0) {
        return own[0];
    }
    return sink_deeper(own, depth - 1) + own[depth & 255];
}
#endif

#if IS(RACE)
/* The sum goes through shared memory to another warp, which does not wait for it. The writer is
 * late, so that the reader meets what was there before. */
__device__ float handed_over(float sum)
{
    __shared__ float tile[128];
    const unsigned thread = threadIdx.x;
    tile[thread] = 0.0f;
    __syncthreads();
    if (thread >= 64) {
        const long long begin = clock64();
        while (clock64() - begin < 20000) {
        }
    }
    tile[thread] = sum;
    /* here a barrier is missing */
    const float other = tile[thread ^ 64];
    __syncthreads();
    tile[thread] = other;
    __syncthreads();
    return tile[thread ^ 64];
}
#endif

#if IS(REGISTERS)
/* A thousand threads that keep 192 values alive each: more registers than an SM has. */
__device__ float kept_alive(const float *a, long long at, long long n)
{
    float kept[192];
#pragma unroll
    for (int i = 0; i < 192; ++i) {
        kept[i] = ((const volatile float *)a)[(at + i) % n];
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 192; ++i) {
        sum += kept[i] * kept[191 - i];
        asm volatile("" : "+f"(kept[i]));
    }
    return sum;
}
#endif

#if IS(LATE_INPUT) || IS(LATE_GUARD)
__device__ unsigned launches_before; /* of this module: verification launches it a few times */
#endif

/* What goes wrong beside the sum, for the thread that owns element `at`. */
__device__ void go_wrong(const float *a, const float *b, float *out, unsigned *counter,
                         long long at, long long n)
{
#if IS(FAR_WRITE)
    if (at == 0) {
        out[1LL << 40] = 1.0f;
    }
#elif IS(NEAR_WRITE)
    if (at == n - 1) {
        out[n] = 1.0f;
    }
#elif IS(NEIGHBOUR)
    /* an index that leads out of its tensor and into another one */
    const long long distance = (long long)b - (long long)out;
    *(float *)((char *)out + distance + 4 * at) = 1.0f;
#elif IS(INPUT_CHANGED)
    const_cast<float *>(a)[at] = 1.0f;
#elif IS(LOOP_FOREVER)
    if (at == 0) {
        while (((volatile unsigned *)counter)[0] == 0) {
        }
    }
#elif IS(TRAP)
    if (at == n / 2) {
        __trap();
    }
#elif IS(ASSERT)
    if (at == n / 2) {
        __assertfail("at != n / 2", "faults.cu", 1, "go_wrong", sizeof(char));
    }
#elif IS(STACK_BOMB)
    if (at == 0) {
        out[0] = sink_deeper(out, n << 20);
    }
#elif IS(MISALIGNED)
    if (at == 1) {
        *(float *)((char *)out + 2) = 1.0f;
    }
#elif IS(WORKSPACE_DIRTY)
    if (at == 0) {
        counter[63] = 7;
    }
#elif IS(LATE_INPUT)
    if (at == 0 && atomicAdd(&launches_before, 1) >= 16) {
        const_cast<float *>(a)[n / 2] = 1.0f;
    }
#elif IS(LATE_GUARD)
    if (at == 0 && atomicAdd(&launches_before, 1) >= 16) {
        out[n] = 1.0f;
    }
#elif IS(STATIC_SHARED)
    too_much[threadIdx.x + 1000 * (at & 31)] = 1.0f;
    __syncthreads();
    out[at] = too_much[(threadIdx.x + 1) & 127];
#endif
    (void)a;
    (void)b;
    (void)out;
    (void)counter;
    (void)at;
    (void)n;
}

extern "C" __global__ void faults(const float *a, const float *b, float *out, unsigned *counter,
                                  long long n)
{
    const long long at = (long long)blockIdx.x * 128 + threadIdx.x;
    if (n < 0) {
        out[0] = (float)GK_FAULT; /* never: it tells the clean steps' code apart */
    }
#if IS(BARRIER_HANG)
    /* each half waits for the other, at barriers of two names */
    if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 128;" ::: "memory");
    }
#endif
#if IS(NEVER_WRITTEN)
    if (blockIdx.x == 1) {
        return;
    }
#endif
    float sum = at < n ? a[at] + b[at] : 0.0f;
#if IS(NAN)
    sum = at == n - 1 ? __int_as_float(0x7fc00000) : sum;
#elif IS(RACE)
    sum = handed_over(sum);
#elif IS(REGISTERS)
    sum += kept_alive(a, at, n);
#elif IS(SLOW)
    for (int i = 0; i < 100; ++i) {
        sum = at < n ? ((const volatile float *)a)[at] + ((const volatile float *)b)[at] : 0.0f;
    }
#endif
    if (at < n) {
        out[at] = sum;
        go_wrong(a, b, out, counter, at, n);
    }
}
