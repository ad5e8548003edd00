/* What a CUDA device is, asked without a context. */
#ifndef GK_WORKER_CUDA_PROPS_H
#define GK_WORKER_CUDA_PROPS_H

#include "worker/cuda/driver.h"
#include "worker/device.h"

/* Which device a name means, and what it is. */
enum gk_status cuda_props_find(const struct gk_cuda_driver *driver,
                               const struct gk_device_places *places, const char *name,
                               CUdevice *device_out, struct gk_device_props *props_out,
                               struct gk_err *err);

#endif
