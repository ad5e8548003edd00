/*
 * Configs of the ops under kernels/ through a whole trial on the emulated device, as an executor
 * runs them: rendered, compiled, verified on the ladder.
 */
#ifndef GK_TESTS_UNIT_OP_TRIAL_H
#define GK_TESTS_UNIT_OP_TRIAL_H

#include "worker/compile_job.h"
#include "worker/trial.h"

struct op_trial_rig {
    struct gk_compiler *compiler;
    struct gk_device *device;
    struct gk_references *references;
    struct gk_trial_bench bench;
};

/* 0, or -1 with a message; ends the process with 77 (skipped) where there is no NVRTC. */
int op_trial_open(struct op_trial_rig *rig, const char *device);
void op_trial_close(struct op_trial_rig *rig);
/* Fails the test with the status and its message. */
void op_trial_need(enum gk_status status, const struct gk_err *err);
/* One op of the folder of ops at `root`; fails the test with the first mistake in it. */
struct gk_catalog *op_trial_catalog(const char *root, const char *op);
/* The first legal config with these values ("PIECES=1,LOAD=cg"), or with none the default; returns
 * its tree. Fails the test where there is none. */
uint32_t op_trial_config(const struct gk_op *op, const struct gk_problem *problem,
                         const struct gk_space_def *def, const char *values,
                         struct gk_config *config);

/* What a test asks for by texts. */
struct op_trial_asked {
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_config config;
    uint32_t tree; /* of def.trees, the config's */
};
/* `text`: the problem with the op's name; the config as op_trial_config finds it among those legal
 * on `props`. Fails the test with what is not legal. */
void op_trial_ask(const struct gk_op *op, const char *text, const struct gk_device_props *props,
                  const char *values, struct op_trial_asked *asked_out);
void op_trial_asked_fini(struct op_trial_asked *asked);

/* One launch of a plan; fails the test where it does not compile. */
void op_trial_compile(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                      const struct gk_plan *plan, uint32_t launch,
                      struct gk_compile_output *output);
/* One config on one input set, or on all (GK_INPUT_SETS_ALL); the caller ends the record. Fails the
 * test where nothing comes out: a source does not compile, the worker itself cannot go on. */
void op_trial_run(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                  const struct gk_op *op, const struct gk_problem *problem,
                  const struct gk_config *config, uint32_t set, struct gk_record *record);

/* The first legal config with these values (as op_trial_config takes them) on the problem with
 * these fields, under each of the emulated device's three schedules, on another input set each.
 * Fails the test where one is not verified. */
void op_trial_schedules(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                        const struct gk_op *op, const char *fields, const char *values);

/* op_trial_run in parts, for who runs changed code: `codes` may change between build and run. */
struct op_trial_built {
    const struct gk_op *op; /* as all before `plan`: borrowed */
    const struct gk_template *template_;
    const struct gk_problem *problem;
    const struct gk_config *config;
    struct gk_plan plan;
    struct gk_compile_output codes[GK_LAUNCHES_MAX], reference;
};
void op_trial_build(const struct op_trial_rig *rig, const struct gk_catalog *catalog,
                    const struct gk_op *op, const struct gk_problem *problem,
                    const struct gk_config *config, struct op_trial_built *built);
void op_trial_unbuild(struct op_trial_built *built);
void op_trial_run_built(const struct op_trial_rig *rig, const struct op_trial_built *built,
                        uint32_t set, struct gk_record *record);

#endif
