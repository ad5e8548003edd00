/*
 * Every CUDA device that a worker of this process may have.
 *
 * The driver shows a process what CUDA_VISIBLE_DEVICES leaves, but of MIG instances one alone, and
 * beside one no whole GPU: on such a host NVML says what else there is, and each of those is
 * described by a process of its own that sees nothing but it (gktune-worker --child=describe), as
 * its executor will. What CUDA_VISIBLE_DEVICES leaves out stays out: Slurm and Kubernetes bind so.
 *
 * One thread.
 */
#ifndef GK_WORKER_GPU_LIST_H
#define GK_WORKER_GPU_LIST_H

#include "core/device_props.h"

/* In the driver's order, then in NVML's; the first max are written. GK_MISSING or GK_UNSUPPORTED
 * say why there is none. */
enum gk_status gk_gpu_list(struct gk_device_props *props_out, uint32_t max, uint32_t *count_out,
                           struct gk_err *err);

/* As gk_device_describe(), also of a device that the driver does not show this process. */
enum gk_status gk_gpu_describe(const char *name, struct gk_device_props *props_out,
                               struct gk_err *err);

/* The UUID in "cuda:GPU-.." or "cuda:MIG-.."; NULL: the name holds none. A process that is for this
 * device alone has it in CUDA_VISIBLE_DEVICES before the driver starts. */
const char *gk_gpu_uuid(const char *name);

/* What --child=describe does: prints the properties of the device as a line of JSON. The exit
 * status. */
int gk_child_describe(const char *name);

#endif
