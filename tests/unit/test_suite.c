/* Suites in the daemon's core: one night of a slot at a time, what has not changed, the end by the
 * clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char TOY[] = "tests/data/kernels/toy";
static const char *const THREE[] = {"scale{\"N\":4096}", "scale{\"N\":8192}", "scale{\"N\":16384}",
                                    NULL};
static const char *const TWO[] = {"scale{\"N\":4096}", "scale{\"N\":8192}", NULL};

static bool never(const char *config)
{
    (void)config;
    return false;
}

static struct gk_json *set_of(struct rig *rig, const char *night, const char *name,
                              const char *arch, const char *const *problems, uint64_t until_ms,
                              bool if_changed)
{
    char id[96];
    (void)snprintf(id, sizeof id, "%s:%s", night, name);
    struct gk_json *set = rig_submit_body(rig, id, arch, 6, problems);
    assert_true(gk_json_set_string(set, "set", name));
    if (until_ms != 0) {
        assert_true(gk_json_set_int(set, "until_ms", (int64_t)until_ms));
    }
    if (if_changed) {
        assert_true(gk_json_set_bool(set, "if_changed", true));
    }
    return set;
}

static const char *send_night(struct rig *rig, const char *suite, const char *night,
                              struct gk_json *first, struct gk_json *second)
{
    struct gk_json *body = gk_json_new_object(), *sets = gk_json_new_array();
    assert_true(gk_json_push(sets, first) && (!second || gk_json_push(sets, second)));
    assert_true(gk_json_set_string(body, "suite", suite) &&
                gk_json_set_string(body, "slot", "night") &&
                gk_json_set_string(body, "night", night) && gk_json_set(body, "sets", sets));
    return rig_request(rig, "submit_suite", body);
}

static int64_t member(const struct rig *rig, size_t set, const char *key)
{
    return gk_json_get_int(gk_json_at(gk_json_get(rig->reply, "jobs"), set), key, -1);
}

static const char *reply_text(const struct rig *rig)
{
    return gk_json_get_string(rig->reply, "text", "");
}

/* What became of the first task of a job on this arch. */
static const struct gk_json *task_of(struct rig *rig, int64_t job, const char *arch)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    assert_string_equal(rig_request(rig, "show", body), "OK");
    const struct gk_json *tasks = gk_json_get(rig->reply, "tasks");
    for (size_t i = 0; i < gk_json_count(tasks); i++) {
        if (strcmp(gk_json_get_string(gk_json_at(tasks, i), "arch", ""), arch) == 0) {
            return gk_json_at(tasks, i);
        }
    }
    fail_msg("job %lld has no task on %s", (long long)job, arch);
    return NULL;
}

static void test_one_night_at_a_time(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    assert_string_equal(send_night(&rig, "llama", "n1",
                                   set_of(&rig, "n1", "a", "emu-sm_80", THREE, 0, false),
                                   set_of(&rig, "n1", "b", "emu-sm_90a", TWO, 0, false)),
                        "OK");
    int64_t a = member(&rig, 0, "job"), b = member(&rig, 1, "job");
    assert_true(a > 0 && b > a);
    struct gk_notice notice = {0};
    while (gk_core_take_notice(rig.core, &notice) && notice.event != GK_EVENT_REQUEST) {
    }
    assert_string_equal(notice.name, "submit_suite"); /* the log tells of a night */
    assert_int_equal(member(&rig, 1, "tasks"), 2);
    /* The same request again, since its answer was lost. */
    assert_string_equal(send_night(&rig, "llama", "n1",
                                   set_of(&rig, "n1", "a", "emu-sm_80", THREE, 0, false),
                                   set_of(&rig, "n1", "b", "emu-sm_90a", TWO, 0, false)),
                        "OK");
    assert_int_equal(member(&rig, 0, "job"), a);
    assert_int_equal(member(&rig, 1, "job"), b);
    /* The timer fired twice; also after a restart the daemon knows. */
    for (int restart = 0; restart < 2; restart++) {
        assert_string_equal(send_night(&rig, "llama", "n2",
                                       set_of(&rig, "n2", "a", "emu-sm_80", TWO, 0, false), NULL),
                            "CONFLICT");
        assert_non_null(strstr(reply_text(&rig), "job 1 of night 'n1' has not ended"));
        rig_restart(&rig);
    }
    assert_int_equal(rig_count(&rig, "jobs", "jobs", 0), 2);
    /* Another suite is another matter, and so is the next night when the first has ended. */
    assert_string_equal(
        send_night(&rig, "other", "n2", set_of(&rig, "n2", "x", "emu-sm_80", TWO, 0, false), NULL),
        "OK");
    (void)rig_connect(&rig, "s1", "emu:sm_80", 4);
    (void)rig_connect(&rig, "s2", "emu:sm_90a", 4);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, b), "done");
    assert_string_equal(
        send_night(&rig, "llama", "n3", set_of(&rig, "n3", "a", "emu-sm_80", TWO, 0, false), NULL),
        "OK");
    rig_close(&rig);
}

