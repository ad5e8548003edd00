// case: target=90 block=128 out=1024
// wgmma on small integers, f16, of every width that tiles have.
#define TYPE f16
#include "wgmma_tiles.cuh"
