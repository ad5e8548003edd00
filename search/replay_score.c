/*
 * What runs are worth. See replay_run.h.
 *
 * Of N rows, n drawn without replacement miss the i best ones with probability
 *     S(i) = C(N - i, n) / C(N, n) = S(i - 1) * (N - i + 1 - n) / (N - i + 1),
 * so the best drawn is the i-th best row with probability S(i - 1) - S(i). Sums end where S is too
 * small to count, which is after some 40 N / n rows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/judge.h"
#include "search/replay_run.h"

#define CUTOFF  0.95
#define MOMENTS 1000u /* at which a score looks */
#define NOTHING 1e-17 /* a probability that moves no sum of doubles */

/* Expectation of value(best row drawn); `none` where no row with a time is drawn. */
static double expect(const struct gk_replay_baseline *baseline, uint32_t n, bool fraction)
{
    double sum = 0, missed = 1, total = baseline->count;
    for (uint32_t i = 1; i <= baseline->ok_count && missed > NOTHING; i++) {
        double left = total - i + 1, now = left > n ? missed * (left - n) / left : 0;
        double time = baseline->sorted_ns[i - 1];
        sum += (missed - now) * (fraction ? baseline->best_ns / time : time);
        missed = now;
    }
    return sum + missed * (fraction ? 0 : baseline->worst_ns);
}

double gk_replay_expected_ns(const struct gk_replay_baseline *baseline, uint32_t n)
{
    return expect(baseline, n, false);
}

double gk_replay_expected_fraction(const struct gk_replay_baseline *baseline, uint32_t n)
{
    return expect(baseline, n, true);
}

/* The expectation falls with n: halving finds the first n at or under the cutoff. */
static uint32_t find_cutoff(const struct gk_replay_baseline *baseline)
{
    uint32_t low = 1, high = baseline->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (expect(baseline, middle, false) <= baseline->cutoff_ns) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

enum gk_status gk_replay_baseline_create(const struct gk_recording *recording,
                                         struct gk_replay_baseline **baseline_out,
                                         struct gk_err *err)
{
    uint32_t ok = recording->ok_count, filled = 0;
    struct gk_replay_baseline *baseline = calloc(1, sizeof *baseline);
    if (!baseline || !(baseline->sorted_ns = calloc(ok, sizeof(double)))) {
        goto no_memory;
    }
    for (uint32_t i = 0; i < recording->count; i++) {
        if (recording->rows[i].outcome == GK_REPLAY_OK) {
            baseline->sorted_ns[filled++] = recording->rows[i].time_ns;
        }
    }
    gk_sort(baseline->sorted_ns, ok);
    baseline->count = recording->count;
    baseline->ok_count = ok;
    baseline->best_ns = baseline->sorted_ns[0];
    baseline->worst_ns = baseline->sorted_ns[ok - 1];
    baseline->median_ns = (baseline->sorted_ns[(ok - 1) / 2] + baseline->sorted_ns[ok / 2]) / 2;
    baseline->mean_cost_ns = recording->mean_cost_ns;
    baseline->cutoff_ns = baseline->median_ns - CUTOFF * (baseline->median_ns - baseline->best_ns);
    baseline->cutoff_evals = find_cutoff(baseline);
    baseline->cutoff_time_ns = baseline->cutoff_evals * baseline->mean_cost_ns;
    baseline->expected_ns = calloc(baseline->cutoff_evals + 1u, sizeof(double));
    if (!baseline->expected_ns) {
        goto no_memory;
    }
    for (uint32_t n = 1; n <= baseline->cutoff_evals + 1; n++) {
        baseline->expected_ns[n - 1] = expect(baseline, n, false);
    }
    *baseline_out = baseline;
    return GK_OK;
no_memory:
    gk_replay_baseline_destroy(baseline);
    return gk_fail(err, GK_NOMEM, "no memory for the times of %u rows", recording->count);
}

void gk_replay_baseline_destroy(struct gk_replay_baseline *baseline)
{
    if (baseline) {
        free(baseline->sorted_ns);
        free(baseline->expected_ns);
        free(baseline);
    }
}

/* ------------------------------------------------------------------ over runs */

static void summarize(double *values, uint32_t count, struct gk_replay_stats *out)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    double mean = sum / count;
    for (uint32_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    gk_sort(values, count);
    out->mean = mean;
    out->sd = count > 1 ? sqrt(squares / (count - 1)) : 0;
    out->p10 = values[(count - 1) / 10];
    out->p90 = values[(count - 1) - (count - 1) / 10];
}

/* Best of a run after so many evaluations and so much time; 0: nothing was found yet. */
static double best_at(const struct gk_replay_trace *trace, double evals, double time_ns)
{
    double best = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        if (trace->steps[i].evals > evals || trace->steps[i].elapsed_ns > time_ns) {
            break;
        }
        best = trace->steps[i].best_ns;
    }
    return best;
}

