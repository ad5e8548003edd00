// twin: target=sm_80 grid=1 block=128 out=256
// Two warps make, two warps take, by a pair of named barriers.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    const unsigned t = threadIdx.x;
    for (unsigned lap = 0; lap < 4; ++lap) {
        if (t < 64) {
            if (lap) {
                asm volatile("bar.sync 2, 128;" : : : "memory");
            }
            s[t] = in[lap * 64 + t];
            asm volatile("bar.arrive 1, 128;" : : : "memory");
        } else {
            asm volatile("bar.sync 1, 128;" : : : "memory");
            out[lap * 64 + t - 64] = s[127 - t] + lap;
            if (lap < 3) {
                asm volatile("bar.arrive 2, 128;" : : : "memory");
            }
        }
    }
}
