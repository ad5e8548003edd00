/*
 * A plan on a device: its buffers, their content before a run, and its launches in order.
 */
#ifndef GK_WORKER_RUNNER_H
#define GK_WORKER_RUNNER_H

#include "kernels/render.h"
#include "worker/buffers.h"
#include "worker/compiler.h"

struct gk_memory {
    struct gk_buffer tensors[GK_TENSORS_MAX];
    struct gk_buffer workspaces[GK_WORKSPACES_MAX];
    struct gk_buffer results[GK_TENSORS_MAX]; /* of a reference: pairs of doubles */
};

/* Host copies of the inputs, by tensor; NULL for outputs and absent tensors. */
struct gk_inputs {
    unsigned char *tensors[GK_TENSORS_MAX];
};

/* What dev.work_limit is compared with: the reference takes some 20 thread instructions for the two
 * operations of a product in double. */
#define GK_INSTRUCTIONS_A_FLOP 10

/* Bytes of a tensor's buffer. */
size_t gk_plan_tensor_bytes(const struct gk_plan_tensor *tensor);

/* Allocates every present tensor and workspace; for a reference's plan also its results. */
enum gk_status gk_memory_make(struct gk_device *device, const struct gk_plan *plan,
                              struct gk_memory *memory_out, struct gk_err *err);
void gk_memory_free(struct gk_device *device, struct gk_memory *memory);
/* Content before a run: inputs written, outputs poisoned, workspaces as their init says. `first`:
 * also zero_kept workspaces, which afterwards are the kernel's to restore. */
enum gk_status gk_memory_reset(struct gk_device *device, const struct gk_plan *plan,
                               const struct gk_memory *memory, const struct gk_inputs *inputs,
                               bool first, struct gk_err *err);

/* Modules and kernels of a plan's present launches. */
struct gk_loaded {
    struct gk_device_module *modules[GK_LAUNCHES_MAX];
    struct gk_device_kernel *kernels[GK_LAUNCHES_MAX];
    uint32_t regs[GK_LAUNCHES_MAX]; /* 0: unknown */
};

/* codes[i] is launch i's code (NULL where it is absent). */
enum gk_status gk_plan_load(struct gk_device *device, const struct gk_plan *plan,
                            const struct gk_compile_output *const *codes,
                            struct gk_loaded *loaded_out, struct gk_err *err);
void gk_plan_unload(struct gk_device *device, struct gk_loaded *loaded);

struct gk_run {
    double plan_ns, run_ns;
    struct gk_device_report report; /* of the launch that failed, or all counters added up */
    const char *launch;             /* name of the launch that failed */
};

/* Runs the plan-phase launches, then the run-phase ones. GK_TRIAL: run_out->report says which
 * failure. GK_INPUT, GK_LIMIT, ...: the launch named in err is not possible. */
enum gk_status gk_plan_run(struct gk_device *device, const struct gk_plan *plan,
                           const struct gk_loaded *loaded, const struct gk_memory *memory,
                           struct gk_run *run_out, struct gk_err *err);
/* What a recording of the pipeline holds: workspaces that must be zero, then the run-phase
 * launches. The device runs it at once unless it is recording. `overlap`: the first launch keeps
 * its attribute pdl, so that it may begin before what is ahead of the pipeline has ended. Errors as
 * of gk_plan_run. */
enum gk_status gk_plan_issue(struct gk_device *device, const struct gk_plan *plan,
                             const struct gk_loaded *loaded, const struct gk_memory *memory,
                             bool overlap, struct gk_run *run_out, struct gk_err *err);

/* One run-phase launch, as it is given to a device. */
struct gk_issue {
    struct gk_device_kernel *kernel;
    struct gk_device_launch launch;
};
/* The run-phase launches in order, ready for launch(), for who puts them there himself; workspaces
 * that must be zero are the caller's too. issues_out has room for GK_LAUNCHES_MAX. */
enum gk_status gk_plan_prepare(struct gk_device *device, const struct gk_plan *plan,
                               const struct gk_loaded *loaded, const struct gk_memory *memory,
                               bool overlap, struct gk_issue *issues_out, uint32_t *count_out,
                               struct gk_err *err);

#endif