static enum gk_status fractions(const struct gk_replay_baseline *baseline,
                                const struct gk_replay_trace *traces, uint32_t count, double evals,
                                double time_ns, struct gk_replay_stats *stats_out,
                                struct gk_err *err)
{
    double *values = calloc(count + 1u, sizeof values[0]);
    if (!values || !count) {
        free(values);
        return gk_fail(err, count ? GK_NOMEM : GK_INPUT, "statistics over %u runs", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        double best = best_at(&traces[i], evals, time_ns);
        values[i] = best > 0 ? baseline->best_ns / best : 0;
    }
    summarize(values, count, stats_out);
    free(values);
    return GK_OK;
}

enum gk_status gk_replay_at_evals(const struct gk_replay_baseline *baseline,
                                  const struct gk_replay_trace *traces, uint32_t count,
                                  uint32_t evals, struct gk_replay_stats *stats_out,
                                  struct gk_err *err)
{
    return fractions(baseline, traces, count, evals, INFINITY, stats_out, err);
}

enum gk_status gk_replay_at_time(const struct gk_replay_baseline *baseline,
                                 const struct gk_replay_trace *traces, uint32_t count,
                                 double time_ns, struct gk_replay_stats *stats_out,
                                 struct gk_err *err)
{
    return fractions(baseline, traces, count, INFINITY, time_ns, stats_out, err);
}

/* Random search's expectation at a moment, linear between whole evaluations. */
static double random_at(const struct gk_replay_baseline *baseline, double time_ns)
{
    double n = baseline->mean_cost_ns > 0 ? time_ns / baseline->mean_cost_ns : 1;
    n = n < 1 ? 1 : n;
    n = n > baseline->cutoff_evals ? baseline->cutoff_evals : n;
    uint32_t below = (uint32_t)n;
    double part = n - below;
    return baseline->expected_ns[below - 1] * (1 - part) + baseline->expected_ns[below] * part;
}

static double score_of(const struct gk_replay_baseline *baseline,
                       const struct gk_replay_trace *trace)
{
    double first = baseline->mean_cost_ns, last = baseline->cutoff_time_ns, sum = 0;
    for (uint32_t i = 0; i < MOMENTS; i++) {
        double time = first + (last - first) * i / (MOMENTS - 1);
        double random = random_at(baseline, time), best = best_at(trace, INFINITY, time);
        best = best > 0 ? best : baseline->worst_ns;
        double way = random - baseline->best_ns;
        sum += way > 0 ? (random - best) / way : best <= baseline->best_ns;
    }
    return sum / MOMENTS;
}

enum gk_status gk_replay_score(const struct gk_replay_baseline *baseline,
                               const struct gk_replay_trace *traces, uint32_t count,
                               struct gk_replay_stats *stats_out, struct gk_err *err)
{
    double *values = calloc(count + 1u, sizeof values[0]);
    if (!values || !count) {
        free(values);
        return gk_fail(err, count ? GK_NOMEM : GK_INPUT, "a score over %u runs", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = score_of(baseline, &traces[i]);
    }
    summarize(values, count, stats_out);
    free(values);
    return GK_OK;
}
