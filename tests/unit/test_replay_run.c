/* Runs over recorded spaces, random search's expectation, fractions and scores. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buf.h"
#include "search/replay_run.h"

#define assert_near(got, wanted, most) assert_true(fabs((got) - (wanted)) <= (most))

/* A row of each time (ms); 0 is a failed one. Each costs `cost` ms to compile, and its run. */
static struct gk_recording *record(const double *times, uint32_t count, double cost)
{
    struct gk_replay_reader *reader = NULL;
    struct gk_recording *recording = NULL;
    struct gk_err err = {0};
    struct gk_buf text = {0};
    gk_buf_puts(&text, "{\"tune_params_keys\": [\"A\", \"B\"], \"cache\": {");
    for (uint32_t i = 0; i < count; i++) {
        gk_buf_printf(&text, "%s\"%u,%u\": {\"A\": %u, \"B\": %u, \"compile_time\": %g, ",
                      i ? "," : "", i / 8, i % 8, i / 8, i % 8, cost);
        if (times[i] > 0) {
            gk_buf_printf(&text, "\"time\": %.17g, \"times\": [%.17g, %.17g, %.17g]}", times[i],
                          times[i] * 0.9, times[i], times[i] * 1.4);
        } else {
            gk_buf_puts(&text, "\"time\": \"RuntimeFailedConfig\"}");
        }
    }
    gk_buf_puts(&text, "}}");
    assert_int_equal(gk_replay_reader_create("made", &reader, &err), GK_OK);
    assert_int_equal(gk_replay_feed(reader, text.data, text.size, &err), GK_OK);
    assert_int_equal(gk_replay_finish(reader, &recording, &err), GK_OK);
    gk_replay_reader_destroy(reader);
    gk_buf_fini(&text);
    return recording;
}

/* ------------------------------------------------------------------ expectation */

/* Mean over all subsets of n rows of the best in it. */
static double brute_force(const double *times, uint32_t count, uint32_t n, double worst)
{
    double sum = 0;
    uint32_t sets = 0;
    for (uint32_t set = 0; set < 1u << count; set++) {
        double best = worst;
        if ((uint32_t)__builtin_popcount(set) != n) {
            continue;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (set >> i & 1 && times[i] > 0 && times[i] < best) {
                best = times[i];
            }
        }
        sum += best;
        sets++;
    }
    return sum / sets;
}

static void test_expectation(void **state)
{
    (void)state;
    static const double times[] = {5, 0, 2, 9, 3, 0, 0, 7, 2.5};
    uint32_t count = GK_ARRAY_COUNT(times);
    struct gk_recording *recording = record(times, count, 1);
    struct gk_replay_baseline *baseline = NULL;
    struct gk_err err = {0};
    assert_int_equal(gk_replay_baseline_create(recording, &baseline, &err), GK_OK);
    for (uint32_t n = 1; n <= count; n++) {
        assert_near(gk_replay_expected_ns(baseline, n) * 1e-6, brute_force(times, count, n, 9),
                    1e-9);
    }
    assert_near(baseline->best_ns, 2e6, 1e-3);
    assert_near(baseline->median_ns, 4e6, 1e-3); /* of the ok ones: between 3 and 5 */
    assert_near(baseline->worst_ns, 9e6, 1e-3);
    assert_near(baseline->cutoff_ns, 2.1e6, 1e-3);
    /* The first n whose expectation is there, and not one later. */
    assert_true(gk_replay_expected_ns(baseline, baseline->cutoff_evals) <= baseline->cutoff_ns);
    assert_true(gk_replay_expected_ns(baseline, baseline->cutoff_evals - 1) > baseline->cutoff_ns);
    /* One draw: six of nine find something, each as likely. */
    double wanted = (1 + 2 / 2.5 + 2 / 3. + 2 / 5. + 2 / 7. + 2 / 9.) / 9;
    assert_near(gk_replay_expected_fraction(baseline, 1), wanted, 1e-12);
    assert_near(gk_replay_expected_fraction(baseline, count), 1, 1e-12);
    gk_replay_baseline_destroy(baseline);
    gk_recording_destroy(recording);
}

/* ------------------------------------------------------------------ runs */

static void run(const struct gk_recording *recording, const char *strategy,
                const struct gk_replay_plan *plan, struct gk_replay_trace *trace)
{
    struct gk_err err = {0};
    if (gk_replay_run(recording, gk_strategy_find(strategy), plan, trace, &err) != GK_OK) {
        fail_msg("%s: %s", strategy, err.text);
    }
}

