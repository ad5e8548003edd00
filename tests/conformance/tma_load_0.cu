// case: target=90 block=128 out=4096
// map: in bf16 dims=200,37 box=24,32 swizzle=0
// map: in bf16 dims=40,9,5 box=24,4,3 swizzle=0 nan
// Tensor loads, 2D and 3D, over all edges, with a swizzle of 0 bytes.
#define WIDTH 24
#include "tma_load.cuh"
