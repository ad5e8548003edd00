// twin: target=sm_80 grid=2 block=96 out=2
// A block's sum: shuffles, one word a warp, shuffles again.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned sums[32];
    const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned v = in[blockIdx.x * 96 + t];
    for (unsigned d = 16; d > 0; d /= 2) {
        v += __shfl_down_sync(~0u, v, d);
    }
    if (lane == 0) {
        sums[warp] = v;
    }
    __syncthreads();
    if (warp == 0) {
        v = lane < 3 ? sums[lane] : 0;
        for (unsigned d = 2; d > 0; d /= 2) {
            v += __shfl_down_sync(~0u, v, d);
        }
        if (lane == 0) {
            out[blockIdx.x] = v;
        }
    }
}
