/*
 * CUDA devices for the rest of the worker: no CUDA header is needed here.
 *
 * Describing and listing start the driver (cuInit) but make no context: they take no memory of the
 * GPU and may run in the worker's main process.
 */
#ifndef GK_WORKER_CUDA_DEVICE_CUDA_H
#define GK_WORKER_CUDA_DEVICE_CUDA_H

#include "worker/cuda/nvml.h"
#include "worker/device.h"

#define GK_CUDA_GPUS_MAX 64

/* "cuda" (the first), "cuda:1" (in the driver's order, after CUDA_VISIBLE_DEVICES) or
 * "cuda:GPU-<uuid>", "cuda:MIG-<uuid>". GK_MISSING: no driver; GK_NOT_FOUND names what there is. */
enum gk_status gk_device_cuda_open(const struct gk_device_places *places, const char *name,
                                   struct gk_device **device_out, struct gk_err *err);
enum gk_status gk_device_cuda_describe(const struct gk_device_places *places, const char *name,
                                       struct gk_device_props *props_out, struct gk_err *err);

/* All CUDA devices, in the driver's order; the first max are written. GK_MISSING or GK_UNSUPPORTED
 * say why there is none. */
enum gk_status gk_device_cuda_list(const struct gk_device_places *places,
                                   struct gk_device_props *props_out, uint32_t max,
                                   uint32_t *count_out, struct gk_err *err);
/* What the driver says of itself: 13000 for CUDA 13.0, and the file it is. */
enum gk_status gk_device_cuda_driver_about(const struct gk_device_places *places,
                                           int64_t *version_out, char path_out[4096],
                                           struct gk_err *err);

/*
 * What a time on this GPU belongs to: "h200-132sm". Words of the product's name, SMs, and of memory
 * size, power limit and MIG profile what is not usual for the product. Memory is written for
 * products that come in several sizes or are not known here; the power limit where it differs from
 * the product's own (default_mw; -1: the list's of known products; 0 or less for limit_mw: nobody
 * tells, and it is left out).
 */
void gk_cuda_gpu_key(const char *name, int64_t sms, int64_t mem_bytes, int64_t limit_mw,
                     int64_t default_mw, char key_out[64]);

#endif