/* Exhaustive goes in the order of the space: every step is known. */
static void test_trace(void **state)
{
    (void)state;
    static const double times[] = {5, 0, 2, 9, 1, 0, 3, 7};
    struct gk_recording *recording = record(times, GK_ARRAY_COUNT(times), 10);
    struct gk_replay_plan plan = {.seed = 1, .evals = 4, .credit = 1};
    struct gk_replay_trace trace = {0};
    run(recording, "exhaustive", &plan, &trace);
    assert_int_equal(trace.evals, 4);
    assert_int_equal(trace.failed, 1);
    assert_int_equal(trace.count, 2);
    assert_int_equal(trace.steps[0].evals, 1);
    assert_int_equal(trace.steps[1].evals, 3);
    assert_near(trace.steps[0].best_ns, 5e6, 1e-3);
    assert_near(trace.steps[1].best_ns, 2e6, 1e-3);
    /* A run costs its compilation and its samples (0.9 + 1 + 1.4 of the time), a failed one too. */
    assert_near(trace.steps[1].elapsed_ns, (30 + 3.3 * 7) * 1e6, 1);
    assert_near(trace.elapsed_ns, (40 + 3.3 * 16) * 1e6, 1);
    gk_replay_trace_fini(&trace);
    plan.evals = 100; /* nothing better than the best can come */
    run(recording, "exhaustive", &plan, &trace);
    assert_int_equal(trace.evals, 5);
    gk_replay_trace_fini(&trace);
    plan.evals = 1; /* time counts too, and a batch is measured whole */
    plan.credit = 2;
    plan.time_ns = 25e6;
    run(recording, "exhaustive", &plan, &trace);
    assert_int_equal(trace.evals, 2);
    gk_replay_trace_fini(&trace);
    gk_recording_destroy(recording);
}

/* With batches ahead the strategy is told late: it has asked (ahead + 1) * credit before the first
 * tell, and still every row is met once. */
static uint32_t asked_count, told_count, most_open;

static enum gk_status watch_ask(struct gk_strategy *self, uint32_t n, uint32_t *indices_out,
                                uint32_t *count_out, struct gk_err *err)
{
    enum gk_status status = gk_strategy_find("random")->ask(self, n, indices_out, count_out, err);
    asked_count += status == GK_OK ? *count_out : 0;
    most_open = asked_count - told_count > most_open ? asked_count - told_count : most_open;
    return status;
}

static void watch_tell(struct gk_strategy *self, const struct gk_tell *tell)
{
    told_count++;
    gk_strategy_find("random")->tell(self, tell);
}

static void test_ahead(void **state)
{
    (void)state;
    double times[50];
    for (int i = 0; i < 50; i++) {
        times[i] = 50 - i;
    }
    struct gk_recording *recording = record(times, 50, 10);
    struct gk_strategy_ops watched = *gk_strategy_find("random");
    watched.ask = watch_ask;
    watched.tell = watch_tell;
    for (uint32_t ahead = 0; ahead < 4; ahead++) {
        struct gk_replay_plan plan = {
            .seed = 1, .evals = 100, .credit = 4, .ahead = ahead, .samples = 1};
        struct gk_replay_trace trace = {0};
        struct gk_err err;
        asked_count = told_count = most_open = 0;
        assert_int_equal(gk_replay_run(recording, &watched, &plan, &trace, &err), GK_OK);
        assert_int_equal(most_open, 4 * (ahead + 1));
        assert_int_equal(asked_count, 50);
        assert_int_equal(told_count, 50);
        assert_int_equal(trace.evals, 50);
        gk_replay_trace_fini(&trace);
    }
    struct gk_replay_plan plan = {.evals = 1, .credit = 4, .ahead = 17};
    struct gk_replay_trace trace = {0};
    assert_int_equal(gk_replay_run(recording, &watched, &plan, &trace, NULL), GK_INPUT);
    gk_recording_destroy(recording);
}

/* Noise: what is told is a median of recorded samples, and what looked best is judged by its
 * recorded time. Without an end in sight all rows are met once. */
