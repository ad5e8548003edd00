/* core/status: names, exit statuses, the error box, many errors in one pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "tests/support/check.h"

static void names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(gk_status_name(GK_OK), "OK");
    assert_string_equal(gk_status_name(GK_NOMEM), "NOMEM");
    assert_string_equal(gk_status_text(GK_STALE), "stale token or epoch");
    assert_string_equal(gk_status_name((enum gk_status)999), "UNKNOWN_STATUS");
    assert_string_equal(gk_status_text((enum gk_status)999), "unknown status");
}

/* Numbers are stored and travel: these must never change. */
static void numbers_stay(void **state)
{
    (void)state;
    assert_int_equal(GK_OK, 0);
    assert_int_equal(GK_INPUT, 3);
    assert_int_equal(GK_RANGE, 9);
    assert_int_equal(GK_STALE, 17);
    assert_int_equal(GK_INTERNAL, 28);
}

static void exit_statuses(void **state)
{
    (void)state;
    assert_int_equal(gk_status_exit(GK_OK), 0);
    assert_int_equal(gk_status_exit(GK_NO_PICK), 1);
    assert_int_equal(gk_status_exit(GK_USAGE), 2);
    assert_int_equal(gk_status_exit(GK_PARSE), 2);
    assert_int_equal(gk_status_exit(GK_UNREACHABLE), 3);
    assert_int_equal(gk_status_exit(GK_INTERNAL), 4);
    assert_int_equal(gk_status_exit(GK_NOMEM), 4);
}

static void fail_fills_the_box(void **state)
{
    (void)state;
    struct gk_err err;
    assert_int_equal(gk_fail(&err, GK_LIMIT, "%d is over %s", 9, "the top"), GK_LIMIT);
    assert_int_equal(err.status, GK_LIMIT);
    assert_string_equal(err.text, "9 is over the top");
    assert_int_equal(gk_fail(NULL, GK_IO, "nobody reads this"), GK_IO);
}

static void long_messages_end_in_dots(void **state)
{
    (void)state;
    struct gk_err err;
    char longer[2 * GK_ERR_TEXT_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    gk_fail(&err, GK_IO, "%s", longer);
    assert_int_equal(strlen(err.text), GK_ERR_TEXT_MAX - 1);
    assert_string_equal(err.text + GK_ERR_TEXT_MAX - 4, "...");
    gk_fail_in(&err, GK_IO, "while %s", "writing");
    assert_int_equal(strlen(err.text), GK_ERR_TEXT_MAX - 1);
    assert_int_equal(strncmp(err.text, "while writing: xxx", 18), 0);
    assert_string_equal(err.text + GK_ERR_TEXT_MAX - 4, "...");
}

static void context_goes_before(void **state)
{
    (void)state;
    struct gk_err err;
    gk_fail(&err, GK_NOT_FOUND, "no such file");
    assert_int_equal(gk_fail_in(&err, GK_IO, "loading %s", "a.json"), GK_NOT_FOUND);
    assert_string_equal(err.text, "loading a.json: no such file");
    assert_int_equal(gk_fail_in(NULL, GK_IO, "x"), GK_IO);
}

static void diag_gathers(void **state)
{
    (void)state;
    struct gk_diag diag;
    struct gk_err err;
    gk_diag_init(&diag);
    assert_int_equal(gk_diag_status(&diag, &err), GK_OK);
    assert_int_equal(gk_diag_add(&diag, GK_INPUT, "row %d", 1), GK_INPUT);
    assert_int_equal(gk_diag_add(&diag, GK_LIMIT, "row %d", 2), GK_LIMIT);
    assert_int_equal(gk_diag_status(&diag, &err), GK_INPUT);
    assert_string_equal(err.text, "row 1\nrow 2");
    assert_int_equal(gk_diag_status(&diag, NULL), GK_INPUT);
    for (int i = 0; i < 100; i++) {
        gk_diag_add(&diag, GK_INPUT, "more");
    }
    assert_int_equal(diag.count, 102);
    assert_int_equal(diag.kept, GK_DIAG_MAX);
    gk_diag_fini(&diag);
    gk_diag_fini(NULL);
    assert_int_equal(diag.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts),
        cmocka_unit_test(numbers_stay),
        cmocka_unit_test(exit_statuses),
        cmocka_unit_test(fail_fills_the_box),
        cmocka_unit_test(long_messages_end_in_dots),
        cmocka_unit_test(context_goes_before),
        cmocka_unit_test(diag_gathers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
