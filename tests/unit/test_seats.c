/* Seats: how the workers of one host share its cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/seats.h"

static struct gk_seats *seats_of_test(const char *what)
{
    char prefix[32];
    struct gk_seats *seats = NULL;
    (void)snprintf(prefix, sizeof prefix, "gk-test-%.8s-%d", what, (int)getpid());
    assert_int_equal(gk_seats_create(prefix, &seats, NULL), GK_OK);
    assert_true(gk_seats_count(seats) >= gk_cores_allowed() && gk_cores_allowed() >= 1);
    return seats;
}

/* Two workers together have as many as there are cores, and either may have all. */
static void as_many_as_cores(void **state)
{
    struct gk_seats *a = seats_of_test("count"), *b = seats_of_test("count");
    uint32_t count = gk_seats_count(a);
    int *held = calloc(count, sizeof *held);
    (void)state;
    assert_non_null(held);
    for (uint32_t i = 0; i < count; i++) {
        held[i] = gk_seat_take(i % 2 ? b : a);
        assert_true(held[i] >= 0);
    }
    assert_int_equal(gk_seat_take(a), GK_SEAT_NONE);
    assert_int_equal(gk_seat_take(b), GK_SEAT_NONE);
    for (uint32_t i = 0; i < count; i++) {
        (void)gk_seat_give(held[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        held[i] = gk_seat_take(b);
        assert_true(held[i] >= 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_false(gk_seat_give(held[i])); /* nobody had to ask */
    }
    free(held);
    gk_seats_destroy(a);
    gk_seats_destroy(b);
}

/* Who found none is heard by the holder of one seat, of another one each time. */
static void holders_hear_who_waits(void **state)
{
    struct gk_seats *a = seats_of_test("ask"), *b = seats_of_test("ask");
    uint32_t count = gk_seats_count(a), heard = 0;
    int *held = calloc(count, sizeof *held);
    (void)state;
    assert_non_null(held);
    for (uint32_t i = 0; i < count; i++) {
        held[i] = gk_seat_take(a);
        assert_true(held[i] >= 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(gk_seat_take(b), GK_SEAT_NONE);
    }
    for (uint32_t i = 0; i < count; i++) {
        heard += gk_seat_give(held[i]);
    }
    assert_int_equal(heard, count);
    int seat = gk_seat_take(b);
    assert_true(seat >= 0);
    assert_false(gk_seat_give(seat)); /* what was asked of the holder before is not of this one */
    assert_false(gk_seat_give(GK_SEAT_NONE));
    free(held);
    gk_seats_destroy(a);
    gk_seats_destroy(b);
    gk_seats_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_cores),
        cmocka_unit_test(holders_hear_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
