// twin: target=sm_80 grid=1 block=128 out=129
// A scan and a sum of CUB, whose scratch memory is used for both.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
extern "C" __global__ void k(const unsigned *in, unsigned *out, unsigned *)
{
    using Scan = cub::BlockScan<unsigned, 128>;
    using Reduce = cub::BlockReduce<unsigned, 128>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Reduce::TempStorage reduce;
    } s;
    const unsigned v = in[threadIdx.x] & 0xffff;
    unsigned before;
    Scan(s.scan).ExclusiveSum(v, before);
    __syncthreads();
    const unsigned sum = Reduce(s.reduce).Sum(v);
    out[threadIdx.x] = before;
    if (threadIdx.x == 0) {
        out[128] = sum;
    }
}
