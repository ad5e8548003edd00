/*
 * A histogram of durations, or of counts, as Prometheus wants one: fixed bounds, counts, a sum.
 * Plain memory, no locks: the loop's thread observes and renders.
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
/* Upper bounds of counts: a tick of an idle daemon writes a row or two, one of 512 results some
 * thousand. As many as of durations. */
#define GK_HISTOGRAM_COUNT_BOUNDS                                                                  \
    {                                                                                              \
        1, 2, 3, 5, 8, 10, 20, 30, 50, 80, 100, 200, 300, 500, 1000, 2000, 5000, 10000             \
    }

struct gk_histogram {
    uint64_t counts[GK_HISTOGRAM_BUCKETS]; /* of each bucket alone, not cumulative */
    double sum_s; /* seconds; of counts their sum */
};

/* Negative and not finite times are not counted: they are no duration. */
void gk_histogram_observe(struct gk_histogram *histogram, double seconds);
/* Into a histogram that holds counts alone. */
void gk_histogram_observe_count(struct gk_histogram *histogram, uint64_t count);
/* Bounds of the buckets but for the last one. */
const double *gk_histogram_bounds(size_t *count_out);
const double *gk_histogram_count_bounds(size_t *count_out);

#endif
