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
    assert_ok(gk_judge_round(entries, 4, 1, false, 0, &verdict, &err), err);
    assert_int_equal(verdict.best, 0);
    assert_true(verdict.noise_floor == 0 && verdict.margin == GK_TIE_MARGIN);
    assert_true(verdict.settled);
    assert_true(verdict.entries[0].ratio == 1 && verdict.entries[0].high == 1);
    assert_true(verdict.entries[0].tied && verdict.entries[2].tied);
    assert_false(verdict.entries[1].tied); /* a copy: the first stands for both */
    assert_false(verdict.entries[3].tied);
    assert_int_equal(verdict.tie_count, 2);
    make_round(ns, 4, 1, 0);
    assert_ok(gk_judge_round(entries, 4, 1, false, 0, &verdict, &err), err);
    assert_false(verdict.settled); /* one pass shows no spread */
}

static void a_clear_winner_through_a_drift(void **state)
{
    (void)state;
    const double ns[] = {105, 100, 110}; /* the drift is 20 %: only pairing sees through it */
    make_round(ns, 3, 9, 0.002);
    assert_ok(gk_judge_round(entries, 3, 5, false, 0, &verdict, &err), err);
    assert_int_equal(verdict.best, 1);
    assert_int_equal(verdict.tie_count, 1);
    assert_true(verdict.settled);
    assert_true(verdict.entries[0].low > 1.04 && verdict.entries[0].high < 1.06);
    struct gk_round_verdict again;
    assert_ok(gk_judge_round(entries, 3, 5, false, 0, &again, &err), err);
    assert_memory_equal(&again, &verdict, sizeof again);
    make_round(ns, 3, 3, 0.002);
    assert_ok(gk_judge_round(entries, 3, 5, false, 0, &verdict, &err), err);
    assert_false(verdict.settled); /* parted, but on three passes */
}

static void noisy_ties_and_the_twins_floor(void **state)
{
    (void)state;
    const double ns[] = {100, 100.2, 100.1, 100, 140};
    make_round(ns, 5, 15, 0.03);
    entries[0].twin = 3;
    assert_ok(gk_judge_round(entries, 5, 2, false, 0, &verdict, &err), err);
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
    assert_ok(gk_judge_round(entries, 2, 2, false, 0, &verdict, &err), err);
    assert_false(verdict.settled);
    make_round(ns, 2, 200, 0.02);
    assert_ok(gk_judge_round(entries, 2, 2, false, 0, &verdict, &err), err);
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
    assert_ok(gk_judge_round(entries, 4, 2, false, 0, &verdict, &err), err);
    assert_int_equal(verdict.best, 1);
    assert_int_equal(verdict.tie_count, 2);
    assert_true(fabs(verdict.entries[2].ratio - 0.8) < 1e-12);
    assert_false(verdict.entries[2].tied || verdict.entries[0].tied);
    assert_int_equal(gk_judge_pick(entries, &verdict, 4, NULL, NULL), 1);
    for (int i = 0; i < 4; i++) {
        entries[i].dropped = true;
    }
    assert_status(gk_judge_round(entries, 4, 2, false, 0, &verdict, &err), GK_NO_PICK, err);
    assert_status(gk_judge_round(entries, 0, 2, false, 0, &verdict, &err), GK_NO_PICK, err);
}

static void bad_rounds_are_refused(void **state)
{
    (void)state;
    const double ns[] = {50, 100};
    make_round(ns, 2, 6, 0);
    entries[1].pass_count = 0;
    assert_status(gk_judge_round(entries, 2, 2, false, 0, &verdict, &err), GK_INPUT, err);
    assert_contains(err.text, "entry 1 of the round has 0 passes; allowed: 1 to 256");
    make_round(ns, 2, 6, 0);
    entries[1].pass_ns[3] = NAN;
    assert_status(gk_judge_round(entries, 2, 2, false, 0, &verdict, &err), GK_INPUT, err);
    assert_contains(err.text, "pass 3 took nan");
    make_round(ns, 2, 6, 0);
    entries[1].twin = 2;
    assert_status(gk_judge_round(entries, 2, 2, false, 0, &verdict, &err), GK_INPUT, err);
    assert_status(gk_judge_round(entries, GK_FINALISTS_MAX + 1, 2, false, 0, &verdict, &err),
                  GK_LIMIT, err);
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
    assert_ok(gk_judge_round(entries, 5, 1, false, 0, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, popularity, &reason), 2);
    assert_string_equal(reason, "incumbent");
    entries[2].is_incumbent = false;
    entries[4].is_incumbent = true; /* not tied: loses its right */
    assert_ok(gk_judge_round(entries, 5, 1, false, 0, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 5, popularity, &reason), 0);
    assert_string_equal(reason, "default");
    entries[0].is_default = false;
    entries[1].resource_rank = 120;
    assert_ok(gk_judge_round(entries, 5, 1, false, 0, &verdict, &err), err);
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
    assert_ok(gk_judge_round(entries, 2, 1, false, 0, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 2, NULL, &reason), 0);
    assert_string_equal(reason, "alone in the tie set");
}

