/* Suite files and --until: every mistake at once, and times as people write them. */
#include "cli/suite.h"
#include "core/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_MS UINT64_C(3600000)

static char folder[] = "/tmp/gk-test-suite-XXXXXX";
static const uint64_t NOON_MS = UINT64_C(1750161600000); /* 2025-06-17 12:00 UTC */

static uint64_t noon(void *context)
{
    (void)context;
    return NOON_MS;
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    struct gk_err err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    if (gk_file_store(path, text, strlen(text), &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
}

static enum gk_status load(struct gk_suite *suite, const char *text, struct gk_diag *diag)
{
    char path[128];
    struct gk_cli cli = {.kernels_dir = (char *)(uintptr_t)(GK_SOURCE_DIR "/kernels"),
                         .clock = {.wall_ms = noon}};
    write_file("a.suite.json", text);
    (void)snprintf(path, sizeof path, "%s/a.suite.json", folder);
    gk_diag_init(diag);
    return gk_suite_init(suite, &cli, path, diag);
}

static bool says(const struct gk_diag *diag, const char *text)
{
    for (uint32_t i = 0; i < diag->kept; i++) {
        if (strstr(diag->texts[i], text)) {
            return true;
        }
    }
    return false;
}

static void test_whole(void **state)
{
    struct gk_suite suite;
    struct gk_diag diag;
    (void)state;
    enum gk_status status = load(
        &suite,
        "{\"suite\":\"s\",\"max_age_days\":7,\"sets\":[{\"name\":\"a\",\"op\":\"gemm\",\"shapes\":"
        "\"x.json\",\"archs\":[\"mock:sm_80\",\"sm_90a\"],\"budget\":\"10m\",\"priority\":-3},"
        "{\"name\":\"b\",\"op\":\"gemm\",\"shapes\":\"x.json\",\"seed\":9,\"strategy\":\"random\"}]"
        "}",
        &diag);
    if (status != GK_OK) {
        fail_msg("%s", diag.texts[0]);
    }
    assert_string_equal(suite.slot, "night");
    assert_int_equal(suite.count, 2);
    const struct gk_request *a = &suite.sets[0].request, *b = &suite.sets[1].request;
    assert_int_equal(a->budget.seconds, 600);
    assert_int_equal(a->priority, -3);
    assert_int_equal(a->max_age_days, 7);
    assert_int_equal(a->shapes.count, 2);
    assert_string_equal(gk_json_string(gk_json_at(a->archs, 0), ""), "mock-sm_80");
    assert_string_equal(gk_json_string(b->archs, ""), "all");
    assert_int_equal(b->seed, 9);
    assert_int_equal(b->budget.trials, 200);
    assert_string_equal(b->strategy, "random");
    gk_suite_fini(&suite);
    gk_diag_fini(&diag);
}

static void test_all_mistakes(void **state)
{
    static const char *const wanted[] = {
        "unknown key \"slots\"; did you mean 'slot'",
        "\"suite\" is \"a b\"",
        "set 'a': exactly one of \"op\"",
        "set 'a': budget: '5x'",
        "set 'a': the name stands twice",
        "set 'a': \"gem\" is no op",
        "set 'c': priority: '101' is not",
        "set 'c': \"seed\" is \"1\"; allowed is a whole number",
        "set 'c': arch 'x80'",
        "set 'c': \"policy\" is \"hot\"",
        "none.json: no such file",
        "set '3': is no object",
        "\"max_age_days\" is -1",
    };
    struct gk_suite suite;
    struct gk_diag diag;
    (void)state;
    assert_int_equal(
        load(&suite,
             "{\"suite\":\"a b\",\"slots\":\"x\",\"max_age_days\":-1,\"sets\":[{\"name\":\"a\","
             "\"op\":\"gemm\",\"kernel\":\"k\",\"shapes\":\"x.json\",\"budget\":\"5x\"},"
             "{\"name\":\"a\",\"op\":\"gem\",\"shapes\":\"x.json\"},"
             "{\"name\":\"c\",\"op\":\"gemm\",\"shapes\":\"none.json\",\"priority\":101,\"seed\":"
             "\"1\",\"archs\":[\"x80\"],\"policy\":\"hot\"},5]}",
             &diag),
        GK_INPUT);
    for (size_t i = 0; i < GK_ARRAY_COUNT(wanted); i++) {
        if (!says(&diag, wanted[i])) {
            fail_msg("not said: %s", wanted[i]);
        }
    }
    assert_int_equal(diag.count, GK_ARRAY_COUNT(wanted));
    gk_diag_fini(&diag);
    /* A budget is not cut off where a buffer ends: thirty trials would be left of this one. */
    assert_int_equal(load(&suite,
                          "{\"suite\":\"s\",\"sets\":[{\"name\":\"a\",\"op\":\"gemm\",\"shapes\":"
                          "\"x.json\",\"budget\":\"0000000000000000000000000000030 hours\"}]}",
                          &diag),
                     GK_INPUT);
    assert_true(says(&diag, "\"budget\" is \"000"));
    gk_diag_fini(&diag);
    assert_int_equal(load(&suite, "[]", &diag), GK_INPUT);
    gk_diag_fini(&diag);
    assert_int_equal(load(&suite, "{\"suite\":\"s\",\"sets\":[]}", &diag), GK_INPUT);
    assert_true(says(&diag, "\"sets\" must be a list of 1 to 64"));
    gk_diag_fini(&diag);
}

static void test_until(void **state)
{
    static const char *const bad[] = {"",  "24:00", "6:30", "06:60", "06-30", "2d",          "0h",
                                      "h", "-1h",   "1.5h", "169h",  "2h ",   "99999999999s"};
    uint64_t until_ms = 0;
    struct gk_err err = {0};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        if (gk_parse_until(bad[i], NOON_MS, &until_ms, &err) != GK_USAGE) {
            fail_msg("'%s' was taken as %llu", bad[i], (unsigned long long)until_ms);
        }
    }
    assert_non_null(strstr(err.text, "a time of day as 06:30"));
    assert_int_equal(gk_parse_until("90s", NOON_MS, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, NOON_MS + 90000);
    assert_int_equal(gk_parse_until("168h", NOON_MS, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, NOON_MS + 168 * HOUR_MS);
    /* Later today, and tomorrow, where the clock says one hour later than UTC. */
    assert_int_equal(setenv("TZ", "UTZ-1", 1), 0);
    tzset();
    assert_int_equal(gk_parse_until("13:01", NOON_MS, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, NOON_MS + 60000);
    assert_int_equal(gk_parse_until("13:00", NOON_MS, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, NOON_MS + 24 * HOUR_MS);
    assert_int_equal(gk_parse_until("06:30", NOON_MS, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, NOON_MS + 17 * HOUR_MS + HOUR_MS / 2);
    /* A night of 25 hours: clocks go back at 03:00 on 2025-10-26 in this zone. */
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1), 0);
    tzset();
    const uint64_t evening_ms = UINT64_C(1761415200000); /* 2025-10-25 20:00 local */
    assert_int_equal(gk_parse_until("06:00", evening_ms, &until_ms, &err), GK_OK);
    assert_int_equal(until_ms, evening_ms + 11 * HOUR_MS);
}

static int setup(void **state)
{
    struct gk_err err = {0};
    (void)state;
    if (gk_hash_setup(&err) != GK_OK || !mkdtemp(folder)) {
        return -1;
    }
    write_file("x.json", "{\"op\":\"gemm\",\"shapes\":[{\"M\":16,\"N\":[32,64],\"K\":32}]}");
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {"x.json", "a.suite.json"};
    char path[128];
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    return remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_all_mistakes),
        cmocka_unit_test(test_until),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
