/*
 * What happened to a trial: stage, outcome, resources, verification, times.
 *
 * Produced by the worker, carried by RESULT, stored by the daemon, shown by the command line. The
 * JSON form is schemas/record.schema.json; to_json and from_json are exact inverses.
 */
#ifndef GK_CORE_RECORD_H
#define GK_CORE_RECORD_H

#include "core/expr.h"
#include "core/hash.h"
#include "core/json.h"

/* Where a trial stands or failed, in order. */
#define GK_STAGE_MAP(X)                                                                            \
    X(RENDER, "render")   /* defines, launches, extents from config and problem */                 \
    X(COMPILE, "compile") /* NVRTC */                                                              \
    X(LIMITS, "limits")   /* after-compile constraints */                                          \
    X(LOAD, "load")                                                                                \
    X(RUN, "run")       /* a launch of verification */                                             \
    X(VERIFY, "verify") /* outputs against the reference */                                        \
    X(MEASURE, "measure")                                                                          \
    X(DONE, "done")

enum gk_stage {
#define GK_STAGE_ENUM(name, text) GK_STAGE_##name,
    GK_STAGE_MAP(GK_STAGE_ENUM)
#undef GK_STAGE_ENUM
};

/* Kinds of failure. Text travels and is stored: append, never rename. */
#define GK_FAILURE_MAP(X)                                                                          \
    X(NONE, "none")                                                                                \
    X(ILLEGAL, "illegal_config") /* a constraint, named in the message */                          \
    X(COMPILE_ERROR, "compile_error")                                                              \
    X(COMPILE_TIMEOUT, "compile_timeout")                                                          \
    X(COMPILE_MEMORY, "compile_memory")                                                            \
    X(COMPILE_CRASH, "compile_crash")                                                              \
    X(RESOURCES, "resources") /* an after-compile constraint or the device's limits */             \
    X(LOAD_ERROR, "load_error")                                                                    \
    X(LAUNCH_ERROR, "launch_error")                                                                \
    X(OUT_OF_BOUNDS, "out_of_bounds")                                                              \
    X(MISALIGNED, "misaligned")                                                                    \
    X(UNWRITTEN_READ, "unwritten_read")                                                            \
    X(RACE, "race")                                                                                \
    X(DEADLOCK, "deadlock")                                                                        \
    X(TRAP, "trap")                                                                                \
    X(UNSUPPORTED, "unsupported_instruction")                                                      \
    X(TIMEOUT, "timeout")       /* the run deadline, then SIGKILL */                               \
    X(CRASH, "crash")           /* the executor died */                                            \
    X(WORK_LIMIT, "work_limit") /* more work than an emulated device takes */                      \
    X(MEMORY, "device_memory")  /* the problem does not fit */                                     \
    X(WRONG, "wrong_result")                                                                       \
    X(NONFINITE, "nonfinite_result")  /* NaN or Inf where the reference has none, or not */        \
    X(NEVER_WRITTEN, "never_written") /* output elements still poisoned */                         \
    X(CANARY, "wrote_outside")        /* canaries around a buffer changed */                       \
    X(INPUT_CHANGED, "input_changed")                                                              \
    X(WORKSPACE, "workspace_not_restored") /* a zero_kept workspace was left dirty */              \
    X(FLOOR, "faster_than_possible")       /* time under the device's floor */                     \
    X(UNSTABLE, "unstable")                                                                        \
    X(REFERENCE,                                                                                   \
      "reference_failed")         /* the reference itself did not run: not the config's fault */   \
    X(QUARANTINED, "quarantined") /* killed executors twice before */                              \
    X(INFRA, "infrastructure")    /* lease lost, worker gone: does not count against it */         \
    X(BAD_OPERAND,                                                                                 \
      "bad_operand") /* a barrier that nobody made, a peer that is not there: seen on emulated     \
                        devices, since hardware calls it a launch error or nothing at all */

enum gk_failure {
#define GK_FAILURE_ENUM(name, text) GK_FAILURE_##name,
    GK_FAILURE_MAP(GK_FAILURE_ENUM)
#undef GK_FAILURE_ENUM
};

const char *gk_stage_name(enum gk_stage stage);
bool gk_stage_from_name(const char *name, enum gk_stage *stage_out);
const char *gk_failure_name(enum gk_failure failure);
bool gk_failure_from_name(const char *name, enum gk_failure *failure_out);

