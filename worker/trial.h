/*
 * One trial on a device: limits, load, run, verify, measure; everything ends in a record.
 *
 * The core of an executor process, and a plain library function in tests. What a candidate does
 * wrong is an outcome in the record; a status other than GK_OK means that the worker itself could
 * not go on.
 */
#ifndef GK_WORKER_TRIAL_H
#define GK_WORKER_TRIAL_H

#include "worker/reference.h"

#define GK_INPUT_SETS_ALL UINT32_MAX

struct gk_trial {
    const struct gk_op *op;
    const struct gk_template *template_;
    const struct gk_problem *problem;
    const struct gk_config *config;
    const struct gk_compile_output *codes[GK_LAUNCHES_MAX]; /* by launch; NULL where it is absent */
    const struct gk_compile_output *reference_code;
    uint32_t input_set; /* 0..3, or GK_INPUT_SETS_ALL (finalists) */
    double best_ns;     /* of the task so far; 0: none */
    bool measure_only;  /* verified before: a pass of a final round */
};

struct gk_trial_bench { /* what an executor keeps between trials */
    struct gk_device *device;
    struct gk_references *references;
};

/* record_out must be initialised; it is filled in any case. */
enum gk_status gk_trial_run(const struct gk_trial_bench *bench, const struct gk_trial *trial,
                            struct gk_record *record_out, struct gk_err *err);

/* Facts of every launch from its compile log, into `record` too; facts_out has plan->launch_count
 * entries. */
void gk_trial_facts(const struct gk_plan *plan, const struct gk_compile_output *const *codes,
                    const struct gk_device_props *dev, struct gk_kernel_facts *facts_out,
                    struct gk_record *record);
/* Thread instructions that a problem is expected to take on an emulated device, reference included:
 * what is compared with dev.work_limit before anything runs. */
double gk_trial_work(double flops);

#endif
