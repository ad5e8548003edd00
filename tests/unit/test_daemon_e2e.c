/*
 * The real gktuned on a state folder of its own: a client and a worker over the socket, kill -9 at
 * many points. Waits for messages and for the end of processes, never for time.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/link.h"
#include "core/record.h"
#include "kernels/catalog.h"

#define WAIT_MS 20000
#define TRIALS  18

extern char **environ;

static char folder[64];
static char endpoint[128];
static struct gk_catalog *catalog;
static bool is_gpu; /* the scripted worker claims to have an H200 */

struct daemon {
    pid_t pid;
    int input; /* the write end of its stdin: closing it ends a private one */
    FILE *output;
};

struct party {
    struct gk_link *link;
    uint64_t seq, session;
};

static struct daemon start_daemon(bool is_private)
{
    struct daemon daemon = {.input = -1};
    int in[2], out[2];
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, in[1]), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, out[0]), 0);
    char program[] = GK_BIN_DIR "/gktuned", state[] = "--state", private_[] = "--private";
    char *argv[] = {program, state, folder, is_private ? private_ : NULL, NULL};
    assert_int_equal(posix_spawn(&daemon.pid, program, &actions, NULL, argv, environ), 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    assert_int_equal(close(in[0]), 0);
    assert_int_equal(close(out[1]), 0);
    daemon.input = in[1];
    daemon.output = fdopen(out[0], "r");
    char line[256];
    assert_non_null(fgets(line, sizeof line, daemon.output)); /* it is ready, or it has ended */
    assert_int_equal(strncmp(line, "ready ipc://", 12), 0);
    line[strcspn(line, "\n")] = '\0';
    assert_true(strlen(line + 6) < sizeof endpoint);
    memcpy(endpoint, line + 6, strlen(line + 6) + 1);
    return daemon;
}

static int wait_daemon(struct daemon *daemon)
{
    int status = 0;
    assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
    if (daemon->input >= 0) {
        assert_int_equal(close(daemon->input), 0);
    }
    assert_int_equal(fclose(daemon->output), 0);
    return status;
}

static void kill_daemon(struct daemon *daemon)
{
    assert_int_equal(kill(daemon->pid, SIGKILL), 0);
    int status = wait_daemon(daemon);
    assert_true(WIFSIGNALED(status));
}

