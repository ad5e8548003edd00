/* See histogram.h. */
#include "daemon/histogram.h"

static const double bounds[] = GK_HISTOGRAM_BOUNDS;
#define BOUND_COUNT (sizeof bounds / sizeof bounds[0])
_Static_assert(BOUND_COUNT + 1 == GK_HISTOGRAM_BUCKETS, "a bucket a bound, and one without");

const double *gk_histogram_bounds(size_t *count_out)
{
    *count_out = BOUND_COUNT;
    return bounds;
}

void gk_histogram_observe(struct gk_histogram *histogram, double seconds)
{
    size_t at = 0;
    if (!(seconds >= 0 && seconds < 1e9)) {
        return;
    }
    while (at < BOUND_COUNT && seconds > bounds[at]) {
        at++;
    }
    histogram->counts[at]++;
    histogram->sum_s += seconds;
}
