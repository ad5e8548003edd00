/* A kernel of the CUDA device: found by cuda_module.c, launched by cuda_launch.c. */
#ifndef GK_WORKER_CUDA_KERNEL_H
#define GK_WORKER_CUDA_KERNEL_H

#include "worker/cuda/cuda_inside.h"

struct cuda_kernel {
    struct cuda_kernel *next; /* of the same module, which owns all */
    CUfunction function;
    char name[128];
    int threads_max, static_smem, regs;
    bool params_known; /* the driver tells what the kernel takes */
    uint32_t param_count, param_bytes[GK_LAUNCH_ARGS_MAX + 1];
    /* What was set last: setting again costs a call of the driver a launch. */
    uint32_t smem_allowed;
    int32_t carveout; /* -1: as the driver chooses */
    bool nonportable;
};

#endif
