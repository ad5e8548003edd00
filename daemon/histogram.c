/* See histogram.h. */
#include "daemon/histogram.h"

static const double bounds[] = GK_HISTOGRAM_BOUNDS;
static const double count_bounds[] = GK_HISTOGRAM_COUNT_BOUNDS;
#define BOUND_COUNT (sizeof bounds / sizeof bounds[0])
_Static_assert(BOUND_COUNT + 1 == GK_HISTOGRAM_BUCKETS, "a bucket a bound, and one without");
_Static_assert(sizeof count_bounds == sizeof bounds, "both kinds have as many");

const double *gk_histogram_bounds(size_t *count_out)
{
    *count_out = BOUND_COUNT;
    return bounds;
}

const double *gk_histogram_count_bounds(size_t *count_out)
{
    *count_out = BOUND_COUNT;
    return count_bounds;
}

static void put(struct gk_histogram *histogram, const double *upper, double value)
{
    size_t at = 0;
    while (at < BOUND_COUNT && value > upper[at]) {
        at++;
    }
    histogram->counts[at]++;
    histogram->sum_s += value;
}

void gk_histogram_observe(struct gk_histogram *histogram, double seconds)
{
    if (seconds >= 0 && seconds < 1e9) {
        put(histogram, bounds, seconds);
    }
}

void gk_histogram_observe_count(struct gk_histogram *histogram, uint64_t count)
{
    put(histogram, count_bounds, (double)count);
}
