/*
 * The whole worker process against a fake daemon: mock and emulated devices, children that are
 * killed, restarts.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/fake_daemon.h"
#include "worker/compiler.h"
#include "worker/seats.h"

#define ROOT               GK_SOURCE_DIR "/tests/data/worker"
#define CONFIG(block, bug) "add_some{\"BLOCK\":" block ",\"BUG\":\"" bug "\"}"

static const char mock_script[] =
    "{\"rules\": [{\"when\": \"BUG == 'syntax'\", \"outcome\": \"compile_error\"},"
    "{\"when\": \"BUG == 'trap'\", \"outcome\": \"die\"},"
    "{\"when\": \"BUG == 'beyond'\", \"outcome\": \"lose\"},"
    "{\"when\": \"BUG == 'endless'\", \"outcome\": \"hang\"},"
    "{\"when\": \"BUG == 'heavy'\", \"outcome\": \"ecc\"},"
    "{\"when\": \"BUG == 'nan'\", \"outcome\": \"nan\"},"
    "{\"when\": \"BUG == 'dirty'\", \"time_ns\": 3000, \"twice_ns\": 3300},"
    "{\"when\": \"BLOCK == 256\", \"outcome\": \"ok\", \"time_ns\": \"real(n) * 2.0\"}]}";

static const char *const mock_args[] = {"--device", "mock:sm_80", "--private", NULL};
static const char *const emu_args[] = {"--device", "emu:sm_80", "--compile-processes",
                                       "2",        "--private", NULL};

static const struct gk_json *result(struct fake_daemon *daemon, int64_t token,
                                    struct gk_message *message)
{
    fake_daemon_expect(daemon, GK_MSG_RESULT, message);
    assert_int_equal(message->token, token);
    return gk_json_get(message->body, "record");
}

/* Leases a config and checks how its record ends; returns its time. */
static double trial(struct fake_daemon *daemon, int64_t token, const char *config, int64_t run_s,
                    const char *failure)
{
    struct gk_message message = {0};
    fake_daemon_lease(daemon, token, "add{\"n\":1000}", config, run_s);
    const struct gk_json *record = result(daemon, token, &message);
    const char *got = gk_json_get_string(record, "failure", "?");
    if (strcmp(got, failure) != 0) {
        fail_msg("%s: %s: %s", config, got, gk_json_get_string(record, "message", "-"));
    }
    double time_ns = gk_json_get_real(record, "time_ns", 0);
    gk_message_fini(&message);
    fake_daemon_ack(daemon, token, 0, false);
    return time_ns;
}

/* The line of /proc/PID/limits that begins so. */
static void limit_line(pid_t pid, const char *name, char line_out[256])
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    bool found = false;
    while (!found && fgets(line_out, 256, file)) {
        found = strncmp(line_out, name, strlen(name)) == 0;
    }
    (void)fclose(file);
    assert_true(found);
}

/* A daemon with a worker of the mock device that has said HELLO. */
static void open_mock(struct fake_daemon *daemon)
{
    struct gk_message message = {0};
    fake_daemon_open(daemon, ROOT, "add/mock.json", mock_script);
    fake_daemon_start_worker(daemon, mock_args);
    fake_daemon_expect(daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
}

/* What an executor may do and what it has: limits, and no descriptor but its pipes, whatever the
 * worker was started with. */
static void executors_have_limits(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    char line[256];
    (void)state;
    fake_daemon_open(&daemon, ROOT, "add/mock.json", mock_script);
    int secret =
        open(GK_SOURCE_DIR "/LICENSE", O_RDONLY); /* as a careless parent leaves one open */
    int high = fcntl(secret, F_DUPFD, 200);
    assert_true(secret > 2 && high >= 200);
    fake_daemon_start_worker(&daemon, mock_args);
    assert_int_equal(close(secret) + close(high), 0);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    (void)trial(&daemon, 1, CONFIG("32", "none"), 30, "none");
    pid_t executor = fake_daemon_child(&daemon, "--child=executor");
    assert_true(executor > 0);
    limit_line(executor, "Max core file size", line);
    assert_non_null(strstr(line, " 0 "));
    limit_line(executor, "Max file size", line);
    assert_non_null(strstr(line, " 1073741824 "));
    limit_line(executor, "Max address space", line);
    assert_non_null(strstr(line, " unlimited ")); /* or CUDA cannot reserve its own */
    for (int fd = 3; fd < 256; fd++) {
        char link[64], target[PATH_MAX];
        (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)executor, fd);
        ssize_t size = readlink(link, target, sizeof target - 1);
        target[size > 0 ? size : 0] = '\0';
        if (size > 0 && strncmp(target, "pipe:", 5) != 0 && strncmp(target, "socket:", 7) != 0) {
            fail_msg("an executor has descriptor %d, %s", fd, target);
        }
        assert_true(size <= 0 || fd == 3); /* the copy of its standard output */
    }
    fake_daemon_close(&daemon);
}

