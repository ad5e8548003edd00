#include <gk/base.cuh>
#include "parts.cuh"
#include "../vec/parts.cuh"
#include "lost_parts.cuh"
#include <parts.cuh>
__device__ void bare() { asm volatile("bar.sync 0;"); }
