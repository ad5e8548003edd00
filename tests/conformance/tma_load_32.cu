// case: target=90 block=128 out=4096
// map: in bf16 dims=200,37 box=16,32 swizzle=32
// map: in bf16 dims=40,9,5 box=16,4,3 swizzle=32 nan
// Tensor loads, 2D and 3D, over all edges, with a swizzle of 32 bytes.
#define WIDTH 16
#include "tma_load.cuh"