static void party_open(struct party *party)
{
    struct gk_err err = {0};
    *party = (struct party){0};
    if (gk_link_connect(endpoint, &party->link, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
}

static void party_close(struct party *party)
{
    gk_link_destroy(party->link);
    party->link = NULL;
}

static void party_send(struct party *party, enum gk_message_type type, uint64_t token,
                       struct gk_json *body)
{
    struct gk_err err = {0};
    struct gk_message message = {
        .type = type, .session = party->session, .seq = ++party->seq, .token = token, .body = body};
    if (gk_link_send(party->link, NULL, &message, &err) != GK_OK) {
        fail_msg("send: %s", err.text);
    }
    gk_message_fini(&message);
}

static struct gk_message party_receive(struct party *party)
{
    struct gk_err err = {0};
    struct gk_peer peer;
    struct gk_message message = {0};
    enum gk_status status;
    while ((status = gk_link_receive(party->link, &peer, &message, &err)) == GK_AGAIN) {
        if (gk_link_wait(party->link, WAIT_MS, &err) != GK_OK) {
            fail_msg("nothing came: %s", err.text);
        }
    }
    if (status != GK_OK) {
        fail_msg("receive: %s", err.text);
    }
    return message;
}

/* The body of the reply; the caller frees it. */
static struct gk_json *ask(struct party *party, const char *verb, struct gk_json *body)
{
    body = body ? body : gk_json_new_object();
    assert_true(gk_json_set_string(body, "verb", verb));
    party_send(party, GK_MSG_REQUEST, 0, body);
    uint64_t seq = party->seq;
    for (;;) {
        struct gk_message message = party_receive(party);
        if (message.type == GK_MSG_REPLY && message.reply_to == seq) {
            return message.body;
        }
        gk_message_fini(&message);
    }
}

static struct gk_json *ask_ok(struct party *party, const char *verb, struct gk_json *body)
{
    struct gk_json *reply = ask(party, verb, body);
    if (strcmp(gk_json_get_string(reply, "status", ""), "OK") != 0) {
        fail_msg("%s: %s", verb, gk_json_get_string(reply, "text", ""));
    }
    return reply;
}

static char *base64(const char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct gk_buf out = {0};
    for (size_t i = 0; i < count; i += 3) {
        uint32_t v = 0;
        for (size_t j = 0; j < 3; j++) {
            v = v << 8 | (i + j < count ? (unsigned char)bytes[i + j] : 0u);
        }
        gk_buf_putc(&out, digits[v >> 18 & 63]);
        gk_buf_putc(&out, digits[v >> 12 & 63]);
        gk_buf_putc(&out, i + 1 < count ? digits[v >> 6 & 63] : '=');
        gk_buf_putc(&out, i + 2 < count ? digits[v & 63] : '=');
    }
    return gk_buf_detach(&out);
}

static void put_files(struct party *client, const struct gk_bundle *bundle)
{
    for (uint32_t i = 0; i < bundle->count; i++) {
        char *text = NULL, hex[GK_HASH_TEXT_SIZE];
        size_t size = 0;
        assert_int_equal(gk_catalog_file(catalog, bundle->files[i].path, &text, &size, NULL),
                         GK_OK);
        char *data = base64(text, size);
        gk_hash_hex(&bundle->files[i].hash, hex);
        struct gk_json *body = gk_json_new_object();
        assert_true(gk_json_set_string(body, "hash", hex) && gk_json_set_int(body, "offset", 0) &&
                    gk_json_set_int(body, "size", (int64_t)size) &&
                    gk_json_set_string(body, "data", data ? data : ""));
        gk_json_free(ask_ok(client, "blob_put", body));
        free(text);
        free(data);
    }
}

static struct gk_json *submit_body(const char *id, const struct gk_bundle *bundle)
{
    struct gk_json *body = gk_json_new_object(), *problems = gk_json_new_array(),
                   *archs = gk_json_new_array();
    struct gk_json *budget = gk_json_new_object();
    assert_true(gk_json_push(problems, gk_json_new_string("scale{\"N\":4096}")));
    assert_true(gk_json_push(archs, gk_json_new_string(is_gpu ? "sm_90a" : "emu-sm_80")));
    assert_true(gk_json_set_int(budget, "trials", TRIALS));
    assert_true(gk_json_set_string(body, "submit_id", id) &&
                gk_json_set(body, "problems", problems) && gk_json_set(body, "archs", archs) &&
                gk_json_set(body, "budget", budget) &&
                gk_json_set_string(body, "strategy", "exhaustive") &&
                gk_json_set_bool(body, "private_ok", true) &&
                gk_json_set(body, "bundle", gk_bundle_to_json(bundle)));
    return body;
}

/* *over_out: the job had ended already (its last answer was lost with the daemon). */
static int64_t submit_over(struct party *client, const char *id, bool *over_out)
{
    struct gk_bundle bundle;
    assert_int_equal(gk_catalog_bundle(catalog, &bundle, NULL), GK_OK);
    struct gk_json *reply = ask(client, "submit", submit_body(id, &bundle));
    if (strcmp(gk_json_get_string(reply, "status", ""), "MISSING") == 0) {
        gk_json_free(reply);
        put_files(client, &bundle);
        reply = ask_ok(client, "submit", submit_body(id, &bundle));
    }
    int64_t job = gk_json_get_int(reply, "job", 0);
    *over_out = strcmp(gk_json_get_string(reply, "state", ""), "done") == 0;
    gk_json_free(reply);
    gk_bundle_fini(&bundle);
    assert_true(job > 0);
    return job;
}

static int64_t submit(struct party *client, const char *id)
{
    bool over;
    return submit_over(client, id, &over);
}

static void hello(struct party *worker)
{
    struct gk_json *body = gk_json_new_object(), *devices = gk_json_new_array();
    struct gk_device_props props;
    assert_int_equal(gk_device_props_builtin(is_gpu ? "emu:sm_90a" : "emu:sm_80", &props, NULL),
                     GK_OK);
    if (is_gpu) {
        (void)snprintf(props.device, sizeof props.device, "cuda:0");
        (void)snprintf(props.arch, sizeof props.arch, "sm_90a");
        (void)snprintf(props.gpu, sizeof props.gpu, "h200-132sm");
        props.modelled = false;
        props.sms = 132;
    }
    assert_true(gk_json_push(devices, gk_device_props_to_json(&props)));
    assert_true(
        gk_json_set_int(body, "version_min", 1) && gk_json_set_int(body, "version_max", 1) &&
        gk_json_set_string(body, "spool_id", "e2e") && gk_json_set_string(body, "nvrtc", "13.0") &&
        gk_json_set(body, "devices", devices) && gk_json_set(body, "held", gk_json_new_array()));
    party_send(worker, GK_MSG_HELLO, 0, body);
    struct gk_message message = party_receive(worker);
    assert_int_equal(message.type, GK_MSG_WELCOME);
    worker->session = message.session;
    gk_message_fini(&message);
    body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "device", 0) && gk_json_set_int(body, "credit", 100));
    party_send(worker, GK_MSG_READY, 0, body);
}