static void finalists(void **state)
{
    (void)state;
    const double ns[] = {104, 100, NAN, 106, 100, 0, 102};
    const uint32_t order[] = {0, 9, 1, 2, 4, 5, 6};
    uint32_t chosen[8];
    assert_int_equal(gk_judge_finalists(ns, order, 7, 1, 8, 1.05, chosen), 4);
    assert_true(chosen[0] == 4 && chosen[1] == 1 && chosen[2] == 6 && chosen[3] == 0);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 1, 2, 1.05, chosen), 2);
    assert_true(chosen[0] == 4 && chosen[1] == 1);
    assert_int_equal(gk_judge_finalists(ns, order, 1, 1, 2, 0.5, chosen), 1); /* at least one */
    assert_int_equal(gk_judge_finalists(ns + 2, order, 1, 1, 2, 1.05, chosen), 0);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 1, 0, 1.05, chosen), 0);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 3, 8, 1.001, chosen), 3); /* a floor */
    assert_true(chosen[2] == 6);
    assert_int_equal(gk_judge_finalists(ns, order, 7, 9, 8, 1.001, chosen), 5); /* all there are */
}

/* Tied with the best, but not above the default beyond the noise: popularity and few resources do
 * not make it replace the default. */
static void nothing_replaces_what_it_does_not_beat(void **state)
{
    (void)state;
    const double ns[] = {100, 103, 104};
    const uint32_t popularity[] = {1, 9, 1};
    make_round(ns, 3, 9, 0);
    for (uint32_t pass = 0; pass < 9; pass++) { /* entry 1 takes 100 or 103.2: tied, and noisy */
        entries[1].pass_ns[pass] = pass % 3 == 0 ? 100.2 : 103.2;
    }
    entries[2].is_default = true;
    assert_ok(gk_judge_round(entries, 3, 3, true, 0, &verdict, &err), err);
    assert_true(verdict.entries[0].tied && verdict.entries[1].tied && !verdict.entries[2].tied);
    assert_true(verdict.entries[0].beats_default && verdict.entries[0].beats_incumbent);
    assert_false(verdict.entries[1].beats_default);
    const char *reason = NULL;
    assert_int_equal(gk_judge_pick(entries, &verdict, 3, popularity, &reason), 0);
    assert_string_equal(reason, "alone beats default and incumbent");
    entries[2].is_default = false; /* nothing to beat: popularity decides */
    assert_ok(gk_judge_round(entries, 3, 3, true, 0, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 3, popularity, NULL), 1);
    entries[1].is_default = true; /* the default is tied, but what is exported beats it nearly */
    entries[2].is_incumbent = true;
    assert_ok(gk_judge_round(entries, 3, 3, true, 0, &verdict, &err), err);
    assert_int_equal(gk_judge_pick(entries, &verdict, 3, popularity, NULL), 0);
}

static void the_vendor_is_paired_with_the_tied(void **state)
{
    (void)state;
    const double ns[] = {100, 90, 130}; /* the vendor is ahead of us */
    make_round(ns, 3, 9, 0.004);
    entries[1].is_vendor = true;
    assert_ok(gk_judge_round(entries, 3, 3, true, 0, &verdict, &err), err);
    assert_int_equal(verdict.best, 0);
    assert_true(fabs(verdict.entries[0].of_vendor - 0.9) < 0.01);
    assert_true(verdict.entries[0].of_vendor_low <= verdict.entries[0].of_vendor &&
                verdict.entries[0].of_vendor <= verdict.entries[0].of_vendor_high &&
                verdict.entries[0].of_vendor_low > 0.88);
    assert_true(verdict.entries[2].of_vendor == 0 && verdict.entries[1].of_vendor == 0);
    assert_false(verdict.entries[1].tied);
    entries[1].dropped = true; /* no library here */
    assert_ok(gk_judge_round(entries, 3, 3, true, 0, &verdict, &err), err);
    assert_true(verdict.entries[0].of_vendor == 0);
}

