/* search/judge: known rounds and their verdicts, the pick's order, finalists, the stopping rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "search/judge.h"
#include "tests/support/check.h"

static struct gk_round_entry entries[GK_FINALISTS_MAX];
static struct gk_round_verdict verdict;
static struct gk_err err;

/* Entry i takes ns[i], times a drift that all share in a pass, times noise of its own. */
static void make_round(const double *ns, uint32_t count, uint32_t passes, double noise)
{
    struct gk_prng prng;
    gk_prng_init(&prng, 11, 0);
    memset(entries, 0, sizeof entries);
    for (uint32_t pass = 0; pass < passes; pass++) {
        double drift = noise > 0 ? 1 + 0.2 * gk_prng_unit(&prng) : 1;
        for (uint32_t i = 0; i < count; i++) {
            double own = 1 + noise * (2 * gk_prng_unit(&prng) - 1);
            entries[i].pass_ns[pass] = ns[i] * drift * own;
            entries[i].pass_count = passes;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i].twin = -1;
        entries[i].order = i;
        entries[i].resource_rank = 100;
    }
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
    assert_true(gk_median(odd, 3) == 2 && gk_median(even, 4) == 2.5 && gk_median(one, 1) == 7);
}

static void equal_samples_settle_at_once(void **state)
{
    (void)state;
    const double ns[] = {100, 100, 100.4, 101};
    make_round(ns, 4, 2, 0);
    entries[0].twin = 1;
    assert_ok(gk_judge_round(entries, 4, 1, &verdict, &err), err);
    assert_int_equal(verdict.best, 0);
    assert_true(verdict.noise_floor == 0 && verdict.margin == GK_TIE_MARGIN);
    assert_true(verdict.settled);
    assert_true(verdict.entries[0].ratio == 1 && verdict.entries[0].high == 1);
    assert_true(verdict.entries[0].tied && verdict.entries[2].tied);
    assert_false(verdict.entries[1].tied); /* a copy: the first stands for both */
    assert_false(verdict.entries[3].tied);
    assert_int_equal(verdict.tie_count, 2);
    make_round(ns, 4, 1, 0);
    assert_ok(gk_judge_round(entries, 4, 1, &verdict, &err), err);
    assert_false(verdict.settled); /* one pass shows no spread */
}

static void a_clear_winner_through_a_drift(void **state)
{
    (void)state;
    const double ns[] = {105, 100, 110}; /* the drift is 20 %: only pairing sees through it */
    make_round(ns, 3, 9, 0.002);
    assert_ok(gk_judge_round(entries, 3, 5, &verdict, &err), err);
    assert_int_equal(verdict.best, 1);
    assert_int_equal(verdict.tie_count, 1);
    assert_true(verdict.settled);
    assert_true(verdict.entries[0].low > 1.04 && verdict.entries[0].high < 1.06);
    struct gk_round_verdict again;
    assert_ok(gk_judge_round(entries, 3, 5, &again, &err), err);
    assert_memory_equal(&again, &verdict, sizeof again);
    make_round(ns, 3, 3, 0.002);
    assert_ok(gk_judge_round(entries, 3, 5, &verdict, &err), err);
    assert_false(verdict.settled); /* parted, but on three passes */
}

static void noisy_ties_and_the_twins_floor(void **state)
{
    (void)state;
    const double ns[] = {100, 100.2, 100.1, 100, 140};
    make_round(ns, 5, 15, 0.03);
    entries[0].twin = 3;
    assert_ok(gk_judge_round(entries, 5, 2, &verdict, &err), err);
    assert_true(verdict.noise_floor > 0.005 && verdict.noise_floor < 0.05);
    assert_true(verdict.margin == verdict.noise_floor);
    assert_int_equal(verdict.tie_count, 3);
    assert_false(verdict.entries[4].tied || verdict.entries[3].tied);
    assert_true(verdict.entries[0].low <= verdict.entries[0].ratio &&
                verdict.entries[0].ratio <= verdict.entries[0].high);
}

/* 2 % apart with 2 % noise: five passes cannot say, two hundred can. */
static void more_passes_part_the_intervals(void **state)
{
    (void)state;
    const double ns[] = {100, 102};
    make_round(ns, 2, 5, 0.02);
    assert_ok(gk_judge_round(entries, 2, 2, &verdict, &err), err);
    assert_false(verdict.settled);
    make_round(ns, 2, 200, 0.02);
    assert_ok(gk_judge_round(entries, 2, 2, &verdict, &err), err);
    assert_true(verdict.settled);
    assert_int_equal(verdict.tie_count, 1);
}

static void dropped_and_vendor_are_not_picked(void **state)
{
    (void)state;
    const double ns[] = {50, 100, 80, 100.1};
    make_round(ns, 4, 6, 0);
    entries[0].dropped = true;
    entries[0].pass_count = 2;
    entries[2].is_vendor = true;
    assert_ok(gk_judge_round(entries, 4, 2, &verdict, &err), err);
    assert_int_equal(verdict.best, 1);
    assert_int_equal(verdict.tie_count, 2);
    assert_true(fabs(verdict.entries[2].ratio - 0.8) < 1e-12);
    assert_false(verdict.entries[2].tied || verdict.entries[0].tied);
    assert_int_equal(gk_judge_pick(entries, &verdict, 4, NULL, NULL), 1);
    for (int i = 0; i < 4; i++) {
        entries[i].dropped = true;
    }
    assert_status(gk_judge_round(entries, 4, 2, &verdict, &err), GK_NO_PICK, err);
    assert_status(gk_judge_round(entries, 0, 2, &verdict, &err), GK_NO_PICK, err);
}

