// twin: target=sm_80 grid=1 block=64 out=128
// One warp waits for another by a volatile flag in shared memory and fences of the block.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[32];
    __shared__ volatile unsigned turn;
    const unsigned t = threadIdx.x, lane = t % 32;
    if (t == 0) {
        turn = 0;
    }
    __syncthreads();
    for (unsigned lap = 0; lap < 4; ++lap) {
        const unsigned mine = t / 32 ? lap * 2 + 1 : lap * 2;
        if (lane == 0) {
            while (turn != mine) {
            }
            __threadfence_block();
        }
        __syncwarp();
        if (t < 32) {
            s[lane] = in[lap * 32 + lane];
        } else {
            out[lap * 32 + lane] = s[31 - lane];
        }
        __syncwarp();
        if (lane == 0) {
            __threadfence_block();
            turn = mine + 1;
        }
    }
}
