/* core/prng: known answers of Philox 4x32-10, streams, bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/prng.h"

/* The three vectors published with the generator (Random123, kat_vectors). */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint32_t out[4];
        gk_philox(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].want, sizeof out);
    }
}

static void streams_repeat_and_differ(void **state)
{
    (void)state;
    struct gk_prng a, b, c, d;
    gk_prng_init(&a, 1, 2);
    gk_prng_init(&b, 1, 2);
    gk_prng_init(&c, 1, 3);
    gk_prng_init(&d, 2, 2);
    int same_c = 0, same_d = 0;
    for (int i = 0; i < 1000; i++) {
        uint32_t value = gk_prng_u32(&a);
        assert_int_equal(value, gk_prng_u32(&b));
        same_c += value == gk_prng_u32(&c);
        same_d += value == gk_prng_u32(&d);
    }
    assert_true(same_c < 3);
    assert_true(same_d < 3);
}

static void bounds_hold(void **state)
{
    (void)state;
    struct gk_prng prng;
    uint32_t counts[10] = {0};
    gk_prng_init(&prng, 7, 0);
    for (int i = 0; i < 100000; i++) {
        counts[gk_prng_below(&prng, 10)]++;
        double unit = gk_prng_unit(&prng);
        assert_true(unit >= 0 && unit < 1);
    }
    for (int i = 0; i < 10; i++) { /* 10,000 +- 95: six sigma is 570 */
        assert_in_range(counts[i], 9430, 10570);
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(gk_prng_below(&prng, 1), 0);
        assert_true(gk_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
        assert_true(gk_prng_below(&prng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams_repeat_and_differ),
        cmocka_unit_test(bounds_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