/* What a reader of a time has to know. Text travels and is stored: append, never rename. */
#define GK_MARK_MAP(X)                                                                             \
    X(ONE_SAMPLE, "one_sample")     /* far slower than the best: sampled once */                   \
    X(UNSTABLE, "unstable")         /* the samples' interval did not close within the cap */       \
    X(THROTTLED, "throttled")       /* more samples were throttled than may be dropped */          \
    X(NEAR_FLOOR, "near_floor")     /* within 1.05 of the device's floor */                        \
    X(L2_CARRIED, "l2_carried")     /* slower with twice the sets: the slower time counts */       \
    X(FEW_LAUNCHES, "few_launches") /* so slow that a sample has fewer than the policy wants */    \
    X(SHARED, "shared") /* another process was on the GPU, however often it was timed */           \
    X(NOT_EMULATED, "not_emulated") /* --check could not run it on the emulated device */

enum gk_mark {
#define GK_MARK_ENUM(name, text) GK_MARK_##name,
    GK_MARK_MAP(GK_MARK_ENUM)
#undef GK_MARK_ENUM
        GK_MARK_COUNT
};

const char *gk_mark_name(enum gk_mark mark);

#define GK_LAUNCHES_MAX       8
#define GK_RUNGS_MAX          24
#define GK_SAMPLES_MAX        256
#define GK_RECORD_MESSAGE_MAX 4096  /* bytes of a failure's message kept */
#define GK_RECORD_EXTRA_MAX   16384 /* bytes of counts, and of environment: a row must fit a page */

/* From ptxas's report on one launch's kernel. -1: not reported (no cubin was built). */
struct gk_kernel_resources {
    char kernel[GK_NAME_MAX];
    int64_t regs;
    int64_t spill_bytes; /* stores + loads */
    int64_t static_smem;
    int64_t dynamic_smem;
    int64_t blocks_per_sm;
    int64_t threads;
};

/* One rung of the verification ladder. */
struct gk_rung {
    char name[32]; /* "exact", "reference", ... */
    bool passed;
    int64_t compared;    /* elements */
    int64_t failed;      /* elements over the bound */
    int64_t worst_index; /* -1 when nothing was compared */
    double worst_got, worst_want, worst_bound;
    double norm_error; /* relative Frobenius error; -1 when not computed */
    char tensor[GK_NAME_MAX];
};

struct gk_record {
    enum gk_stage stage;     /* DONE, or where it failed */
    enum gk_failure failure; /* NONE if it is verified and timed */
    char *message;           /* of the failure; NULL if none; owned */
    bool modelled;           /* times are modelled (emulated device) */
    double time_ns; /* median of the samples: the pipeline's `run` launches; 0 unless DONE */
    double plan_ns; /* phase `plan` launches, shown apart; 0 if there are none */
    double samples_ns[GK_SAMPLES_MAX];
    uint32_t sample_count;
    uint32_t samples_taken; /* by which time_ns is known, where they are kept apart; else 0 */
    struct gk_kernel_resources kernels[GK_LAUNCHES_MAX];
    uint32_t kernel_count;
    struct gk_rung rungs[GK_RUNGS_MAX];
    uint32_t rung_count;
    uint32_t input_set; /* 0..3: which seeded input set the trial met */
    bool compile_cached;
    double compile_ns, verify_ns, measure_ns; /* what it cost, by the clock on the wall */
    /* Of that, time in kernels of the candidate; -1: the device does not tell. */
    double gpu_verify_ns, gpu_measure_ns;
    uint32_t marks; /* bit GK_MARK_x */
    struct gk_hash
        code_id; /* of the code sections and evaluated launches: equal ids are measured once */
    struct gk_json *counts;      /* emulated device: sectors, wavefronts, ... ; NULL else; owned */
    struct gk_json *environment; /* driver, NVRTC, host, clocks ...; NULL in a reply that names it
                                    by hash; owned */
};

/* In a record's JSON puts an empty list in the place of its samples, which are kept elsewhere, and
 * their number beside it: a time is worth what it stands on. */
enum gk_status gk_record_drop_samples(struct gk_json *json, const struct gk_json *samples,
                                      struct gk_err *err);

void gk_record_init(
    struct gk_record *record); /* stage RENDER, failure NONE, nothing known of the rest */
void gk_record_fini(struct gk_record *record);
/* Sets failure and message at the stage; message is formatted and bounded. */
void gk_record_fail(struct gk_record *record, enum gk_stage stage, enum gk_failure failure,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
struct gk_json *gk_record_to_json(const struct gk_record *record); /* NULL when out of memory */
enum gk_status gk_record_from_json(const struct gk_json *json, struct gk_record *record_out,
                                   struct gk_err *err);
/* Whether it is the list of rungs of a record, for who keeps one by itself. GK_INPUT names what is
 * wrong. */
enum gk_status gk_rungs_check(const struct gk_json *list, struct gk_err *err);

/* Whether the member `counts` or `environment` of a trial or a pass, if there is one, is an object
 * that fits GK_RECORD_EXTRA_MAX: an error names `where` and the key. */
enum gk_status gk_record_check_extra(const struct gk_json *holder, const char *key,
                                     const char *where, struct gk_err *err);

#endif
