/* Staged sampling: see measure.h. */
#include "worker/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void sorted(const double *values, uint32_t count, double list[GK_SAMPLES_MAX])
{
    memcpy(list, values, count * sizeof *values);
    qsort(list, count, sizeof *list, by_value);
}

static double median(const double *values, uint32_t count)
{
    double list[GK_SAMPLES_MAX];
    sorted(values, count, list);
    return count % 2 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

/* The ranks around the middle that hold the true median with 95 % for any distribution: n/2 -+ 0.98
 * sqrt(n). */
static double interval_half(const double *values, uint32_t count)
{
    double list[GK_SAMPLES_MAX], reach = 0.98 * sqrt(count);
    sorted(values, count, list);
    double low = floor(count / 2.0 - reach), high = ceil(count / 2.0 + reach);
    uint32_t from = low > 0 ? (uint32_t)low : 0;
    uint32_t to = high < count ? (uint32_t)high : count - 1;
    return (list[to] - list[from]) / 2;
}

enum gk_status gk_measure(const struct gk_measure_rule *rule, gk_sample_cb sample, void *context,
                          struct gk_measured *measured_out, struct gk_err *err)
{
    uint32_t most = rule->samples_max < GK_SAMPLES_MAX ? rule->samples_max : GK_SAMPLES_MAX;
    memset(measured_out, 0, sizeof *measured_out);
    while (measured_out->count < most) {
        double ns = 0;
        enum gk_status status = sample(context, &ns, err);
        if (status == GK_OK && !(ns > 0 && isfinite(ns))) {
            status = gk_fail(err, GK_RANGE, "a sample of %g ns; more than 0 is allowed", ns);
        }
        if (status != GK_OK) {
            return status;
        }
        measured_out->samples_ns[measured_out->count++] = ns;
        measured_out->median_ns = median(measured_out->samples_ns, measured_out->count);
        measured_out->stable = measured_out->count >= rule->few &&
                               interval_half(measured_out->samples_ns, measured_out->count) <=
                                   rule->half_width * measured_out->median_ns;
        if (measured_out->stable) {
            break;
        }
    }
    return GK_OK;
}
