// twin: target=sm_80 grid=1 block=64 out=256
// Warps that transpose through shared memory of their own, kept in order by __syncwarp alone.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[2][33];
    const unsigned t = threadIdx.x, lane = t % 32;
    unsigned *mine = s[t / 32];
    for (unsigned lap = 0; lap < 4; ++lap) {
        mine[lane] = in[lap * 64 + t];
        __syncwarp();
        out[lap * 64 + t] = mine[(lane * 7 + lap) % 32];
        __syncwarp();
    }
}
