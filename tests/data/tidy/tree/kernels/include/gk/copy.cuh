__device__ void bare() { asm volatile("bar.sync 0;"); }
