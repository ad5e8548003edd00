/*
 * Children that do not die of SIGKILL, as one that sleeps inside of a driver. Here kill() is a
 * double: it loses the signal while `immortal` is set. This program is also the worker of the last
 * test, so that the double is in it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/hash.h"
#include "tests/unit/fake_daemon.h"
#include "worker/process.h"
#include "worker/supervisor.h"

#define WAIT_MS 50

static bool immortal;
static pid_t wanted_dead; /* the last process that somebody wanted to kill */

int kill(pid_t pid, int signal_number)
{
    if (signal_number == SIGKILL && pid < 0) {
        wanted_dead = -pid;
        if (immortal) {
            return 0;
        }
    }
    return (int)syscall(SYS_kill, pid, signal_number);
}

struct end {
    uint32_t count;
    bool late;
    int64_t exit_status;
    int signal_number;
};

static void note_end(void *context, bool late, int64_t exit_status, int signal_number)
{
    struct end *end = context;
    *end = (struct end){end->count + 1, late, exit_status, signal_number};
}

/* A process that does not end by itself, in a loop. */
static struct gk_process *begin(uv_loop_t *loop, struct end *end, uint64_t kill_wait_ms)
{
    char *argv[] = {(char *)"/bin/sleep", (char *)"1000", NULL};
    struct gk_process_events events = {NULL, note_end, end, kill_wait_ms};
    struct gk_process *process = NULL;
    struct gk_err err = {0};
    *end = (struct end){0};
    wanted_dead = 0;
    assert_int_equal(uv_loop_init(loop), 0);
    if (gk_process_start(loop, argv, NULL, &events, &process, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return process;
}

/* The loop ends: nothing in it waits for the process any more. */
static void end_loop(uv_loop_t *loop)
{
    assert_int_equal(uv_run(loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(loop), 0);
}

static void bury(void)
{
    immortal = false;
    assert_true(wanted_dead > 0);
    assert_int_equal(kill(wanted_dead, 0), 0); /* it lives yet */
    assert_int_equal(kill(wanted_dead, SIGKILL), 0);
    assert_int_equal(waitpid(wanted_dead, NULL, 0), wanted_dead);
}

static void who_dies_is_reaped(void **state)
{
    uv_loop_t loop;
    struct end end;
    (void)state;
    struct gk_process *process = begin(&loop, &end, 0);
    gk_process_deadline(process, WAIT_MS);
    end_loop(&loop);
    assert_int_equal(end.count, 1);
    assert_true(end.late);
    assert_int_equal(end.signal_number, SIGKILL);
    assert_int_not_equal(end.exit_status, GK_PROCESS_STUCK);
    assert_int_not_equal(kill(wanted_dead, 0), 0);
}

/* After a deadline, and after a kill; the clock of an answer that comes too late changes nothing.
 */
static void nobody_waits_for_who_cannot_be_killed(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        uv_loop_t loop;
        struct end end;
        struct gk_process *process = begin(&loop, &end, WAIT_MS);
        immortal = true;
        if (way == 0) {
            gk_process_deadline(process, WAIT_MS);
        } else {
            gk_process_kill(process);
            gk_process_deadline(process, 0);
        }
        end_loop(&loop);
        assert_int_equal(end.count, 1);
        assert_int_equal(end.late, way == 0);
        assert_true(end.exit_status == GK_PROCESS_STUCK);
        bury();
    }
}

static void nor_when_it_is_abandoned(void **state)
{
    uv_loop_t loop;
    struct end end;
    (void)state;
    struct gk_process *process = begin(&loop, &end, WAIT_MS);
    immortal = true;
    gk_process_abandon(process);
    end_loop(&loop);
    assert_int_equal(end.count, 0);
    bury();
}

/* ------------------------------------------------------------------ the whole worker */

static const char script[] =
    "{\"rules\": [{\"when\": \"BUG == 'endless'\", \"outcome\": \"hang\"}]}";

static void quiet(void *context, enum gk_worker_event event, const char *text)
{
    (void)context;
    (void)event;
    (void)fprintf(stderr, "worker: %s\n", text);
}

static void nothing(void *context)
{
    (void)context;
}

/* `--connect ENDPOINT --spool DIR [two]`: a worker in which nobody can be killed, with one device
 * or two. */
static int run_worker(int argc, char **argv)
{
    struct gk_err err = {0};
    const struct gk_worker_options options = {.endpoint = argv[2],
                                              .spool = argv[4],
                                              .devices = {"mock:sm_80", "mock:sm_90a"},
                                              .device_count = argc == 6 ? 2 : 1,
                                              .compile_processes = 1,
                                              .program = GK_BIN_DIR "/gktune-worker",
                                              .build = "test",
                                              .log = quiet,
                                              .ready = nothing};
    immortal = true;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none */
    enum gk_status status = gk_hash_setup(&err);
    status = status == GK_OK ? gk_worker_run(&options, &err) : status;
    return status == GK_OK ? 0 : status == GK_INTERNAL ? 9 : 1;
}

/* This program as the worker, which has a lease that never ends. `self` gets the program's path and
 * must outlive the daemon. */
static void lease_the_endless(struct fake_daemon *daemon, char (*self)[256],
                              const char *const *args, int64_t run_s)
{
    struct gk_message message = {0};
    ssize_t size = readlink("/proc/self/exe", *self, sizeof *self - 1);
    assert_true(size > 0);
    (*self)[size] = '\0';
    fake_daemon_open(daemon, GK_SOURCE_DIR "/tests/data/worker", "add/mock.json", script);
    daemon->program = *self;
    fake_daemon_start_worker(daemon, args);
    fake_daemon_expect(daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    fake_daemon_lease(daemon, 1, "add{\"n\":1000}", "add_some{\"BLOCK\":32,\"BUG\":\"endless\"}",
                      run_s);
}

/* The config has its record, the device is fenced, and the worker, which has no other one, ends:
 * all of it while the executor lives. */
static void its_device_is_fenced(void **state)
{
    static const char *const args[] = {NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    char self[256];
    (void)state;
    lease_the_endless(&daemon, &self, args, 1);
    fake_daemon_expect(&daemon, GK_MSG_RESULT, &message);
    const struct gk_json *record = gk_json_get(message.body, "record");
    assert_string_equal(gk_json_get_string(record, "failure", "?"), "timeout");
    assert_non_null(strstr(gk_json_get_string(record, "message", ""), "has not ended"));
    gk_message_fini(&message);
    assert_true(fake_daemon_child(&daemon, "--child=executor") > 0);
    fake_daemon_expect(&daemon, GK_MSG_DEVICE_EVENT, &message);
    assert_string_equal(gk_json_get_string(message.body, "state", "?"), "fenced");
    assert_non_null(strstr(gk_json_get_string(message.body, "cause", ""), "has not ended"));
    gk_message_fini(&message);
    assert_int_equal(fake_daemon_wait_worker(&daemon), 9);
    fake_daemon_close(&daemon);
}

/* The next STARTED of the lease and phase. */
static void expect_started(struct fake_daemon *daemon, uint64_t token, const char *phase)
{
    for (bool found = false; !found;) {
        struct gk_message message = {0};
        fake_daemon_expect(daemon, GK_MSG_STARTED, &message);
        found = message.token == token &&
                strcmp(gk_json_get_string(message.body, "phase", ""), phase) == 0;
        gk_message_fini(&message);
    }
}

/* A trial that is cancelled while it runs: until its executor has ended, which may take a driver a
 * while, there is no second one beside it. */
static void one_executor_at_a_time(void **state)
{
    static const char *const args[] = {NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    pid_t first = 0;
    char self[256];
    (void)state;
    lease_the_endless(&daemon, &self, args, 600);
    expect_started(&daemon, 1, "run");
    assert_int_equal(fake_daemon_children(&daemon, "--child=executor", &first), 1);
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    assert_true(gk_json_push(tokens, gk_json_new_int(1)) && gk_json_set(body, "tokens", tokens));
    fake_daemon_send(&daemon, GK_MSG_CANCEL, 0, body);
    for (int64_t token = 2; token <= 3; token++) { /* the first is handled when the second begins */
        fake_daemon_lease(&daemon, token, "add{\"n\":1000}",
                          "add_some{\"BLOCK\":32,\"BUG\":\"none\"}", 30);
        expect_started(&daemon, (uint64_t)token, "compile");
    }
    assert_int_equal(fake_daemon_children(&daemon, "--child=executor", &first), 1);
    assert_int_equal(kill(first, SIGKILL), 0);
    for (uint64_t token = 2; token <= 3; token++) {
        fake_daemon_expect(&daemon, GK_MSG_RESULT, &message);
        assert_int_equal(message.token, token);
        const struct gk_json *record = gk_json_get(message.body, "record");
        assert_string_equal(gk_json_get_string(record, "failure", "?"), "none");
        gk_message_fini(&message);
        fake_daemon_ack(&daemon, (int64_t)token, 0, false);
    }
    fake_daemon_close(&daemon);
}

/* A worker with another device fences the one, and serves the other as if nothing had been. */
static void its_other_device_goes_on(void **state)
{
    static const char *const args[] = {"two", NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    char self[256];
    (void)state;
    lease_the_endless(&daemon, &self, args, 1);
    daemon.device = 1;
    bool fenced = false;
    int64_t told = 0;
    for (int64_t token = 2; !fenced || told < 3;
         token++) { /* before, while and after it is fenced */
        fake_daemon_lease(&daemon, token, "add{\"n\":1000}",
                          "add_some{\"BLOCK\":32,\"BUG\":\"none\"}", 30);
        for (bool over = false; !over;) {
            fake_daemon_next(&daemon, &message);
            const struct gk_json *record = gk_json_get(message.body, "record");
            if (message.type == GK_MSG_DEVICE_EVENT) {
                assert_int_equal(gk_json_get_int(message.body, "device", -1), 0);
                assert_string_equal(gk_json_get_string(message.body, "state", "?"), "fenced");
                fenced = true;
            } else if (message.type == GK_MSG_RESULT) {
                over = message.token == (uint64_t)token;
                assert_string_equal(gk_json_get_string(record, "failure", "?"),
                                    over ? "none" : "timeout");
                told += over && fenced;
                fake_daemon_ack(&daemon, (int64_t)message.token, 0, false);
            }
            gk_message_fini(&message);
        }
    }
    fake_daemon_close(&daemon);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_dies_is_reaped),
        cmocka_unit_test(nobody_waits_for_who_cannot_be_killed),
        cmocka_unit_test(nor_when_it_is_abandoned),
        cmocka_unit_test(one_executor_at_a_time),
        cmocka_unit_test(its_device_is_fenced),
        cmocka_unit_test(its_other_device_goes_on),
    };
    if ((argc == 5 || argc == 6) && strcmp(argv[1], "--connect") == 0) {
        return run_worker(argc, argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