static void test_all_errors_at_once(void **state)
{
    static const char *const bad[] = {"nope{\"N\":1}", NULL};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    assert_string_equal(send_night(&rig, "s", "n1",
                                   set_of(&rig, "n1", "one", "sm_10", TWO, 0, false),
                                   set_of(&rig, "n1", "two", "emu-sm_80", bad, 0, false)),
                        "INPUT");
    assert_non_null(strstr(reply_text(&rig), "set 'one': arch 'sm_10'"));
    assert_non_null(strstr(reply_text(&rig), "set 'two': problem 0"));
    /* One that is right is not stored beside one that is wrong. */
    assert_string_equal(
        send_night(&rig, "s", "n1", set_of(&rig, "n1", "one", "emu-sm_80", TWO, 0, false),
                   set_of(&rig, "n1", "two", "emu-sm_80", TWO, rig.wall_ms - 1, false)),
        "INPUT");
    assert_non_null(strstr(reply_text(&rig), "is over"));
    assert_int_equal(rig_count(&rig, "jobs", "jobs", 0), 0);
    assert_string_equal(
        send_night(&rig, "", "n1", set_of(&rig, "n1", "one", "emu-sm_80", TWO, 0, false), NULL),
        "INPUT");
    rig_close(&rig);
}

/* A plain job leaves a pick as it is when the store knows its round; a night measures. */
static void test_a_night_measures(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    for (int night = 1; night <= 2; night++) {
        const char *name = night == 1 ? "n1" : "n2";
        rig.wall_ms += 60000;
        assert_string_equal(
            send_night(&rig, "s", name, set_of(&rig, name, "a", "sm_90a", TWO, 0, false), NULL),
            "OK");
        int64_t job = member(&rig, 0, "job");
        (void)rig_work(&rig, 1000);
        assert_string_equal(rig_job_state(&rig, job), "done");
        assert_int_equal(rig_count(&rig, "best", "rows", job), 2);
        for (size_t i = 0; i < 2; i++) {
            const struct gk_json *row = gk_json_at(gk_json_get(rig.reply, "rows"), i);
            assert_int_equal(gk_json_get_int(row, "job", 0), job);
            assert_int_equal(gk_json_get_int(row, "age_ms", -1), 0);
        }
    }
    rig_close(&rig);
}

