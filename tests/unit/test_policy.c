/* Names of policies: every one is found again, and messages list them all. */
#include "core/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names(void **state)
{
    enum gk_policy policy = GK_POLICY_COLD_GRAPH;
    (void)state;
    for (int i = 0; i < GK_POLICY_COUNT; i++) {
        const char *name = gk_policy_name((enum gk_policy)i);
        assert_true(gk_policy_from_name(name, &policy));
        assert_int_equal(policy, i);
        assert_non_null(strstr(gk_policy_names(), name));
    }
    assert_string_equal(gk_policy_name(GK_POLICY_COUNT), "unknown_policy");
    policy = GK_POLICY_WARM;
    assert_false(gk_policy_from_name("cold", &policy));
    assert_false(gk_policy_from_name("", &policy));
    assert_int_equal(policy, GK_POLICY_WARM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