static struct gk_json *result_of(const struct gk_json *lease, int64_t pass)
{
    struct gk_json *body = gk_json_new_object();
    if (strcmp(gk_json_get_string(lease, "kind", ""), "final") == 0) {
        const struct gk_json *configs = gk_json_get(lease, "configs");
        struct gk_json *samples = gk_json_new_array();
        for (size_t i = 0; i < gk_json_count(configs); i++) {
            struct gk_json *sample = gk_json_new_object(), *ns = gk_json_new_array();
            assert_true(gk_json_push(ns, gk_json_new_real(1000.0 + (double)i)));
            assert_true(gk_json_set_int(sample, "trial",
                                        gk_json_get_int(gk_json_at(configs, i), "trial", 0)) &&
                        gk_json_set(sample, "ns", ns) && gk_json_push(samples, sample));
        }
        assert_true(gk_json_set_int(body, "pass", pass) && gk_json_set(body, "samples", samples));
        return body;
    }
    struct gk_record record;
    gk_record_init(&record);
    record.modelled = !is_gpu;
    record.stage = GK_STAGE_DONE;
    record.time_ns = 1000.0 + (double)gk_json_get_int(lease, "trial", 0);
    assert_true(gk_json_set(body, "record", gk_record_to_json(&record)));
    gk_record_fini(&record);
    return body;
}

struct seen {
    bool acked[TRIALS + 1]; /* by trial: the daemon said that it is stored */
    uint32_t repeats;       /* leases of a trial that was acknowledged before */
    uint32_t results;
    bool done; /* the last pass was taken */
};

/* Serves until `results_max` results were sent (the last one not waited for) or the round is over.
 */
