/* Elements as doubles and back: every pattern of the small types, ties, ends. */
#include "worker/numeric.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every value that the type holds comes back as the same bits. */
static void round_trips(enum gk_dtype dtype, uint32_t patterns)
{
    uint32_t size = gk_dtype_bytes(dtype);
    for (uint32_t bits = 0; bits < patterns; bits++) {
        uint32_t back = 0;
        double value = gk_element_load(dtype, &bits);
        if (isnan(value)) {
            continue;
        }
        gk_element_store(dtype, &back, value);
        assert_memory_equal(&back, &bits, size);
    }
}

static void small_types(void **state)
{
    (void)state;
    round_trips(GK_BF16, 65536);
    round_trips(GK_F16, 65536);
    round_trips(GK_E4M3, 256);
    round_trips(GK_U8, 256);
    round_trips(GK_I8, 256);
}

/* Halfway between neighbours the even one wins; a hair beside it decides. */
static void ties(void **state)
{
    static const enum gk_dtype types[] = {GK_BF16, GK_F16, GK_E4M3};
    static const uint32_t last[] = {0x7f7f, 0x7bff, 0x7e}; /* largest finite */
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        for (uint32_t bits = 0; bits < last[t]; bits++) {
            uint32_t next = bits + 1, got = 0;
            double low = gk_element_load(types[t], &bits), high = gk_element_load(types[t], &next);
            double middle = (low + high) / 2;
            gk_element_store(types[t], &got, middle);
            assert_int_equal(got, bits % 2 ? next : bits);
            gk_element_store(types[t], &got, nextafter(middle, high));
            assert_int_equal(got, next);
            gk_element_store(types[t], &got, nextafter(middle, low));
            assert_int_equal(got, bits);
        }
    }
}

static void ends(void **state)
{
    (void)state;
    assert_true(isinf(gk_element_round(GK_BF16, 1e39)));
    assert_true(isinf(gk_element_round(GK_F16, 65520)));
    assert_true(gk_element_round(GK_F16, 65519.99) == 65504);
    assert_true(gk_element_round(GK_E4M3, 1e9) == 448);
    assert_true(gk_element_round(GK_E4M3, -INFINITY) == -448);
    assert_true(isnan(gk_element_round(GK_E4M3, NAN)));
    assert_true(isnan(gk_element_round(GK_BF16, NAN)));
    assert_true(gk_element_round(GK_I8, 1000) == 127);
    assert_true(gk_element_round(GK_U32, -5) == 0);
    assert_true(gk_element_round(GK_I64, 1e30) >= 9.2e18);
    assert_true(gk_element_round(GK_F16, 0x1p-25) == 0); /* half of the smallest: to even */
    assert_true(gk_element_round(GK_F16, 0x1.8p-25) == 0x1p-24);
    assert_true(signbit(gk_element_round(GK_BF16, -0.0)));
}

static void poison(void **state)
{
    (void)state;
    for (int t = 0; t < GK_DTYPE_COUNT; t++) {
        unsigned char bytes[8] = {0};
        gk_element_poison((enum gk_dtype)t, bytes);
        assert_true(gk_dtype_is_float((enum gk_dtype)t) ==
                    (bool)isnan(gk_element_load((enum gk_dtype)t, bytes)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_types), cmocka_unit_test(ties),
                                       cmocka_unit_test(ends), cmocka_unit_test(poison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