static void few_passes_settle_nothing_that_is_measured(void **state)
{
    (void)state;
    const double ns[] = {100, 300, 100.1};
    for (uint32_t passes = 1; passes < GK_PASSES_MEASURED_MIN; passes++) {
        make_round(ns, 3, passes, 0);
        entries[0].twin = 2;
        assert_ok(gk_judge_round(entries, 3, 1, true, 0, &verdict, &err), err);
        assert_false(verdict.settled);
        assert_true(verdict.noise_floor == GK_FLOOR_FEW_PASSES);
    }
    make_round(ns, 3, 3, 0);
    entries[0].twin = 2;
    assert_ok(gk_judge_round(entries, 3, 1, true, 0, &verdict, &err), err);
    assert_true(verdict.settled);
    assert_true(verdict.noise_floor > 0.0009 && verdict.noise_floor < 0.0011); /* steady: 0.1 % */
    make_round(ns, 1, 1, 0);                                                   /* alone, one pass */
    assert_ok(gk_judge_round(entries, 1, 1, true, 0, &verdict, &err), err);
    assert_false(verdict.settled);
    make_round(ns, 2, 9, 0); /* no copies: no floor is known */
    assert_ok(gk_judge_round(entries, 2, 1, true, 0, &verdict, &err), err);
    assert_true(verdict.noise_floor == GK_FLOOR_NO_COPIES);
}

/* A GPU's day: a clock that drifts, one sample in twelve hit by something else, a tail that is
 * throttled. The default takes 100; what is picked instead must really be faster. */
static void rough_round(uint64_t seed, const double *ns, uint32_t count, uint32_t passes)
{
    struct gk_prng prng;
    double drift = 1;
    gk_prng_init(&prng, seed, 77);
    make_round(ns, count, passes, 0);
    for (uint32_t pass = 0; pass < passes; pass++) {
        drift *= 1 + 0.02 * (gk_prng_unit(&prng) - 0.5);
        double throttle = pass * 4 >= passes * 3 ? 1.25 : 1;
        for (uint32_t i = 0; i < count; i++) {
            double own = 1 + 0.012 * (gk_prng_unit(&prng) - 0.5);
            double hit = gk_prng_below(&prng, 12) == 0 ? 1 + gk_prng_unit(&prng) : 1;
            entries[i].pass_ns[pass] = ns[i] * drift * throttle * own * hit;
        }
    }
}

static void noise_never_makes_it_slower(void **state)
{
    (void)state;
    const double equal[] = {100, 100.2, 100.1, 99.9, 100.4, 101, 102, 103, 100};
    const double ahead[] = {100, 95, 99, 97, 101, 96, 104, 98, 100};
    uint32_t slower = 0, changed = 0, missed = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        rough_round(seed, equal, 9, 12);
        entries[0].is_default = true;
        entries[0].twin = 8;
        assert_ok(gk_judge_round(entries, 9, seed, true, 0, &verdict, &err), err);
        uint32_t pick = gk_judge_pick(entries, &verdict, 9, NULL, NULL);
        changed += pick != 0;
        slower += equal[pick] > 100;
        rough_round(seed + 1000, ahead, 9, 12);
        entries[0].is_default = true;
        entries[1].twin = 8;
        for (uint32_t pass = 0; pass < 12; pass++) { /* the copy is one of entry 1 */
            entries[8].pass_ns[pass] *= 0.95;
        }
        assert_ok(gk_judge_round(entries, 9, seed, true, 0, &verdict, &err), err);
        pick = gk_judge_pick(entries, &verdict, 9, NULL, NULL);
        missed += ahead[pick] > 97;
        slower += ahead[pick] > 100;
    }
    assert_true(slower == 0);
    assert_true(changed <= 4); /* of 150: one in forty is what a 95 % interval allows on a side */
    assert_true(missed <= 20); /* twelve passes with hits among the copies: the floor is wide */
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
        cmocka_unit_test(nothing_replaces_what_it_does_not_beat),
        cmocka_unit_test(the_vendor_is_paired_with_the_tied),
        cmocka_unit_test(few_passes_settle_nothing_that_is_measured),
        cmocka_unit_test(noise_never_makes_it_slower),
        cmocka_unit_test(finalists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