static void bad_rounds_are_refused(void **state)
{
    (void)state;
    const double ns[] = {50, 100};
    make_round(ns, 2, 6, 0);
    entries[1].pass_count = 0;
    assert_status(gk_judge_round(entries, 2, 2, &verdict, &err), GK_INPUT, err);
    assert_contains(err.text, "entry 1 of the round has 0 passes; allowed: 1 to 256");
    make_round(ns, 2, 6, 0);
    entries[1].pass_ns[3] = NAN;
    assert_status(gk_judge_round(entries, 2, 2, &verdict, &err), GK_INPUT, err);
    assert_contains(err.text, "pass 3 took nan");
    make_round(ns, 2, 6, 0);
    entries[1].twin = 2;
    assert_status(gk_judge_round(entries, 2, 2, &verdict, &err), GK_INPUT, err);
    assert_status(gk_judge_round(entries, GK_FINALISTS_MAX + 1, 2, &verdict, &err), GK_LIMIT, err);
}

static void the_pick_follows_its_rule(void **state)
{
    (void)state;
    const double ns[] = {100, 100, 100, 100, 200};
    const char *reason = NULL;
    const uint32_t popularity[] = {3, 9, 9, 1, 50}, flat[] = {2, 2, 2, 2, 2};
    make_round(ns, 5, 2, 0);
    entries[2].is_incumbent = true;
    entries[0].is_default = true;
    entries[4].is_incumbent = false;
    assert_ok(gk_judge_round(entries, 5, 1, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, popularity, &reason), 2);
    assert_string_equal(reason, "incumbent");
    entries[2].is_incumbent = false;
    entries[4].is_incumbent = true; /* not tied: loses its right */
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, popularity, &reason), 0);
    assert_string_equal(reason, "default");
    entries[0].is_default = false;
    entries[1].resource_rank = 120;
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, popularity, &reason), 2);
    assert_string_equal(reason, "fewest resources"); /* among the two most popular */
    const uint32_t lone[] = {3, 9, 2, 1, 50};
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, lone, &reason), 1);
    assert_string_equal(reason, "in most tie sets");
    entries[3].order = 0;
    entries[0].order = 3;
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, flat, &reason), 3);
    assert_string_equal(reason, "first in declared order");
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, NULL, &reason), 3);
    const double apart[] = {100, 200};
    make_round(apart, 2, 2, 0);
    assert_ok(gk_judge_round(entries, 2, 1, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 2, NULL, &reason), 0);
    assert_string_equal(reason, "alone in the tie set");
}

static void finalists(void **state)
{
    (void)state;
    const double ns[] = {104, 100, NAN, 106, 100, 0, 102};
    const uint32_t order[] = {0, 9, 1, 2, 4, 5, 6};
    uint32_t chosen[8];
    assert_int_equal(gk_judge_finalists(ns, order, 7, 8, 1.05, chosen), 4);
    assert_true(chosen[0] == 4 && chosen[1] == 1 && chosen[2] == 6 && chosen[3] == 0);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 2, 1.05, chosen), 2);
    assert_true(chosen[0] == 4 && chosen[1] == 1);
    assert_int_equal(gk_judge_finalists(ns, order, 1, 2, 0.5, chosen), 1); /* at least one */
    assert_int_equal(gk_judge_finalists(ns + 2, order, 1, 2, 1.05, chosen), 0);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 0, 1.05, chosen), 0);
}

static void enough_samples(void **state)
{
    (void)state;
    double samples[400];
    for (int i = 0; i < 400; i++) {
        samples[i] = 100 + 4 * (i * 37 % 41) / 40.0; /* spread evenly over 100 .. 104 */
    }
    assert_false(gk_judge_enough(samples, 5, 1.0));
    assert_true(gk_judge_enough(samples, 6, 0.05));
    assert_false(gk_judge_enough(samples, 20, 0.005));
    assert_true(gk_judge_enough(samples, 400, 0.005));
    double equal[] = {5, 5};
    assert_false(gk_judge_enough(equal, 1, 0.1));
    assert_true(gk_judge_enough(equal, 2, 0.0001));
    assert_false(gk_judge_enough(equal, 0, 0.1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(equal_samples_settle_at_once),
        cmocka_unit_test(a_clear_winner_through_a_drift),
        cmocka_unit_test(noisy_ties_and_the_twins_floor),
        cmocka_unit_test(more_passes_part_the_intervals),
        cmocka_unit_test(dropped_and_vendor_are_not_picked),
        cmocka_unit_test(bad_rounds_are_refused),
        cmocka_unit_test(the_pick_follows_its_rule),
        cmocka_unit_test(finalists),
        cmocka_unit_test(enough_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
