// twin: target=sm_80 grid=2 block=64 out=128
// CUDA's cooperative groups: tiles, reductions, votes.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    __shared__ unsigned s[64];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto eight = cg::tiled_partition<8>(warp);
    const unsigned t = block.thread_rank();
    s[t] = in[blockIdx.x * 64 + t];
    block.sync();
    unsigned v = cg::reduce(warp, s[63 - t], cg::plus<unsigned>());
    v += eight.shfl_xor(v, 1) + eight.any(t == 3);
    block.sync(); // both warps have read what follows overwrites
    s[t ^ 1] = v;
    warp.sync();
    out[blockIdx.x * 64 + t] = s[t] + cg::coalesced_threads().size();
}
