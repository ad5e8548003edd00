/* How long a worker stays away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/wire.h"
#include "worker/back_off.h"

#define ATTEMPTS_MAX 200

/* The longest wait: it is a number modulo a bound, and no bound that could be meant is over 40000.
 */
static uint64_t longest_of(uint32_t attempts)
{
    uint64_t longest = gk_back_off_ms(attempts, UINT32_MAX);
    for (uint32_t random = 0; random < 40000; random++) {
        uint64_t wait_ms = gk_back_off_ms(attempts, random);
        longest = wait_ms > longest ? wait_ms : longest;
    }
    return longest;
}

/* However long the daemon was away: a worker that has heard nothing for three heartbeats, and then
 * draws the longest wait, is back before its leases are given to others. */
static void test_back_within_the_grace(void **state)
{
    (void)state;
    for (uint32_t attempts = 0; attempts < ATTEMPTS_MAX; attempts++) {
        uint64_t longest = longest_of(attempts);
        assert_true(longest < GK_RECONNECT_MAX_MS);
        assert_true(GK_HEARTBEAT_MS * GK_LIVENESS + longest < GK_GRACE_MS);
    }
    assert_true(longest_of(UINT32_MAX) < GK_RECONNECT_MAX_MS);
}

/* It backs off at all, and workers that were cut off together part. */
static void test_doubles_and_spreads(void **state)
{
    (void)state;
    for (uint32_t attempts = 0; attempts < 5; attempts++) {
        assert_true(longest_of(attempts + 1) >= 2 * longest_of(attempts));
    }
    assert_int_equal(longest_of(0), 249);
    assert_int_equal(longest_of(5), GK_RECONNECT_MAX_MS - 1);
    assert_int_equal(longest_of(6), GK_RECONNECT_MAX_MS - 1);
    assert_int_equal(gk_back_off_ms(5, 0), 0);
    assert_int_equal(gk_back_off_ms(5, 4321), 4321);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_back_within_the_grace),
        cmocka_unit_test(test_doubles_and_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
