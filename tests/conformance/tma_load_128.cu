// case: target=90 block=128 out=4096
// map: in bf16 dims=200,37 box=64,32 swizzle=128
// map: in bf16 dims=40,9,5 box=64,4,3 swizzle=128 nan
// Tensor loads, 2D and 3D, over all edges, with a swizzle of 128 bytes.
#define WIDTH 64
#include "tma_load.cuh"
