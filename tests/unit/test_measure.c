/* Staged sampling: stops when it knows enough, is never stopped by one outlier. */
#include "worker/measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct source {
    double base, spread;
    uint32_t taken, outlier; /* the so-many-th sample is ten times the base; 0: none */
};

static enum gk_status draw(void *context, double *ns_out, struct gk_err *err)
{
    struct source *source = context;
    (void)err;
    source->taken++;
    double part = (double)(source->taken * 7 % 11) / 10 - 0.5;
    *ns_out = source->base * (1 + source->spread * part);
    if (source->taken == source->outlier) {
        *ns_out = source->base * 10;
    }
    return GK_OK;
}

static const struct gk_measure_rule rule = {.few = 5, .samples_max = 64, .half_width = 0.005};

static void quiet(void **state)
{
    struct source source = {.base = 100, .spread = 0.001};
    struct gk_measured measured;
    (void)state;
    assert_int_equal(gk_measure(&rule, draw, &source, &measured, NULL), GK_OK);
    assert_true(measured.stable);
    assert_int_equal(measured.count, 5);
    assert_true(fabs(measured.median_ns - 100) < 0.1);
}

static void noisy(void **state)
{
    struct source source = {.base = 100, .spread = 0.5};
    struct gk_measured measured;
    (void)state;
    assert_int_equal(gk_measure(&rule, draw, &source, &measured, NULL), GK_OK);
    assert_false(measured.stable);
    assert_int_equal(measured.count, 64);
}

static void outlier(void **state)
{
    struct source source = {.base = 100, .spread = 0.001, .outlier = 2};
    struct gk_measured measured;
    (void)state;
    assert_int_equal(gk_measure(&rule, draw, &source, &measured, NULL), GK_OK);
    assert_true(measured.stable);
    assert_true(measured.count > 5 && measured.count < 64);
    assert_true(fabs(measured.median_ns - 100) < 0.1);
}

static void no_time(void **state)
{
    struct source source = {.base = 0};
    struct gk_measured measured;
    struct gk_err err = {0};
    (void)state;
    assert_int_equal(gk_measure(&rule, draw, &source, &measured, &err), GK_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quiet), cmocka_unit_test(noisy),
                                       cmocka_unit_test(outlier), cmocka_unit_test(no_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
