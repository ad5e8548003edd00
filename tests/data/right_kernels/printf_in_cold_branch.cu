// twin: target=sm_80 grid=2 block=64 out=128 work=4
// A message where something cannot be: nothing is printed, and the rest runs as it does without.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = blockIdx.x * 64 + threadIdx.x;
    if (work[0] != 0) {
        printf("thread %u sees %u, %f\n", t, work[0], 1.5);
    }
    if (threadIdx.x % 8 == 3) {
        printf("taken by some lanes: %u\n", in[t]);
    }
    out[t] = in[t];
}
