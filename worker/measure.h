/*
 * Staged sampling: a few samples, then enough for a stable median. Pure: time comes from the
 * sampler.
 */
#ifndef GK_WORKER_MEASURE_H
#define GK_WORKER_MEASURE_H

#include "core/record.h"

struct gk_measure_rule {
    uint32_t few;         /* samples before the first decision: 3 or more */
    uint32_t samples_max; /* at most GK_SAMPLES_MAX */
    double half_width; /* enough when the median's 95 % interval is within this part of it: 0.005 */
};

struct gk_measured {
    double samples_ns[GK_SAMPLES_MAX];
    uint32_t count;
    double median_ns;
    bool stable; /* the interval was reached */
};

/* Takes one sample in ns, more than 0. A failure ends the measurement with its status. */
typedef enum gk_status (*gk_sample_cb)(void *context, double *ns_out, struct gk_err *err);

enum gk_status gk_measure(const struct gk_measure_rule *rule, gk_sample_cb sample, void *context,
                          struct gk_measured *measured_out, struct gk_err *err);

#endif
