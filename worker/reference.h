/*
 * Inputs and reference results of a problem, made once and kept in host memory, where no candidate
 * reaches them.
 *
 * The reference is the op's own plain kernel, run on the same device. Entries are dropped least
 * recently used first when their bytes exceed the bound.
 */
#ifndef GK_WORKER_REFERENCE_H
#define GK_WORKER_REFERENCE_H

#include "worker/generate.h"
#include "worker/runner.h"

struct gk_reference {
    struct gk_inputs inputs;
    double *pairs[GK_TENSORS_MAX]; /* by output tensor: (value, magnitude) of each element */
};

struct gk_references;

struct gk_references *gk_references_create(size_t bytes_max); /* NULL when out of memory */
void gk_references_destroy(struct gk_references *references);

/* Makes or finds the entry of (problem, input set or rung). The result is lent until the next
 * call. `plan` is any plan of the op for this problem (its tensors are what the candidate sees).
 * GK_TRIAL and others: the reference itself did not run; the text says so. GK_LIMIT: over the
 * device's work limit, named. */
enum gk_status gk_reference_get(struct gk_references *references, struct gk_device *device,
                                const struct gk_plan *plan, const struct gk_problem *problem,
                                const struct gk_compile_output *code, uint32_t input_set,
                                enum gk_input_kind inputs,
                                const struct gk_reference **reference_out, struct gk_err *err);

#endif