static void serve(struct party *worker, struct seen *seen, uint32_t results_max)
{
    uint32_t sent = 0, answered = 0;
    int64_t trial_of[4096] = {0};
    struct gk_json *final = NULL;
    int64_t pass = 0;
    while (!seen->done && (sent < results_max || answered + 1 < sent)) {
        struct gk_message message = party_receive(worker);
        const struct gk_json *list =
            gk_json_get(message.body, message.type == GK_MSG_LEASE ? "leases" : "results");
        for (size_t i = 0;
             message.type == GK_MSG_LEASE && i < gk_json_count(list) && sent < results_max; i++) {
            const struct gk_json *lease = gk_json_at(list, i);
            int64_t token = gk_json_get_int(lease, "token", 0),
                    trial = gk_json_get_int(lease, "trial", 0);
            assert_true(token > 0 && token < 4096);
            seen->repeats += trial > 0 && trial <= TRIALS && seen->acked[trial];
            trial_of[token] = trial;
            if (trial == 0) {
                gk_json_free(final);
                final = gk_json_copy(lease);
                pass = 0;
            }
            party_send(worker, GK_MSG_RESULT, (uint64_t)token, result_of(lease, ++pass));
            sent++;
        }
        for (size_t i = 0; message.type == GK_MSG_ACK && i < gk_json_count(list); i++) {
            int64_t token = gk_json_get_int(gk_json_at(list, i), "token", 0),
                    trial = trial_of[token];
            assert_string_equal(gk_json_get_string(gk_json_at(list, i), "status", ""), "stored");
            answered++;
            if (trial > 0 && trial <= TRIALS) {
                seen->acked[trial] = true;
            } else if (final && gk_json_get_bool(message.body, "go_on", false)) {
                party_send(worker, GK_MSG_RESULT, (uint64_t)token, result_of(final, ++pass));
                sent++;
            } else {
                seen->done = true;
            }
        }
        gk_message_fini(&message);
    }
    gk_json_free(final);
    seen->results += sent;
}

static int64_t number(struct party *client, const char *verb, int64_t job, const char *list)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    struct gk_json *reply = ask_ok(client, verb, body);
    int64_t count = (int64_t)gk_json_count(gk_json_get(reply, list));
    gk_json_free(reply);
    return count;
}

static void wait_end(struct party *client, int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    gk_json_free(ask_ok(client, "watch", body));
    for (bool over = false; !over;) {
        struct gk_message message = party_receive(client);
        over = message.type == GK_MSG_EVENT &&
               strcmp(gk_json_get_string(message.body, "kind", ""), "job_done") == 0;
        gk_message_fini(&message);
    }
}

static int make_folder(void **state)
{
    struct gk_diag diag;
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/gktest_e2e_XXXXXX");
    gk_diag_init(&diag);
    bool ok = mkdtemp(folder) && gk_hash_setup(NULL) == GK_OK &&
              gk_catalog_load(GK_SOURCE_DIR "/tests/data/kernels/toy", &catalog, &diag) == GK_OK;
    gk_diag_fini(&diag);
    return ok ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    gk_catalog_destroy(catalog);
    catalog = NULL;
    char program[] = "/bin/rm", flags[] = "-rf";
    char *argv[] = {program, flags, folder, NULL};
    pid_t pid;
    int status = 0;
    return posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0 &&
                   waitpid(pid, &status, 0) == pid
               ? status
               : -1;
}

static void test_submit_to_pick(void **state)
{
    (void)state;
    struct daemon daemon = start_daemon(true);
    struct party client, worker;
    struct seen seen = {0};
    party_open(&client);
    party_open(&worker);
    int64_t job = submit(&client, "one");
    assert_int_equal(submit(&client, "one"), job);
    hello(&worker);
    serve(&worker, &seen, 1000);
    wait_end(&client, job);
    assert_int_equal(number(&client, "trials", job, "trials"), TRIALS);
    assert_int_equal(number(&client, "best", job, "rows"), 1);
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_string(body, "action", "check"));
    struct gk_json *reply = ask_ok(&client, "db", body);
    assert_true(gk_json_get_bool(reply, "ok", false));
    gk_json_free(reply);
    party_close(&client);
    party_close(&worker);
    assert_int_equal(close(daemon.input), 0); /* the parent is gone */
    daemon.input = -1;
    int status = wait_daemon(&daemon);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_second_daemon(void **state)
{
    (void)state;
    struct daemon daemon = start_daemon(false);
    char program[] = GK_BIN_DIR "/gktuned", flag[] = "--state";
    char *argv[] = {program, flag, folder, NULL};
    pid_t pid;
    int status = 0;
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    struct party client;
    party_open(&client);
    struct gk_json *reply = ask_ok(&client, "status", NULL);
    assert_int_equal(gk_json_get_int(reply, "pid", 0), daemon.pid);
    gk_json_free(reply);
    gk_json_free(ask_ok(&client, "stop", NULL));
    status = wait_daemon(&daemon);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    party_close(&client);
}

