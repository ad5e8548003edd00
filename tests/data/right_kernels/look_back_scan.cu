// twin: target=sm_80 grid=8 block=32 out=256 work=24
// A scan in one pass: each block publishes its sum, then its prefix, and looks back over those
// before it. Numbers are drawn from a counter, so that a block waits only for blocks that run.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    __shared__ unsigned tile, prefix;
    unsigned *state = work + 1, *value = work + 9; // 1: sum is there, 2: prefix is there
    const unsigned t = threadIdx.x;
    if (t == 0) {
        tile = atomicAdd(work, 1u);
    }
    __syncthreads();
    unsigned v = in[tile * 32 + t] & 0xffff, sum = v;
    for (unsigned d = 1; d < 32; d *= 2) {
        const unsigned up = __shfl_up_sync(~0u, sum, d);
        sum += t >= d ? up : 0;
    }
    if (t == 31) {
        unsigned before = 0;
        atomicExch(&value[tile], sum);
        __threadfence();
        atomicExch(&state[tile], tile ? 1u : 2u);
        for (int at = (int)tile - 1; at >= 0;) {
            const unsigned seen = atomicAdd(&state[at], 0u);
            __threadfence();
            if (seen == 2) {
                before += atomicAdd(&value[at], 0u);
                break;
            }
            if (seen == 1 && at == 0) {
                continue;
            }
        }
        if (tile) {
            atomicExch(&value[tile], before + sum);
            __threadfence();
            atomicExch(&state[tile], 2u);
        }
        prefix = before;
    }
    __syncthreads();
    out[tile * 32 + t] = prefix + sum;
}
