// case: target=90 block=128 out=4096
// map: in bf16 dims=200,37 box=32,32 swizzle=64
// map: in bf16 dims=40,9,5 box=32,4,3 swizzle=64 nan
// Tensor loads, 2D and 3D, over all edges, with a swizzle of 64 bytes.
#define WIDTH 32
#include "tma_load.cuh"
