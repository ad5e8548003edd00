/*
 * One trial on a device: limits, load, run, verify, measure; everything ends in a record.
 *
 * The core of an executor process, and a plain library function in tests. What a candidate does
 * wrong is an outcome in the record; a status other than GK_OK means that the worker itself could
 * not go on.
 */
#ifndef GK_WORKER_TRIAL_H
#define GK_WORKER_TRIAL_H

#include "core/policy.h"
#include "worker/reference.h"

#define GK_INPUT_SETS_ALL UINT32_MAX
#define GK_KEPT_MAX       40 /* a final round's entries, and some of the round before */

struct gk_scenes;
struct gk_inspector;
struct gk_kept;

/* How much a time may cost on a measured device. */
struct gk_effort {
    uint32_t samples_min, samples_max;
    double budget_ns;         /* of all samples together */
    double warm_ns, block_ns; /* sustained regime: one sample, the mean of a block; 0: bursts */
};
/* Of a trial while searching: the final round decides, so a sample or two that fill some
 * milliseconds. */
struct gk_effort gk_effort_search(void);
/* Of one entry in one pass of a final round. */
struct gk_effort gk_effort_pass(bool sustained);

/* What a measured device rotates through. */
enum gk_trial_sets {
    GK_TRIAL_SETS_PLAIN,
    GK_TRIAL_SETS_COMPARE, /* and once through twice as many, to see whether data was carried in L2
                            */
    GK_TRIAL_SETS_TWICE    /* it was carried: twice as many */
};

struct gk_trial {
    const struct gk_op *op;
    const struct gk_template *template_; /* NULL: the vendor's library */
    const struct gk_problem *problem;
    const struct gk_config *config;
    const struct gk_compile_output *codes[GK_LAUNCHES_MAX]; /* by launch; NULL where it is absent */
    const struct gk_compile_output *reference_code;
    uint32_t input_set; /* 0..3, or GK_INPUT_SETS_ALL (finalists) */
    double best_ns;     /* of the task so far; 0: none */
    bool measure_only;  /* verified before: a pass of a final round */
    struct gk_effort effort;
    enum gk_trial_sets sets;
    enum gk_policy policy;
    const char *vendor_places; /* where the library may be: see worker/vendor.h */
    /* Devices that time themselves: what was loaded and recorded is kept under this key for the
     * next pass. NULL: it is not. */
    const struct gk_hash *keep;
};

struct gk_trial_bench { /* what an executor keeps between trials */
    struct gk_device *device;
    uint64_t (*now_ns)(void);         /* a steady clock; NULL: costs by the wall are not told */
    struct gk_references *references; /* host ladder */
    /* Where they are computed. NULL: on the device itself. A checker's are on the GPU that it
     * stands beside, which does in no time what takes the emulated device a minute. */
    struct gk_device *references_on;
    struct gk_inspector *inspector; /* device ladder; NULL: the host compares */
    struct gk_scenes *scenes;
    struct gk_kept *kept;
    /* Somebody else was on the GPU in the trial before, however often it was tried again: whoever
     * stays there must not cost every trial four times its samples. NULL: each finds out itself. */
    bool *never_alone;
    /* Of an emulated device of the same target: finalists run there too, on a small problem, and
     * fail for what only it sees. NULL: none. */
    const struct gk_trial_bench *checker;
    const char *no_checker; /* why there is none though one was wanted; NULL: none was */
};

/* A bench that may be another one's checker: the emulated device of that target ("sm_90a").
 * GK_MISSING, or what else gk_device_open says: there is none. */
enum gk_status gk_checker_open(const char *target, struct gk_trial_bench *checker_out,
                               struct gk_err *err);
void gk_checker_close(struct gk_trial_bench *checker);

struct gk_kept *gk_kept_create(void);
void gk_kept_clear(const struct gk_trial_bench *bench);
/* Before the scenes and the device are closed. */
void gk_kept_destroy(const struct gk_trial_bench *bench);

/* record_out must be initialised; it is filled in any case. */
enum gk_status gk_trial_run(const struct gk_trial_bench *bench, const struct gk_trial *trial,
                            struct gk_record *record_out, struct gk_err *err);

/* Facts of every launch from its compile log, into `record` too; facts_out has plan->launch_count
 * entries. */
void gk_trial_facts(const struct gk_plan *plan, const struct gk_compile_output *const *codes,
                    const struct gk_device_props *dev, struct gk_kernel_facts *facts_out,
                    struct gk_record *record);

#endif
