/*
 * A histogram of durations as Prometheus wants one: fixed bounds, counts, a sum. Plain memory, no
 * locks: the loop's thread observes and renders.
 */
#ifndef GK_DAEMON_HISTOGRAM_H
#define GK_DAEMON_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Upper bounds in seconds: a commit takes 0.3 ms, a trial seconds, a final round minutes. The last
 * bucket has none. */
#define GK_HISTOGRAM_BOUNDS                                                                        \
    {                                                                                              \
        0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,   \
            30, 60, 300                                                                            \
    }
#define GK_HISTOGRAM_BUCKETS 19

struct gk_histogram {
    uint64_t counts[GK_HISTOGRAM_BUCKETS]; /* of each bucket alone, not cumulative */
    double sum_s;
};

/* Negative and not finite times are not counted: they are no duration. */
void gk_histogram_observe(struct gk_histogram *histogram, double seconds);
/* Bounds of the buckets but for the last one. */
const double *gk_histogram_bounds(size_t *count_out);

#endif