static void test_if_changed(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    (void)rig_connect(&rig, "s1", "cuda:0", 4);
    assert_string_equal(
        send_night(&rig, "s", "n1", set_of(&rig, "n1", "a", "sm_90a", TWO, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "tasks"), 2); /* nothing was ever picked */
    assert_int_equal(member(&rig, 0, "unchanged"), 0);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, 1), "done");
    assert_string_equal(
        send_night(&rig, "s", "n2", set_of(&rig, "n2", "a", "sm_90a", TWO, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "job"), 0); /* no job: nothing to do */
    assert_int_equal(member(&rig, 0, "unchanged"), 2);
    /* A problem that is new is asked for alone. */
    assert_string_equal(
        send_night(&rig, "s", "n3", set_of(&rig, "n3", "a", "sm_90a", THREE, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "tasks"), 1);
    assert_int_equal(member(&rig, 0, "unchanged"), 2);
    (void)rig_work(&rig, 1000);
    /* Another driver ages all of them, and so does time. */
    rig.driver = "600.1";
    rig_hello(&rig, &rig.workers[0]);
    rig_ready(&rig, &rig.workers[0], 4);
    assert_string_equal(
        send_night(&rig, "s", "n4", set_of(&rig, "n4", "a", "sm_90a", THREE, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "tasks"), 3);
    (void)rig_work(&rig, 1000);
    assert_string_equal(
        send_night(&rig, "s", "n5", set_of(&rig, "n5", "a", "sm_90a", THREE, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "unchanged"), 3);
    assert_int_equal(rig_count(&rig, "best", "rows", 1), 2); /* picks say the driver they had */
    assert_string_equal(
        gk_json_get_string(gk_json_at(gk_json_get(rig.reply, "rows"), 0), "driver", ""), "600.1");
    rig.wall_ms += UINT64_C(31) * 86400000;
    assert_string_equal(
        send_night(&rig, "s", "n6", set_of(&rig, "n6", "a", "sm_90a", THREE, 0, true), NULL), "OK");
    assert_int_equal(member(&rig, 0, "tasks"), 3);
    rig_close(&rig);
}

/* One arch works to its end; one's worker is lost half-way; one never came. */
static void test_until(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *here = rig_connect(&rig, "s1", "emu:sm_80", 4);
    struct rig_worker *lost = rig_connect(&rig, "s2", "emu:sm_90a", 4);
    uint64_t until_ms = rig.wall_ms + 60000;
    assert_string_equal(send_night(&rig, "s", "n1",
                                   set_of(&rig, "n1", "a", "emu-sm_80", TWO, until_ms, false),
                                   set_of(&rig, "n1", "b", "emu-sm_90a", TWO, until_ms, false)),
                        "OK");
    int64_t a = member(&rig, 0, "job"), b = member(&rig, 1, "job");
    assert_string_equal(send_night(&rig, "t", "n1",
                                   set_of(&rig, "x", "c", "mock-sm_80", TWO, until_ms, false),
                                   NULL),
                        "OK");
    int64_t c = member(&rig, 0, "job");
    assert_true(lost->lease_count > 0);
    while (lost->lease_count > 0) {
        rig_forget(lost, 0);
    }
    for (int i = 0; i < 40; i++) { /* the worker that is here goes on, the other is silent */
        rig_send(&rig, here, GK_MSG_PING, 0, gk_json_new_object());
        while (here->lease_count > 0 && i < 1) {
            (void)rig_answer(&rig, here, 0);
        }
        rig_advance(&rig, 1000);
    }
    assert_string_equal(rig_job_state(&rig, b), "searching");
    for (int i = 0; i < 40; i++) {
        rig_ready(&rig, here, 4);
        while (here->lease_count > 0) {
            (void)rig_answer(&rig, here, 0);
        }
        rig_advance(&rig, 1000);
    }
    assert_string_equal(rig_job_state(&rig, a), "done");
    assert_string_equal(rig_job_state(&rig, b), "failed");
    assert_string_equal(rig_job_state(&rig, c), "failed");
    assert_string_equal(gk_json_get_string(task_of(&rig, b, "emu-sm_90a"), "not_run", ""),
                        "no_worker");
    assert_non_null(strstr(gk_json_get_string(task_of(&rig, b, "emu-sm_90a"), "reason", ""),
                           "no worker: nothing was left of arch emu-sm_90a"));
    assert_string_equal(gk_json_get_string(task_of(&rig, c, "mock-sm_80"), "not_run", ""),
                        "no_worker");
    /* Its worker is back, and the job is tried again: it searches as if there had been no end. */
    (void)rig_connect(&rig, "s3", "mock:sm_80", 4);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", c));
    assert_string_equal(rig_request(&rig, "retry", body), "OK");
    assert_null(gk_json_get(task_of(&rig, c, "mock-sm_80"), "not_run"));
    rig_ready(&rig, here, 4);
    (void)rig_work(&rig, 1000);
    assert_string_equal(rig_job_state(&rig, c), "done");
    assert_int_equal(rig_count(&rig, "best", "rows", c), 2);
    rig_close(&rig);
}

/* Its only device is taken out: no worker is missing, and nobody may run there. */
static void test_fenced(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "cuda:0", 2);
    uint64_t until_ms = rig.wall_ms + 30000;
    assert_string_equal(
        send_night(&rig, "s", "n1", set_of(&rig, "n1", "a", "sm_90a", TWO, until_ms, false), NULL),
        "OK");
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    assert_true(gk_json_set_int(body, "device", 0) && gk_json_set_string(body, "state", "fenced") &&
                gk_json_set_string(body, "cause", "Xid 79"));
    rig_send(&rig, worker, GK_MSG_DEVICE_EVENT, 0, body);
    while (worker->lease_count > 0) {
        assert_true(
            gk_json_push(tokens, gk_json_new_int(gk_json_get_int(worker->leases[0], "token", 0))));
        rig_forget(worker, 0);
    }
    body = gk_json_new_object();
    assert_true(gk_json_set(body, "tokens", tokens) &&
                gk_json_set_string(body, "reason", "fenced"));
    rig_send(&rig, worker, GK_MSG_RELEASE, 0, body);
    for (int i = 0; i < 32; i++) {
        rig_send(&rig, worker, GK_MSG_PING, 0, gk_json_new_object());
        rig_advance(&rig, 1000);
    }
    assert_string_equal(rig_job_state(&rig, 1), "failed");
    assert_string_equal(gk_json_get_string(task_of(&rig, 1, "sm_90a"), "not_run", ""), "fenced");
    rig_close(&rig);
}

/* An operator empties the daemon for the night: the job ends with its time nevertheless. */
static void test_drained(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    uint64_t until_ms = rig.wall_ms + 30000;
    assert_string_equal(send_night(&rig, "s", "n1",
                                   set_of(&rig, "n1", "a", "emu-sm_80", TWO, until_ms, false),
                                   NULL),
                        "OK");
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_bool(body, "on", true) &&
                gk_json_set_string(body, "reason", "a new kernel"));
    assert_string_equal(rig_request(&rig, "drain", body), "OK");
    while (worker->lease_count > 0) {
        (void)rig_answer(&rig, worker, 0);
    }
    for (int i = 0; i < 32; i++) {
        rig_send(&rig, worker, GK_MSG_PING, 0, gk_json_new_object());
        rig_advance(&rig, 1000);
    }
    assert_string_equal(rig_job_state(&rig, 1), "failed");
    const struct gk_json *task = task_of(&rig, 1, "emu-sm_80");
    assert_string_equal(gk_json_get_string(task, "not_run", ""), "no_worker");
    assert_non_null(strstr(gk_json_get_string(task, "reason", ""), "an operator drains"));
    rig_close(&rig);
}

/* The worker is there and slow: what was not begun is out of time, what has records is judged. */
static void test_out_of_time(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    rig.fails = never;
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 1);
    uint64_t until_ms = rig.wall_ms + 1000;
    assert_string_equal(send_night(&rig, "s", "n1",
                                   set_of(&rig, "n1", "a", "emu-sm_80", TWO, until_ms, false),
                                   NULL),
                        "OK");
    assert_int_equal(worker->lease_count, 1);
    rig_advance(&rig, 1500);
    assert_int_equal(worker->lease_count, 1); /* it runs to its end */
    (void)rig_work(&rig, 100);
    assert_string_equal(rig_job_state(&rig, 1), "done");
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", 1));
    assert_string_equal(rig_request(&rig, "show", body), "OK");
    const struct gk_json *tasks = gk_json_get(rig.reply, "tasks");
    assert_string_equal(gk_json_get_string(gk_json_at(tasks, 0), "state", ""), "done");
    assert_string_equal(gk_json_get_string(gk_json_at(tasks, 1), "not_run", ""), "out_of_time");
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_night_at_a_time),
        cmocka_unit_test(test_all_errors_at_once),
        cmocka_unit_test(test_a_night_measures),
        cmocka_unit_test(test_if_changed),
        cmocka_unit_test(test_until),
        cmocka_unit_test(test_out_of_time),
        cmocka_unit_test(test_fenced),
        cmocka_unit_test(test_drained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