static void mock_outcomes(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    char line[16] = "";
    (void)state;
    open_mock(&daemon);
    assert_true(read(daemon.worker_out, line, sizeof line - 1) > 0);
    assert_string_equal(line, "ready\n");
    double first = trial(&daemon, 1, CONFIG("32", "none"), 30, "none");
    assert_true(first > 0 && trial(&daemon, 2, CONFIG("32", "none"), 30, "none") == first);
    assert_true(trial(&daemon, 3, CONFIG("256", "none"), 30, "none") == 2000.0);
    (void)trial(&daemon, 4, CONFIG("32", "syntax"), 30, "compile_error");
    (void)trial(&daemon, 5, CONFIG("32", "nan"), 30, "nonfinite_result");
    (void)trial(&daemon, 6, CONFIG("32", "trap"), 30, "crash");
    (void)trial(&daemon, 7, CONFIG("32", "trap"), 30, "crash");
    (void)trial(&daemon, 8, CONFIG("32", "trap"), 30, "quarantined");
    (void)trial(&daemon, 9, CONFIG("32", "endless"), 1, "timeout");
    (void)trial(&daemon, 11, CONFIG("32", "beyond"), 30, "trap"); /* its executors end with it */
    (void)trial(&daemon, 12, CONFIG("32", "beyond"), 30, "trap");
    (void)trial(&daemon, 13, CONFIG("32", "beyond"), 30, "quarantined");
    for (int64_t token = 14; token < 17; token++) { /* the hardware's own: no config's doing */
        (void)trial(&daemon, token, CONFIG("32", "heavy"), 30, "infrastructure");
    }
    (void)trial(&daemon, 10, CONFIG("32", "unknown"), 30, "illegal_config");
    (void)close(daemon.worker_in); /* the parent goes */
    daemon.worker_in = -1;
    fake_daemon_expect(&daemon, GK_MSG_BYE, &message);
    gk_message_fini(&message);
    assert_int_equal(fake_daemon_wait_worker(&daemon), 0);
    fake_daemon_close(&daemon);
}

static void final_round(void **state)
{
    static const char *const configs[] = {CONFIG("32", "none"), CONFIG("256", "none"),
                                          CONFIG("128", "nan"), CONFIG("128", "trap"), NULL};
    struct fake_daemon daemon;
    (void)state;
    fake_daemon_open(&daemon, ROOT, "add/mock.json", mock_script);
    fake_daemon_start_worker(&daemon, mock_args);
    struct gk_message message = {0};
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    fake_daemon_final(&daemon, 50, "add{\"n\":1000}", configs, 3);
    for (int64_t pass = 1; pass <= 2; pass++) {
        (void)result(&daemon, 50, &message);
        assert_int_equal(gk_json_get_int(message.body, "pass", 0), pass);
        assert_int_equal(gk_json_count(gk_json_get(message.body, "samples")), 2);
        assert_int_equal(gk_json_count(gk_json_get(message.body, "failed")), pass == 1 ? 2 : 0);
        assert_false(gk_json_get_bool(message.body, "last", true));
        gk_message_fini(&message);
        fake_daemon_ack(&daemon, 50, pass, true);
    }
    (void)result(&daemon, 50, &message);
    assert_true(gk_json_get_bool(message.body, "last", false));
    gk_message_fini(&message);
    fake_daemon_ack(&daemon, 50, 3, false);
    (void)trial(&daemon, 51, CONFIG("32", "none"), 30, "none"); /* the device is free again */
    fake_daemon_close(&daemon);
}

