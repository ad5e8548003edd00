/*
 * A plan on the emulated device, for the tests of kernels: buffers with the promised alignment and
 * no more, launches compiled by NVRTC, parameters laid out. The tests bring inputs and judge
 * outputs.
 */
#ifndef GK_TESTS_UNIT_PLAN_RUN_H
#define GK_TESTS_UNIT_PLAN_RUN_H

#include "kernels/render.h"
#include "worker/emu/emu.h"

struct plan_run {
    struct gk_emu *emu;
    const struct gk_catalog *catalog;
    uint64_t tensors[GK_TENSORS_MAX];    /* address of the first element; 0: does not exist */
    unsigned char *host[GK_TENSORS_MAX]; /* the span of each tensor; an `in` one is uploaded */
    uint64_t results[GK_TENSORS_MAX];    /* pairs of doubles of the reference */
};

/* Allocates host and device buffers of every tensor; host bytes are `fill`. Fails the test on
 * error. */
void plan_run_init(struct plan_run *run, struct gk_emu *emu, const struct gk_catalog *catalog,
                   const struct gk_plan *plan, unsigned char fill);
void plan_run_fini(struct plan_run *run);
/* Bytes of a tensor's host buffer: its span. */
size_t plan_run_bytes(const struct gk_plan *plan, uint32_t tensor);
/* Host buffers to the device; outputs count as unwritten afterwards. */
void plan_run_upload(struct plan_run *run, const struct gk_plan *plan);
/* Uploads, runs every present launch, downloads `out` and `inout`. Output
 * bytes that the kernel did not write keep the host's fill. */
void plan_run_launches(struct plan_run *run, const struct gk_plan *plan, const char *what);
/* Runs the reference's plan over the tensors uploaded before and copies the pairs of `tensor`. */
void plan_run_reference(struct plan_run *run, const struct gk_plan *reference, uint32_t tensor,
                        double *pairs_out, const char *what);

/* Where a launch finds what its arguments name, by index; 0: does not exist. */
struct plan_addresses {
    const uint64_t *tensors, *results, *workspaces;
};

/* One launch of a plan, of a module that is loaded; the status is that of the launch. */
enum gk_status plan_launch(struct gk_emu *emu, struct gk_emu_module *module,
                           const struct gk_plan_launch *planned, const struct plan_addresses *at,
                           struct gk_emu_report *report, struct gk_err *err);

#endif
