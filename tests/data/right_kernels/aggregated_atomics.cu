// twin: target=sm_80 grid=2 block=64 out=130 work=4
// Lanes that want a place take theirs together: one atomic a group of lanes.
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *work)
{
    const unsigned t = threadIdx.x, lane = t % 32, me = blockIdx.x * 64 + t;
    const unsigned kind = in[me] % 2;
    const unsigned group = __match_any_sync(~0u, kind);
    const unsigned leader = (unsigned)__ffs((int)group) - 1;
    unsigned first = 0;
    if (lane == leader) {
        first = atomicAdd(&work[kind], (unsigned)__popc(group));
    }
    first = __shfl_sync(group, first, (int)leader);
    const unsigned place = first + (unsigned)__popc(group & ((1u << lane) - 1));
    out[me] = place < 128 ? kind : 9;
    __syncthreads();
    if (t == 0) {
        __threadfence();
        if (atomicAdd(&work[2], 1u) == 1) {
            __threadfence();
            out[128] = work[0];
            out[129] = work[1];
        }
    }
}
