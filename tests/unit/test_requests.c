/* What a request may have: members that its verb knows, each of a type that it allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/parsed.h"
#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

/* The request is refused, and its text has each of `words` (ended by NULL). */
static void refused(struct rig *rig, const char *verb, const char *text, const char *const *words)
{
    const char *status = rig_request(rig, verb, parsed(text));
    const char *why = gk_json_get_string(rig->reply, "text", "");
    if (strcmp(status, "INPUT") != 0) {
        fail_msg("%s %s: %s %s", verb, text, status, why);
    }
    for (size_t i = 0; words[i]; i++) {
        if (!strstr(why, words[i])) {
            fail_msg("%s %s: no '%s' in '%s'", verb, text, words[i], why);
        }
    }
}

static void unknown_members_are_named(void **state)
{
    static const char *const verbs[] = {
        "status", "blob_have", "blob_put",    "blob_get", "submit", "submit_suite", "jobs",
        "show",   "watch",     "cancel",      "pause",    "resume", "retry",        "finish",
        "trials", "best",      "export_data", "workers",  "spread", "db",           "stop",
        "keys",   "drain",     "dead",        "audit"};
    static const char *const words[] = {"there is no member 'nope'; there are verb",
                                        "there is no member 'other'", NULL};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    for (size_t i = 0; i < GK_ARRAY_COUNT(verbs); i++) {
        refused(&rig, verbs[i], "{\"nope\":1,\"other\":{}}", words);
    }
    assert_int_equal(gk_core_counters(rig.core).sessions, 0);
    rig_close(&rig);
}

/* A listing from the start, or of all jobs, is no answer to what was asked. */
static void types_are_checked_all_at_once(void **state)
{
    static const char *const listing[] = {"jobs: member 'cursor' is \"x\"; an integer is allowed",
                                          "jobs: member 'state' is 7; a string is allowed", NULL};
    static const char *const archs[] = {"submit: member 'archs' is 7; a string or a list is",
                                        "submit: member 'fresh' is 1; true or false is", NULL};
    static const char *const nothing[] = {"best: member 'op' is null", NULL};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    refused(&rig, "jobs", "{\"cursor\":\"x\",\"state\":7}", listing);
    refused(&rig, "submit", "{\"archs\":7,\"fresh\":1}", archs);
    refused(&rig, "best", "{\"op\":null}", nothing);
    rig_close(&rig);
}

static void what_is_refused_changes_nothing(void **state)
{
    static const char *const words[] = {"cancel: there is no member 'reson'; there are verb job "
                                        "jobs reason",
                                        NULL};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    refused(&rig, "cancel", "{\"job\":1,\"reson\":\"a typing mistake\"}", words);
    assert_string_equal(rig_job_state(&rig, job), "submitted");
    rig_close(&rig);
}

static void sets_of_a_suite_too(void **state)
{
    static const char *const words[] = {"set 'one': submit: there is no member 'budgets'",
                                        "set 'two': submit: member 'seed' is \"7\"", NULL};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    refused(&rig, "submit_suite",
            "{\"suite\":\"s\",\"slot\":\"l\",\"night\":\"n\",\"sets\":["
            "{\"set\":\"one\",\"budgets\":{\"trials\":8}},{\"set\":\"two\",\"seed\":\"7\"}]}",
            words);
    assert_int_equal(rig_count(&rig, "jobs", "jobs", 0), 0);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_members_are_named),
        cmocka_unit_test(types_are_checked_all_at_once),
        cmocka_unit_test(what_is_refused_changes_nothing),
        cmocka_unit_test(sets_of_a_suite_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