static void test_samples(void **state)
{
    (void)state;
    double times[64];
    for (int i = 0; i < 64; i++) {
        times[i] = i % 7 == 3 ? 0 : 10 + (i * 37 % 64) * 0.1;
    }
    struct gk_recording *recording = record(times, 64, 1);
    struct gk_replay_plan plan = {.seed = 3, .evals = 1000, .credit = 5, .samples = 1};
    bool off = false;
    for (plan.seed = 1; plan.seed < 20; plan.seed++) {
        struct gk_replay_trace a = {0}, b = {0};
        run(recording, "random", &plan, &a);
        run(recording, "random", &plan, &b);
        assert_int_equal(a.evals, 64); /* luck may be better than the best: no early end */
        assert_int_equal(a.failed, 9);
        assert_int_equal(a.count, b.count);
        for (uint32_t i = 0; i < a.count; i++) { /* by member: a step has padding */
            assert_int_equal(a.steps[i].evals, b.steps[i].evals);
            assert_true(a.steps[i].elapsed_ns == b.steps[i].elapsed_ns &&
                        a.steps[i].best_ns == b.steps[i].best_ns);
        }
        off |= a.steps[a.count - 1].best_ns > recording->best_ns;
        for (uint32_t i = 0; i < a.count; i++) { /* whatever was told: the recorded times count */
            bool recorded = false;
            for (uint32_t k = 0; k < recording->count; k++) {
                recorded |= recording->rows[k].time_ns == a.steps[i].best_ns;
            }
            assert_true(recorded);
        }
        gk_replay_trace_fini(&a);
        gk_replay_trace_fini(&b);
    }
    assert_true(off);  /* a lucky sample deceived at least one run */
    plan.samples = 30; /* more than there are: all; their median is the time itself */
    plan.seed = 1;
    struct gk_replay_trace trace = {0};
    run(recording, "random", &plan, &trace);
    assert_near(trace.steps[trace.count - 1].best_ns, recording->best_ns, 1e-3);
    gk_replay_trace_fini(&trace);
    gk_recording_destroy(recording);
}

/* ------------------------------------------------------------------ a strategy that cheats */

static uint32_t bad_index;

static enum gk_status bad_create(const struct gk_strategy_setup *setup,
                                 struct gk_strategy **self_out, struct gk_err *err)
{
    (void)setup;
    (void)err;
    *self_out = malloc(1);
    return *self_out ? GK_OK : GK_NOMEM;
}

static void bad_destroy(struct gk_strategy *self)
{
    free(self);
}

static enum gk_status bad_ask(struct gk_strategy *self, uint32_t n, uint32_t *indices_out,
                              uint32_t *count_out, struct gk_err *err)
{
    (void)self;
    (void)err;
    (void)n;
    indices_out[0] = bad_index;
    *count_out = 1;
    return GK_OK;
}

static void bad_tell(struct gk_strategy *self, const struct gk_tell *tell)
{
    (void)self;
    (void)tell;
}

static void test_contract(void **state)
{
    (void)state;
    static const double times[] = {5, 4, 2};
    static const struct gk_strategy_ops bad = {.name = "bad",
                                               .create = bad_create,
                                               .destroy = bad_destroy,
                                               .ask = bad_ask,
                                               .tell = bad_tell};
    struct gk_recording *recording = record(times, GK_ARRAY_COUNT(times), 10);
    struct gk_replay_plan plan = {.seed = 1, .evals = 4, .credit = 1};
    struct gk_replay_trace trace = {0};
    struct gk_err err = {0};
    bad_index = 3;
    assert_int_equal(gk_replay_run(recording, &bad, &plan, &trace, &err), GK_INTERNAL);
    assert_string_equal(err.text, "strategy bad asked for config 3 of 3");
    bad_index = 1;
    assert_int_equal(gk_replay_run(recording, &bad, &plan, &trace, &err), GK_INTERNAL);
    assert_string_equal(err.text, "strategy bad asked twice for config 1");
    plan.credit = 0;
    assert_int_equal(gk_replay_run(recording, &bad, &plan, &trace, &err), GK_INPUT);
    gk_recording_destroy(recording);
}

/* ------------------------------------------------------------------ scores */

