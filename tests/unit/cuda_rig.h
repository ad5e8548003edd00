/* A CUDA device over the doubles of tests/support. */
#ifndef GK_TESTS_UNIT_CUDA_RIG_H
#define GK_TESTS_UNIT_CUDA_RIG_H

#include "tests/support/fake_cuda.h"
#include "worker/cuda/device_cuda.h"

struct cuda_rig {
    struct gk_device_places places;
    struct fake_cuda *fake; /* of the library that the device opens */
    struct gk_device *device;
    const struct gk_device_ops *ops;
    struct gk_device_module *module;
    struct gk_err err;
};

/* The doubles as new; nothing is opened. */
void cuda_rig_init(struct cuda_rig *rig);
/* Opens cuda:0 and loads a module with every kernel of the double. */
void cuda_rig_open(struct cuda_rig *rig);
void cuda_rig_close(struct cuda_rig *rig);
/* For cmocka, after the last test: what lost devices could not give back. */
int cuda_rig_teardown(void **state);
struct gk_device_kernel *cuda_rig_find(struct cuda_rig *rig, const char *name);
/* One block of 32 threads, with an address and a count as arguments. */
struct gk_device_launch cuda_rig_launch(uint64_t address, uint32_t count);

#endif
