// case: target=90 grid=4 block=64 cluster=4 out=1536
// Vectors of floats between blocks of a cluster: plain reads of two and four, and sends of two and
// four that count on an mbarrier over there.
#include <gk/cluster_exchange.cuh>
#include <gk/mbarrier.cuh>
using namespace gk;
extern "C" __global__ void k(const unsigned *in, unsigned *out)
{
    __shared__ __align__(16) float own[256];
    __shared__ __align__(16) float2 twos[64];
    __shared__ __align__(16) float4 fours[64];
    __shared__ Barrier told;
    const u32 t = threadIdx.x, rank = cluster_rank(), next = (rank + 1) % 4;
    for (u32 i = t; i < 256; i += 64) {
        own[i] = __uint_as_float(in[rank * 256 + i]); // any pattern: nothing computes with it
    }
    if (t == 0) {
        told.init(1);
        fence_barrier_init();
        told.arrive_expect_bytes(64 * sizeof(float2) + 64 * sizeof(float4));
    }
    cluster_sync(); // words are there, and the barrier is set up
    const u32 there = cluster_address(ptx::shared_address(own), 3 - rank);
    const float2 two = cluster_load_f32x2(there + t * 8);
    const float4 four = cluster_load_f32x4(there + t * 16);
    const u32 counter = cluster_address(told.address(), next);
    cluster_send_f32x2(cluster_address(ptx::shared_address(&twos[63 - t]), next),
                       make_float2(own[t], own[t + 64]), counter);
    cluster_send_f32x4(cluster_address(ptx::shared_address(&fours[63 - t]), next),
                       make_float4(four.x, own[t], two.y, four.w), counter);
    told.wait<Scope::kCluster>(0);
    const float values[6] = {twos[t].x, twos[t].y, fours[t].x, fours[t].y, fours[t].z, fours[t].w};
    unsigned *o = out + rank * 384;
    for (u32 i = 0; i < 6; ++i) {
        o[i * 64 + t] = __float_as_uint(values[i]);
    }
    cluster_sync(); // all have read what this block holds
}
