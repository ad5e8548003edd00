/*
 * One worker a GPU: two that measure on the same one measure each other.
 *
 * The lock is an abstract unix socket named after the UUID, held as long as the process lives. The
 * kernel takes the name back when the holder dies, of whatever. A lock file was rejected: it needs
 * a folder that every user may write to, and a worker of another user could neither open nor remove
 * what a dead one left. Limit: abstract names belong to a network namespace, so workers in two
 * containers do not see each other; NVML's list of processes does (gktune doctor).
 */
#ifndef GK_WORKER_CUDA_GPU_LOCK_H
#define GK_WORKER_CUDA_GPU_LOCK_H

#include "core/status.h"

struct gk_gpu_lock;

/* GK_BUSY names the holder's process where it can be told. The lock does not pass to children that
 * execute another program. */
enum gk_status gk_gpu_lock_take(const char *uuid, struct gk_gpu_lock **lock_out,
                                struct gk_err *err);
void gk_gpu_lock_free(struct gk_gpu_lock *lock);
/* Lets those go who asked for the holder: each leaves a connection that waits to be taken. To be
 * called now and then; after 128 that nobody took, askers are no longer told the process. */
void gk_gpu_lock_tend(struct gk_gpu_lock *lock);
/* Process number of the holder; 0: nobody holds it; -1: somebody whose number is not told. */
int64_t gk_gpu_lock_holder(const char *uuid);

#endif
