// case: target=80 block=96 out=960
// Shuffles with segments, votes, matches, reductions of a warp, with whole and partial masks.
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    const unsigned t = threadIdx.x, v = in[t], lane = t & 31;
    unsigned *o = out + t;
    o[0] = __shfl_sync(~0u, v, v & 63, 8);
    o[96] = __shfl_up_sync(~0u, v, v & 15, 16);
    o[192] = __shfl_down_sync(~0u, v, v & 15, 32);
    o[288] = __shfl_xor_sync(~0u, v, v & 7, 4);
    o[384] = __ballot_sync(~0u, v & 1);
    o[480] = __match_any_sync(~0u, v & 3);
    o[576] = __reduce_add_sync(~0u, v) ^ __reduce_xor_sync(~0u, v * 3);
    o[672] = __reduce_max_sync(~0u, (int)v) ^ __reduce_min_sync(~0u, v);
    o[768] = __any_sync(~0u, (v & 31) == 5) * 2 + __all_sync(~0u, (v & 1) < 2);
    if (lane < 16) {
        o[864] = __shfl_sync(0xffffu, v, (lane * 7) & 15) + __ballot_sync(0xffffu, v & 2);
    } else {
        o[864] = __shfl_xor_sync(0xffff0000u, v, 1);
    }
}