/* What the first pass of a round marks is timed over twice the sets in the next one too, and the
 * samples say so. */
static void carried_in_a_round(void **state)
{
    static const char *const configs[] = {CONFIG("32", "none"), CONFIG("32", "dirty"), NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    assert_true(trial(&daemon, 49, CONFIG("32", "dirty"), 30, "none") == 3000.0);
    fake_daemon_final(&daemon, 50, "add{\"n\":1000}", configs, 2);
    for (int64_t pass = 1; pass <= 2; pass++) {
        (void)result(&daemon, 50, &message);
        const struct gk_json *samples = gk_json_get(message.body, "samples");
        assert_int_equal(gk_json_count(samples), 2);
        for (size_t i = 0; i < 2; i++) {
            const struct gk_json *sample = gk_json_at(samples, i),
                                 *marks = gk_json_get(sample, "marks");
            bool carries = gk_json_get_int(sample, "trial", 0) == 2;
            double ns = gk_json_real(gk_json_at(gk_json_get(sample, "ns"), 0), 0);
            assert_int_equal(gk_json_count(marks), carries ? 1 : 0);
            assert_true(!carries || ns == 3300.0);
            assert_true(!carries ||
                        strcmp(gk_json_string(gk_json_at(marks, 0), ""), "l2_carried") == 0);
        }
        gk_message_fini(&message);
        fake_daemon_ack(&daemon, 50, pass, pass == 1);
    }
    fake_daemon_close(&daemon);
}

/* A daemon that leaves out all that a round has left hears its last word, and the device goes on.
 */
static void nobody_left_in_a_round(void **state)
{
    static const char *const configs[] = {CONFIG("32", "none"), CONFIG("256", "none"), NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    fake_daemon_final(&daemon, 50, "add{\"n\":1000}", configs, 3);
    (void)result(&daemon, 50, &message);
    const struct gk_json *samples = gk_json_get(message.body, "samples");
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array(),
                   *drop = gk_json_new_array(), *item = gk_json_new_object();
    assert_int_equal(gk_json_count(samples), 2);
    for (size_t i = 0; i < 2; i++) {
        int64_t left_out = gk_json_get_int(gk_json_at(samples, i), "trial", 0);
        assert_true(gk_json_push(drop, gk_json_new_int(left_out)));
    }
    gk_message_fini(&message);
    assert_true(gk_json_set_int(item, "token", 50) && gk_json_set_int(item, "pass", 1) &&
                gk_json_set_string(item, "status", "stored") && gk_json_push(list, item) &&
                gk_json_set(body, "results", list) && gk_json_set(body, "drop", drop) &&
                gk_json_set_bool(body, "go_on", true));
    fake_daemon_send(&daemon, GK_MSG_ACK, 50, body);
    (void)result(&daemon, 50, &message);
    assert_int_equal(gk_json_get_int(message.body, "pass", 0), 2);
    assert_int_equal(gk_json_count(gk_json_get(message.body, "samples")), 0);
    assert_true(gk_json_get_bool(message.body, "last", false));
    gk_message_fini(&message);
    fake_daemon_ack(&daemon, 50, 2, false);
    (void)trial(&daemon, 51, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

/* A RESULT that nobody acknowledged comes again, also from a worker that was killed. */
static void spooled_result(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    fake_daemon_lease(&daemon, 60, "add{\"n\":10}", CONFIG("32", "none"), 30);
    (void)result(&daemon, 60, &message);
    gk_message_fini(&message);
    assert_int_equal(kill(daemon.pid, SIGKILL), 0);
    (void)fake_daemon_wait_worker(&daemon);
    fake_daemon_start_worker(&daemon, mock_args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    const struct gk_json *held = gk_json_at(gk_json_get(message.body, "held"), 0);
    assert_int_equal(gk_json_get_int(held, "token", 0), 60);
    assert_string_equal(gk_json_get_string(held, "state", ""), "finished");
    gk_message_fini(&message);
    const struct gk_json *record = result(&daemon, 60, &message);
    assert_string_equal(gk_json_get_string(record, "failure", "?"), "none");
    gk_message_fini(&message);
    fake_daemon_ack(&daemon, 60, 0, false);
    (void)trial(&daemon, 61, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

/* Silence of the daemon: a new session, and what is held is said. */
static void reconnects(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    fake_daemon_lease(&daemon, 70, "add{\"n\":10}", CONFIG("32", "endless"), 600);
    fake_daemon_expect(&daemon, GK_MSG_STARTED, &message);
    gk_message_fini(&message);
    daemon.mute = true;
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    daemon.mute = false;
    const struct gk_json *held = gk_json_at(gk_json_get(message.body, "held"), 0);
    assert_int_equal(gk_json_get_int(held, "token", 0), 70);
    assert_string_equal(gk_json_get_string(held, "state", ""), "running");
    gk_message_fini(&message);
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    assert_true(gk_json_push(tokens, gk_json_new_int(70)) && gk_json_set(body, "tokens", tokens));
    fake_daemon_send(&daemon, GK_MSG_CANCEL, 0, body);
    gk_message_fini(&message);
    body = gk_json_new_object(); /* a daemon that was restarted */
    assert_true(gk_json_set_string(body, "status", "STALE") &&
                gk_json_set_string(body, "text", "gone"));
    fake_daemon_send(&daemon, GK_MSG_ERROR, 0, body);
    /* A lease that HELLO meets on its way is not held: it is given to others, and must not run. */
    fake_daemon_lease(&daemon, 72, "add{\"n\":1000}", CONFIG("32", "none"), 30);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    (void)trial(&daemon, 71, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

/* A connection that breaks and is made anew: the session begins anew at once. (The daemon of the
 * test answers every PING, so nothing else would make the worker say HELLO.) */
static void a_new_connection_is_a_new_session(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    fake_daemon_lease(&daemon, 80, "add{\"n\":10}", CONFIG("32", "endless"), 600);
    fake_daemon_expect(&daemon, GK_MSG_STARTED, &message);
    gk_message_fini(&message);
    gk_link_destroy(daemon.link);
    assert_int_equal(gk_link_bind(daemon.endpoint, &daemon.link, NULL), GK_OK);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    const struct gk_json *held = gk_json_at(gk_json_get(message.body, "held"), 0);
    assert_int_equal(gk_json_get_int(held, "token", 0), 80);
    assert_string_equal(gk_json_get_string(held, "state", ""), "running");
    gk_message_fini(&message);
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    assert_true(gk_json_push(tokens, gk_json_new_int(80)) && gk_json_set(body, "tokens", tokens));
    fake_daemon_send(&daemon, GK_MSG_CANCEL, 0, body);
    (void)trial(&daemon, 81, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

static bool has_nvrtc(void)
{
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    struct gk_compiler *compiler = NULL;
    enum gk_status status = gk_compiler_open(&places, &compiler, NULL);
    gk_compiler_close(compiler);
    return status == GK_OK;
}

static void descriptor_of(pid_t pid, int fd, char target_out[PATH_MAX])
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t size = readlink(link, target_out, PATH_MAX - 1);
    assert_true(size > 0);
    target_out[size] = '\0';
}

/* What a kernel prints goes to descriptor 1: it must never stand among the answers. */
static void prints_beside_its_answers(pid_t executor)
{
    char output[PATH_MAX], errors[PATH_MAX];
    descriptor_of(executor, STDOUT_FILENO, output);
    descriptor_of(executor, STDERR_FILENO, errors);
    assert_string_equal(output, errors);
}

static void emulated(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    if (!has_nvrtc()) {
        skip();
    }
    fake_daemon_open(&daemon, ROOT, NULL, NULL);
    fake_daemon_start_worker(&daemon, emu_args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    assert_true(trial(&daemon, 1, CONFIG("128", "none"), 60, "none") > 0);
    (void)trial(&daemon, 2, CONFIG("128", "off_by_one"), 60, "wrong_result");
    (void)trial(&daemon, 3, CONFIG("128", "syntax"), 60, "compile_error");
    (void)trial(&daemon, 4, CONFIG("128", "beyond"), 60, "out_of_bounds");
    (void)trial(&daemon, 5, CONFIG("128", "endless"), 1, "timeout");
    /* Killed while it runs: the config gets the blame, and the next one a fresh executor. */
    fake_daemon_lease(&daemon, 6, "add{\"n\":1000}", CONFIG("256", "endless"), 60);
    for (int phases = 0; phases < 2;) {
        fake_daemon_expect(&daemon, GK_MSG_STARTED, &message);
        phases = strcmp(gk_json_get_string(message.body, "phase", ""), "run") == 0 ? 2 : phases;
        gk_message_fini(&message);
    }
    pid_t executor = fake_daemon_child(&daemon, "--child=executor");
    assert_true(executor > 0);
    prints_beside_its_answers(executor);
    assert_int_equal(kill(executor, SIGKILL), 0);
    const struct gk_json *record = result(&daemon, 6, &message);
    assert_string_equal(gk_json_get_string(record, "failure", "?"), "crash");
    gk_message_fini(&message);
    fake_daemon_ack(&daemon, 6, 0, false);
    (void)trial(&daemon, 7, CONFIG("256", "none"), 60, "none");
    /* An idle compile process that is killed costs nothing. */
    pid_t compiler = fake_daemon_child(&daemon, "--child=compile");
    assert_true(compiler > 0);
    assert_int_equal(kill(compiler, SIGKILL), 0);
    (void)trial(&daemon, 8, CONFIG("32", "none"), 60, "none");
    assert_int_equal(kill(daemon.pid, SIGTERM), 0);
    fake_daemon_expect(&daemon, GK_MSG_BYE, &message);
    gk_message_fini(&message);
    assert_int_equal(fake_daemon_wait_worker(&daemon), 0);
    fake_daemon_close(&daemon);
}

#define CORES_MOST 1024

/* All cores of the host are busy with other workers' compilers: this one compiles with one process,
 * and waits for nobody. */
static void compiles_with_what_is_left(void **state)
{
    static const char *const args[] = {"--device", "emu:sm_80", "--private", NULL};
    static const char *const configs[] = {CONFIG("32", "none"), CONFIG("128", "none"),
                                          CONFIG("256", "none"), CONFIG("128", "off_by_one")};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    struct gk_seats *seats = NULL;
    int held[CORES_MOST];
    uint32_t count = 0;
    pid_t pid = 0;
    (void)state;
    if (!has_nvrtc()) {
        skip();
    }
    assert_int_equal(gk_seats_create("gktune-core", &seats, NULL), GK_OK);
    while (count < CORES_MOST && (held[count] = gk_seat_take(seats)) != GK_SEAT_NONE) {
        count++;
    }
    fake_daemon_open(&daemon, ROOT, NULL, NULL);
    fake_daemon_start_worker(&daemon, args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    for (size_t i = 0; i < GK_ARRAY_COUNT(configs); i++) {
        fake_daemon_lease(&daemon, (int64_t)i + 1, "add{\"n\":1000}", configs[i], 60);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(configs); i++) {
        fake_daemon_expect(&daemon, GK_MSG_RESULT, &message);
        fake_daemon_ack(&daemon, (int64_t)message.token, 0, false);
        gk_message_fini(&message);
    }
    assert_int_equal(fake_daemon_children(&daemon, "--child=compile", &pid), 1);
    bool asked = count == 0; /* then it asked others */
    while (count > 0) {
        asked = gk_seat_give(held[--count]) || asked;
    }
    assert_true(asked); /* it would have had more */
    gk_seats_destroy(seats);
    fake_daemon_close(&daemon);
}

/* As a daemon that does not know the session any more: the worker says HELLO. */
static void forget_session(struct fake_daemon *daemon)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_string(body, "status", "STALE") &&
                gk_json_set_string(body, "text", "gone"));
    fake_daemon_send(daemon, GK_MSG_ERROR, 0, body);
}

/* A fence of the daemon's is lifted by opening the device, which an executor that is gone with its
 * device does not have any more; one that is there has it. */
static void a_lost_device_is_opened_to_lift_a_fence(void **state)
{
    static const char *const causes[] = {"opened the device", "has the device"};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    daemon.fence = "daemon";
    (void)trial(&daemon, 1, CONFIG("32", "beyond"), 30, "trap");
    for (size_t i = 0; i < GK_ARRAY_COUNT(causes); i++) {
        forget_session(&daemon);
        fake_daemon_expect(&daemon, GK_MSG_DEVICE_EVENT, &message);
        assert_string_equal(gk_json_get_string(message.body, "state", "?"), "ok");
        const char *cause = gk_json_get_string(message.body, "cause", "?");
        if (!strstr(cause, causes[i])) {
            fail_msg("'%s' instead of '%s'", cause, causes[i]);
        }
        gk_message_fini(&message);
    }
    (void)trial(&daemon, 2, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

/* Two daemons over two copies of one store, as after a failover that went wrong: whoever has seen
 * the newer one runs nothing for the older. Another store's epochs are another matter. */
static void an_older_copy_gets_nothing_done(void **state)
{
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    open_mock(&daemon);
    (void)trial(&daemon, 1, CONFIG("32", "none"), 30, "none");
    daemon.epoch = 6;
    forget_session(&daemon);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message); /* it was told of epoch 6 */
    gk_message_fini(&message);
    fake_daemon_lease(&daemon, 2, "add{\"n\":1000}", CONFIG("32", "none"), 30);
    daemon.epoch = 8;
    fake_daemon_next(&daemon, &message); /* and does not begin, but asks again */
    assert_int_equal(message.type, GK_MSG_HELLO);
    gk_message_fini(&message);
    (void)trial(&daemon, 3, CONFIG("32", "none"), 30, "none");
    daemon.epoch = 1;
    daemon.store_id = "of another service at this address";
    forget_session(&daemon);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    (void)trial(&daemon, 4, CONFIG("32", "none"), 30, "none");
    fake_daemon_close(&daemon);
}

/* The compile process that works on the task; another one than `before`. */
static pid_t compiling(const struct fake_daemon *daemon, pid_t before)
{
    pid_t pid = 0;
    while (pid == 0 || pid == before) { /* /proc has no events; the test's TIMEOUT bounds it */
        pid = fake_daemon_child(daemon, "--child=compile");
    }
    return pid;
}

/* Killed once while it compiles: tried again, and nobody notices. Twice: the source's doing. */
static void killed_compilers(void **state)
{
    static const char *const args[] = {"--device", "emu:sm_80", "--compile-processes",
                                       "1",        "--private", NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)state;
    if (!has_nvrtc()) {
        skip();
    }
    fake_daemon_open(&daemon, ROOT, NULL, NULL);
    fake_daemon_start_worker(&daemon, args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    for (int64_t kills = 1; kills <= 2; kills++) {
        /* Another config first, so that the reference is compiled, and then no process at all. */
        (void)trial(&daemon, 10 + kills, kills == 1 ? CONFIG("32", "none") : CONFIG("128", "none"),
                    60, "none");
        pid_t pid = compiling(&daemon, 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        while (kill(pid, 0) == 0) { /* until the worker has seen its end */
        }
        fake_daemon_lease(&daemon, kills, "add{\"n\":100}",
                          kills == 1 ? CONFIG("32", "heavy") : CONFIG("128", "heavy"), 60);
        fake_daemon_expect(&daemon, GK_MSG_STARTED, &message);
        gk_message_fini(&message);
        for (int64_t i = 0; i < kills; i++) {
            pid = compiling(&daemon, pid);
            assert_int_equal(getpgid(pid), pid); /* whoever is in the sandbox goes with it */
            assert_int_equal(kill(pid, SIGKILL), 0);
        }
        const struct gk_json *record = result(&daemon, kills, &message);
        assert_string_equal(gk_json_get_string(record, "failure", "?"),
                            kills == 1 ? "none" : "compile_crash");
        gk_message_fini(&message);
        while (kill(-pid, 0) == 0) { /* nobody of its group is left; TIMEOUT bounds it */
        }
        fake_daemon_ack(&daemon, kills, 0, false);
    }
    fake_daemon_close(&daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_left_in_a_round),
        cmocka_unit_test(executors_have_limits),
        cmocka_unit_test(mock_outcomes),
        cmocka_unit_test(final_round),
        cmocka_unit_test(carried_in_a_round),
        cmocka_unit_test(spooled_result),
        cmocka_unit_test(reconnects),
        cmocka_unit_test(a_new_connection_is_a_new_session),
        cmocka_unit_test(a_lost_device_is_opened_to_lift_a_fence),
        cmocka_unit_test(an_older_copy_gets_nothing_done),
        cmocka_unit_test(emulated),
        cmocka_unit_test(killed_compilers),
        cmocka_unit_test(compiles_with_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
