#include <gk/base.cuh>
#include <cuda_fp16.h>
__device__ void wrapped() { asm volatile("bar.sync 0;"); }
