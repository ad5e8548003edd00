/*
 * NVML, opened at run time: how a GPU is at this moment, and who else uses it.
 *
 * Its few calls are declared by us, so that no header of it is needed. All of it is optional: what
 * cannot be told is -1 (or an empty text), never zero. One thread.
 */
#ifndef GK_WORKER_CUDA_NVML_H
#define GK_WORKER_CUDA_NVML_H

#include "core/status.h"

struct gk_nvml; /* one GPU */

struct gk_nvml_now {
    int64_t sm_clock_khz, memory_clock_khz, temperature_c, power_mw, power_limit_mw;
    int64_t throttle; /* nvmlClocksEventReason bits; 0: none */
};

struct gk_nvml_about {
    int64_t power_default_mw; /* the product's own limit */
    int64_t power_limit_mw;   /* what is enforced */
    int64_t sm_clock_max_khz, memory_clock_max_khz, bus_width_bits;
    char driver[80], vbios[32]; /* "580.65.06"; "" */
};

#define GK_NVML_PROCESSES_MAX 64

/* A device as NVML counts them. */
struct gk_nvml_listed {
    char uuid[64]; /* "GPU-..", or of a part of a GPU "MIG-.." */
    uint32_t gpu;  /* in NVML's order */
    int32_t part;  /* of a GPU in parts, from 0; -1: it is whole */
};

/* All GPUs that NVML shows, those in parts (MIG) by their parts alone; the first max are written.
 * GK_MISSING: no NVML. */
enum gk_status gk_nvml_list(const char *path, struct gk_nvml_listed *listed_out, uint32_t max,
                            uint32_t *count_out, struct gk_err *err);

/* Opens path (NULL: libnvidia-ml.so.1) for the GPU "GPU-..." or "MIG-...". GK_MISSING: no NVML;
 * GK_NOT_FOUND: it does not know the GPU. */
enum gk_status gk_nvml_open(const char *path, const char *uuid, struct gk_nvml **nvml_out,
                            struct gk_err *err);
void gk_nvml_close(struct gk_nvml *nvml);

/* nvml may be NULL: nothing is known then. */
void gk_nvml_look(struct gk_nvml *nvml, struct gk_nvml_now *now_out);
void gk_nvml_about(struct gk_nvml *nvml, struct gk_nvml_about *about_out);
/* Process numbers of those with a compute context on the GPU, our own among them; -1: not known,
 * else how many there are, of which the first max are written (-1 each when there are more than
 * GK_NVML_PROCESSES_MAX). */
int64_t gk_nvml_processes(struct gk_nvml *nvml, int64_t *pids_out, uint32_t max);
/* gk_nvml_look, and how many processes beside this one, which has one, have a context on the GPU
 * (-1: not known), on a thread of their own that is waited for at most `ms`: NVML may wait for ever
 * for a GPU that is gone, and that is no doing of the candidate that is measured. Whoever was
 * silent once is not asked again: nothing is known then. */
void gk_nvml_look_within(struct gk_nvml *nvml, uint64_t ms, struct gk_nvml_now *now_out,
                         int64_t *others_out);

#endif
