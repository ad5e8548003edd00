/*
 * A worker that is told to end, against a fake daemon: what it gives back, what it finishes, how it
 * says good-bye, and its exit status.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/fake_daemon.h"

#define ROOT               GK_SOURCE_DIR "/tests/data/worker"
#define CONFIG(block, bug) "add_some{\"BLOCK\":" block ",\"BUG\":\"" bug "\"}"
#define EXIT_AGAIN         75

/* Half a second a trial; one that never ends. */
static const char script[] = "{\"run_ms\": 500, \"rules\": [{\"when\": \"BUG == 'endless'\", "
                             "\"outcome\": \"hang\"}]}";

struct seen {
    uint32_t released, results;
    int64_t credit;
    bool released_running; /* the lease that ran */
    char reason[64];
};

/* Three leases, the first of which runs; the worker has nothing else to do. */
static void start(struct fake_daemon *daemon, const char *const *args, const char *config,
                  int64_t run_s)
{
    struct gk_message message = {0};
    fake_daemon_open(daemon, ROOT, "add/mock.json", script);
    fake_daemon_start_worker(daemon, args);
    fake_daemon_expect(daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    fake_daemon_lease(daemon, 1, "add{\"n\":1000}", config, run_s);
    for (bool runs = false; !runs;) {
        fake_daemon_expect(daemon, GK_MSG_STARTED, &message);
        runs = strcmp(gk_json_get_string(message.body, "phase", ""), "run") == 0;
        gk_message_fini(&message);
    }
    fake_daemon_lease(daemon, 2, "add{\"n\":1000}", CONFIG("128", "none"), 30);
    fake_daemon_lease(daemon, 3, "add{\"n\":1000}", CONFIG("256", "none"), 30);
    for (int begun = 0; begun < 2;) { /* both have been taken and wait for the device */
        fake_daemon_expect(daemon, GK_MSG_STARTED, &message);
        begun += message.token >= 2;
        gk_message_fini(&message);
    }
}

/* All that comes until BYE; results are acknowledged. */
static struct seen until_bye(struct fake_daemon *daemon)
{
    struct seen seen = {.credit = -1};
    for (;;) {
        struct gk_message message = {0};
        fake_daemon_next(daemon, &message);
        enum gk_message_type type = message.type;
        if (type == GK_MSG_RELEASE) {
            seen.released++;
            seen.released_running = seen.released_running || message.token == 1;
        } else if (type == GK_MSG_RESULT) {
            seen.results++;
            assert_int_equal(message.token, 1);
            assert_string_equal(
                gk_json_get_string(gk_json_get(message.body, "record"), "failure", "?"), "none");
            fake_daemon_ack(daemon, 1, 0, false);
        } else if (type == GK_MSG_BYE) {
            (void)snprintf(seen.reason, sizeof seen.reason, "%s",
                           gk_json_get_string(message.body, "reason", ""));
        }
        gk_message_fini(&message);
        if (type == GK_MSG_BYE) {
            seen.credit = daemon->credit;
            return seen;
        }
    }
}

static void test_signals(void **state)
{
    static const char *const args[] = {"--device", "mock:sm_80", NULL};
    static const struct {
        int signal, exit_status;
        const char *reason;
    } cases[] = {{SIGTERM, 0, "SIGTERM"}, {SIGUSR1, EXIT_AGAIN, "SIGUSR1"}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct fake_daemon daemon;
        start(&daemon, args, CONFIG("32", "none"), 30);
        pid_t executor = fake_daemon_child(&daemon, "--child=executor");
        assert_true(executor > 0);
        assert_int_equal(kill(executor, cases[i].signal), 0); /* as a scheduler does */
        assert_int_equal(kill(daemon.pid, cases[i].signal), 0);
        assert_int_equal(kill(daemon.pid, cases[i].signal), 0); /* and the script around it */
        struct seen seen = until_bye(&daemon);
        assert_int_equal(seen.released, 2);
        assert_false(seen.released_running);
        assert_int_equal(seen.results, 1);
        assert_int_equal(seen.credit, 0);
        assert_string_equal(seen.reason, cases[i].reason);
        assert_int_equal(fake_daemon_wait_worker(&daemon), cases[i].exit_status);
        fake_daemon_close(&daemon);
    }
}

/* SIGINT does not wait, and a trial that outlives --drain-limit is given back. */
static void test_at_once(void **state)
{
    static const char *const args[] = {"--device", "mock:sm_80", "--drain-limit", "1s", NULL};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fake_daemon daemon;
        start(&daemon, args, CONFIG("32", "endless"), 60);
        assert_int_equal(kill(daemon.pid, i == 0 ? SIGINT : SIGTERM), 0);
        struct seen seen = until_bye(&daemon);
        assert_int_equal(seen.released, 3);
        assert_true(seen.released_running);
        assert_int_equal(seen.results, 0);
        assert_int_equal(fake_daemon_wait_worker(&daemon), 0);
        fake_daemon_close(&daemon);
    }
}

/* Nothing to do: it ends in time by itself, before its limit is over, and asks to come again. */
static void test_time_limit(void **state)
{
    static const char *const args[] = {
        "--device", "mock:sm_80", "--time-limit", "3s", "--drain-before", "2s", NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    fake_daemon_open(&daemon, ROOT, "add/mock.json", script);
    fake_daemon_start_worker(&daemon, args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    struct seen seen = until_bye(&daemon);
    assert_int_equal(seen.released, 0);
    assert_string_equal(seen.reason, "its time limit is near");
    assert_int_equal(fake_daemon_wait_worker(&daemon), EXIT_AGAIN);
    fake_daemon_close(&daemon);
}

/* HELLO says in which job of a scheduler the worker runs. */
static void test_job(void **state)
{
    static const struct {
        const char *names[5], *values[5], *wanted;
    } cases[] = {
        {{"SLURM_JOB_ID"}, {"12"}, "slurm:12"},
        {{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"},
         {"14", "12", "2"},
         "slurm:12_2"},
        {{"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"},
         {"14", "12", "2", "3"},
         "slurm:12_2 restart 3"},
        {{"SLURM_JOB_ID", "GKTUNE_JOB"}, {"12", "kubernetes:pod-7"}, "kubernetes:pod-7"},
        {{"PBS_JOBID"}, {"9.server"}, "pbs:9.server"},
        {{NULL}, {NULL}, ""},
    };
    static const char *const args[] = {"--device", "mock:sm_80", "--private", NULL};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct fake_daemon daemon;
        struct gk_message message = {0};
        for (size_t v = 0; v < 5 && cases[i].names[v]; v++) {
            assert_int_equal(setenv(cases[i].names[v], cases[i].values[v], 1), 0);
        }
        fake_daemon_open(&daemon, ROOT, NULL, NULL);
        fake_daemon_start_worker(&daemon, args);
        fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
        assert_string_equal(gk_json_get_string(message.body, "job", ""), cases[i].wanted);
        gk_message_fini(&message);
        fake_daemon_close(&daemon);
        for (size_t v = 0; v < 5 && cases[i].names[v]; v++) {
            assert_int_equal(unsetenv(cases[i].names[v]), 0);
        }
    }
}

int main(void)
{
    static const char *const inherited[] = {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID",
                                            "GKTUNE_JOB",   "PBS_JOBID",
                                            "LSB_JOBID",    "SLURM_ARRAY_TASK_ID"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(inherited); i++) {
        (void)unsetenv(inherited[i]); /* the test itself may run in a scheduler's job */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
