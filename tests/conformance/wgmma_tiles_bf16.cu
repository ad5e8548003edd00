// case: target=90 block=128 out=1024
// wgmma on small integers, bf16, of every width that tiles have.
#define TYPE bf16
#include "wgmma_tiles.cuh"