/* The daemon dies after each further result, acknowledged or not: nothing that was acknowledged is
 * run again or lost. */
static void test_kill_nine(void **state)
{
    (void)state;
    struct seen seen = {0};
    int64_t job = 0;
    uint32_t kills = 0;
    for (uint32_t after = 1; !seen.done; after = after % 5 + 1, kills++) {
        struct daemon daemon = start_daemon(false);
        struct party client, worker;
        party_open(&client);
        party_open(&worker);
        int64_t again = submit_over(&client, "kill", &seen.done);
        assert_true(job == 0 || again == job);
        job = again;
        hello(&worker);
        serve(&worker, &seen, after);
        kill_daemon(&daemon);
        party_close(&client);
        party_close(&worker);
        assert_true(kills < 100);
    }
    assert_int_equal(seen.repeats, 0);
    assert_true(kills > 5);
    struct daemon daemon = start_daemon(false);
    struct party client;
    party_open(&client);
    wait_end(&client, job);
    assert_int_equal(number(&client, "trials", job, "trials"), TRIALS);
    assert_int_equal(number(&client, "best", job, "rows"), 1);
    for (int64_t t = 1; t <= TRIALS; t++) {
        assert_true(seen.acked[t] ||
                    seen.results > TRIALS); /* one unacknowledged a kill may have been sent twice */
    }
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_string(body, "action", "check"));
    struct gk_json *reply = ask_ok(&client, "db", body);
    assert_true(gk_json_get_bool(reply, "ok", false));
    gk_json_free(reply);
    party_close(&client);
    assert_int_equal(kill(daemon.pid, SIGTERM), 0);
    int status = wait_daemon(&daemon);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static char *run_and_read(char *const argv[], const char *file)
{
    pid_t pid;
    int status = 0;
    char *text = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char *path = gk_asprintf("%s/x/%s", folder, file);
    if (gk_file_load(path, 1 << 20, &text, &size, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    free(path);
    return text;
}

/* A store that knows a GPU exports for it on a machine that has none: the limits of the device are
 * those that it had, not those of a built-in one. */
static void test_export_of_a_gpu(void **state)
{
    (void)state;
    is_gpu = true;
    struct daemon daemon = start_daemon(false);
    struct party client, worker;
    struct seen seen = {0};
    party_open(&client);
    party_open(&worker);
    int64_t job = submit(&client, "gpu");
    hello(&worker);
    serve(&worker, &seen, 1000);
    wait_end(&client, job);
    party_close(&worker);
    party_close(&client);
    char program[] = GK_BIN_DIR "/gktune", verb[] = "export", op[] = "scale", arch[] = "--arch",
         arch_name[] = "sm_90a", gpu[] = "--gpu", gpu_name[] = "h200-132sm", format[] = "--format",
         header[] = "header", out[] = "--out", flag[] = "--state";
    char *to = gk_asprintf("%s/x", folder);
    char *argv[] = {program, verb,   op,  arch, arch_name, gpu,    gpu_name,
                    format,  header, out, to,   flag,      folder, NULL};
    char *text = run_and_read(argv, "gk_scale_sm_90a.h");
    assert_non_null(strstr(text, "\"h200-132sm\""));
    assert_non_null(strstr(text, "132"));
    assert_null(strstr(text, "EMULATED"));
    free(text);
    text = run_and_read(argv, "gk_scale_sm_90a.evidence.json");
    assert_non_null(strstr(text, "\"sms\": 132"));
    free(text);
    free(to);
    assert_int_equal(kill(daemon.pid, SIGTERM), 0);
    int status = wait_daemon(&daemon);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    is_gpu = false;
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a known signal */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_submit_to_pick, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_second_daemon, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_kill_nine, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_export_of_a_gpu, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