static void test_fractions(void **state)
{
    (void)state;
    static const double times[] = {4, 2, 1, 0};
    struct gk_recording *recording = record(times, GK_ARRAY_COUNT(times), 1);
    struct gk_replay_baseline *baseline = NULL;
    struct gk_replay_stats stats;
    struct gk_err err = {0};
    struct gk_replay_step first[] = {{2, 20, 4e6}, {5, 50, 1e6}}, second[] = {{1, 30, 2e6}};
    struct gk_replay_trace traces[3] = {
        {.steps = first, .count = 2}, {.steps = second, .count = 1}, {0}};
    assert_int_equal(gk_replay_baseline_create(recording, &baseline, &err), GK_OK);
    assert_int_equal(gk_replay_at_evals(baseline, traces, 3, 1, &stats, &err), GK_OK);
    assert_near(stats.mean, (0 + 0.5 + 0) / 3, 1e-12);
    assert_int_equal(gk_replay_at_evals(baseline, traces, 3, 4, &stats, &err), GK_OK);
    assert_near(stats.mean, (0.25 + 0.5 + 0) / 3, 1e-12);
    assert_near(stats.sd, 0.25, 1e-12);
    assert_near(stats.p10, 0, 1e-12);
    assert_int_equal(gk_replay_at_time(baseline, traces, 3, 50, &stats, &err), GK_OK);
    assert_near(stats.mean, (1 + 0.5 + 0) / 3, 1e-12);
    assert_int_equal(gk_replay_at_time(baseline, traces, 2, 29, &stats, &err), GK_OK);
    assert_near(stats.mean, 0.125, 1e-12);
    assert_int_equal(gk_replay_at_evals(baseline, traces, 0, 4, &stats, &err), GK_INPUT);
    gk_replay_baseline_destroy(baseline);
    gk_recording_destroy(recording);
}

/* Who knows the best from the start scores 1, who never finds anything less than 0, and random
 * search itself 0 on the mean. */
static void test_score(void **state)
{
    (void)state;
    enum { RUNS = 600 };
    double times[64];
    for (int i = 0; i < 64; i++) {
        times[i] = i % 9 == 5 ? 0 : 1 + (i * 29 % 64) * 0.05;
    }
    struct gk_recording *recording = record(times, 64, 100); /* the same cost for all, almost */
    struct gk_replay_baseline *baseline = NULL;
    struct gk_replay_stats stats;
    struct gk_err err = {0};
    assert_int_equal(gk_replay_baseline_create(recording, &baseline, &err), GK_OK);
    struct gk_replay_step best[] = {{1, 1, 1e6}};
    struct gk_replay_trace known = {.steps = best, .count = 1}, nothing = {0};
    assert_int_equal(gk_replay_score(baseline, &known, 1, &stats, &err), GK_OK);
    assert_near(stats.mean, 1, 1e-12);
    assert_int_equal(gk_replay_score(baseline, &nothing, 1, &stats, &err), GK_OK);
    assert_true(stats.mean < -1);
    struct gk_replay_trace *runs = calloc(RUNS, sizeof runs[0]);
    assert_non_null(runs);
    for (uint32_t i = 0; i < RUNS; i++) {
        struct gk_replay_plan plan = {
            .seed = i, .evals = 1, .time_ns = baseline->cutoff_time_ns, .credit = 1};
        run(recording, "random", &plan, &runs[i]);
    }
    assert_int_equal(gk_replay_score(baseline, runs, RUNS, &stats, &err), GK_OK);
    assert_true(fabs(stats.mean) < 5 * stats.sd / sqrt(RUNS) + 0.03);
    for (uint32_t n = 1; n < 30; n += 7) { /* the runs agree with the computed expectation */
        struct gk_replay_stats at;
        assert_int_equal(gk_replay_at_evals(baseline, runs, RUNS, n, &at, &err), GK_OK);
        assert_true(fabs(at.mean - gk_replay_expected_fraction(baseline, n)) <
                    5 * at.sd / sqrt(RUNS) + 1e-9);
    }
    for (uint32_t i = 0; i < RUNS; i++) {
        gk_replay_trace_fini(&runs[i]);
    }
    free(runs);
    gk_replay_baseline_destroy(baseline);
    gk_recording_destroy(recording);
}

/* A space where all are alike: nothing to divide by. */
static void test_flat(void **state)
{
    (void)state;
    static const double times[] = {2, 2, 2, 0};
    struct gk_recording *recording = record(times, GK_ARRAY_COUNT(times), 0);
    struct gk_replay_baseline *baseline = NULL;
    struct gk_replay_stats stats;
    struct gk_err err = {0};
    struct gk_replay_plan plan = {.seed = 1, .evals = 4, .credit = 8};
    struct gk_replay_trace trace = {0};
    assert_int_equal(gk_replay_baseline_create(recording, &baseline, &err), GK_OK);
    assert_int_equal(baseline->cutoff_evals, 1);
    run(recording, "random", &plan, &trace);
    assert_int_equal(gk_replay_score(baseline, &trace, 1, &stats, &err), GK_OK);
    assert_true(isfinite(stats.mean));
    gk_replay_trace_fini(&trace);
    gk_replay_baseline_destroy(baseline);
    gk_recording_destroy(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expectation), cmocka_unit_test(test_trace),
        cmocka_unit_test(test_samples),     cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_contract),    cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_score),       cmocka_unit_test(test_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
