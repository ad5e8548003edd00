/*
 * Outputs against the reference: pure, host memory in, a verdict out.
 *
 * Accepts by err <= bound, never rejects by err > bound, so that NaN fails. Looks at every element,
 * and at the padding between rows, which must still hold its poison.
 */
#ifndef GK_WORKER_VERIFY_H
#define GK_WORKER_VERIFY_H

#include "core/record.h"
#include "kernels/render.h"
#include "worker/inspect/accept_rule.h"

struct gk_verify_input {
    const struct gk_plan_tensor *tensor;
    const unsigned char *got; /* the buffer: span elements, poisoned before the run */
    const double *pairs;      /* (value, magnitude) of each logical element, packed */
    int64_t compare; /* leading logical elements that are compared: rows without owner come last */
    bool exact;      /* bit for bit with the value rounded once */
    bool check_magnitude; /* exact rung: magnitudes beyond what the type holds exactly are op.json's
                             mistake */
    double scale, norm;   /* gk_plan_tolerance() */
};

struct gk_verdict {
    enum gk_failure failure; /* NONE: passed */
    char text[512];          /* of the failure */
    struct gk_rung rung;     /* everything but its name */
};

/* GK_NOMEM only. */
enum gk_status gk_verify(const struct gk_verify_input *input, struct gk_verdict *verdict_out,
                         struct gk_err *err);

/* Pieces of it, for who has looked at the elements elsewhere (inspect.h). The element at `at`
 * against its pair; and the relative error of the whole from the sums of squares. */
struct gk_accept_rule gk_verify_rule(const struct gk_verify_input *input);
struct gk_judgement gk_verify_element(const struct gk_accept_rule *rule, enum gk_dtype dtype,
                                      const unsigned char *at, const double *pair,
                                      struct gk_accept_element *element_out);
double gk_verify_norm(double error_squares, double want_squares);

/* Index of the first byte that differs, or -1. */
int64_t gk_first_difference(const void *a, const void *b, size_t size);

#endif
