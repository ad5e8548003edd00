/* A daemon for tests: see fake_daemon.h. */
#include "tests/unit/fake_daemon.h"

#include <dirent.h>
#include <fcntl.h>
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

#include "core/base64.h"

#define WAIT_MS 60000

extern char **environ;

static void need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        fail_msg("%s: %s", gk_status_name(status), err->text);
    }
}

static void add_extra(struct gk_json *files, const char *path, const char *text)
{
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_hash hash = gk_hash_bytes(text, strlen(text));
    struct gk_json *file = gk_json_new_object();
    gk_hash_hex(&hash, hex);
    assert_true(gk_json_set_string(file, "path", path) && gk_json_set_string(file, "hash", hex) &&
                gk_json_set_int(file, "size", (int64_t)strlen(text)));
    assert_true(gk_json_push(files, file));
}

/* The bundle's JSON with the files sorted by path again. */
static void make_bundle(struct fake_daemon *daemon)
{
    struct gk_bundle bundle = {0};
    struct gk_err err = {0};
    need(gk_catalog_bundle(daemon->catalog, &bundle, &err), &err);
    struct gk_json *from = gk_bundle_to_json(&bundle);
    struct gk_json *files = gk_json_new_array();
    const struct gk_json *list = gk_json_get(from, "files");
    bool added = !daemon->extra_path;
    for (size_t i = 0; i < gk_json_count(list); i++) {
        const struct gk_json *file = gk_json_at(list, i);
        if (!added && strcmp(daemon->extra_path, gk_json_get_string(file, "path", "")) < 0) {
            add_extra(files, daemon->extra_path, daemon->extra_text);
            added = true;
        }
        assert_true(gk_json_push(files, gk_json_copy(file)));
    }
    if (!added) {
        add_extra(files, daemon->extra_path, daemon->extra_text);
    }
    struct gk_hasher hasher;
    char hex[GK_HASH_TEXT_SIZE];
    gk_hasher_init(&hasher);
    for (size_t i = 0; i < gk_json_count(files); i++) {
        struct gk_hash hash;
        assert_true(gk_hash_from_hex(gk_json_get_string(gk_json_at(files, i), "hash", ""), &hash));
        gk_hasher_text(&hasher, gk_json_get_string(gk_json_at(files, i), "path", ""));
        gk_hasher_part(&hasher, hash.bytes, GK_HASH_SIZE);
    }
    struct gk_hash id = gk_hasher_final(&hasher);
    gk_hash_hex(&id, hex);
    daemon->bundle = gk_json_new_object();
    assert_true(gk_json_set(daemon->bundle, "files", files) &&
                gk_json_set_string(daemon->bundle, "id", hex));
    gk_json_free(from);
    gk_bundle_fini(&bundle);
}

void fake_daemon_open(struct fake_daemon *daemon, const char *root, const char *extra_path,
                      const char *extra_text)
{
    struct gk_diag diag;
    struct gk_err err = {0};
    memset(daemon, 0, sizeof *daemon);
    daemon->worker_in = daemon->worker_out = -1;
    (void)snprintf(daemon->folder, sizeof daemon->folder, "/tmp/gk-test-worker-XXXXXX");
    assert_non_null(mkdtemp(daemon->folder));
    (void)snprintf(daemon->endpoint, sizeof daemon->endpoint, "ipc://%s/s", daemon->folder);
    need(gk_hash_setup(&err), &err);
    need(gk_link_bind(daemon->endpoint, &daemon->link, &err), &err);
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load(root, &daemon->catalog, &diag);
    (void)gk_diag_status(&diag, &err);
    gk_diag_fini(&diag);
    need(status, &err);
    daemon->extra_path = extra_path ? gk_strdup(extra_path) : NULL;
    daemon->extra_text = extra_path ? gk_strdup(extra_text) : NULL;
    make_bundle(daemon);
}

void fake_daemon_close(struct fake_daemon *daemon)
{
    char command[128];
    if (daemon->pid > 0) {
        (void)kill(daemon->pid, SIGKILL);
        (void)fake_daemon_wait_worker(daemon);
    }
    gk_link_destroy(daemon->link);
    gk_catalog_destroy(daemon->catalog);
    gk_json_free(daemon->bundle);
    gk_json_free(daemon->held);
    free(daemon->extra_path);
    free(daemon->extra_text);
    /* The folder's name is ours, made by mkdtemp: nothing in it needs quoting. */
    (void)snprintf(command, sizeof command, "%s", daemon->folder);
    char *argv[] = {(char *)"/bin/rm", (char *)"-rf", command, NULL};
    pid_t pid = 0;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) == 0) {
        (void)waitpid(pid, NULL, 0);
    }
}

void fake_daemon_start_worker(struct fake_daemon *daemon, const char *const *args)
{
    char spool[80];
    const char *argv[32] = {GK_BIN_DIR "/gktune-worker", "--connect", daemon->endpoint, "--spool",
                            spool};
    size_t count = 5;
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    (void)snprintf(spool, sizeof spool, "%s/spool", daemon->folder);
    argv[0] = daemon->program ? daemon->program : argv[0];
    while (*args) {
        argv[count++] = *args++;
    }
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    assert_int_equal(
        posix_spawn(&daemon->pid, argv[0], &actions, NULL, (char *const *)argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    daemon->worker_in = in[1];
    daemon->worker_out = out[0];
}

int fake_daemon_wait_worker(struct fake_daemon *daemon)
{
    int status = 0;
    while (waitpid(daemon->pid, &status, 0) < 0) {
    }
    daemon->pid = 0;
    if (daemon->worker_in >= 0) {
        (void)close(daemon->worker_in);
    }
    if (daemon->worker_out >= 0) {
        (void)close(daemon->worker_out);
    }
    daemon->worker_in = daemon->worker_out = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ------------------------------------------------------------------ messages */

void fake_daemon_send(struct fake_daemon *daemon, enum gk_message_type type, int64_t token,
                      struct gk_json *body)
{
    struct gk_message message = {.type = type,
                                 .epoch = daemon->epoch ? daemon->epoch : 7,
                                 .session = daemon->session,
                                 .token = (uint64_t)token,
                                 .body = body};
    struct gk_err err = {0};
    assert_non_null(body);
    enum gk_status status = gk_link_send(daemon->link, &daemon->peer, &message, &err);
    if (status != GK_CLOSED) { /* the last words of a worker that was killed are still read */
        need(status, &err);
    }
    gk_message_fini(&message);
}

static void answer_hello(struct fake_daemon *daemon, const struct gk_message *message)
{
    struct gk_json *body = gk_json_new_object();
    daemon->session++;
    gk_json_free(daemon->held);
    daemon->held = gk_json_copy(gk_json_get(message->body, "held"));
    assert_true(gk_json_set_int(body, "heartbeat_ms", 200) &&
                gk_json_set_int(body, "liveness", 10) &&
                gk_json_set(body, "drop", gk_json_new_array()) &&
                gk_json_set(body, "keep", gk_json_new_array()));
    assert_true(!daemon->store_id || gk_json_set_string(body, "store_id", daemon->store_id));
    if (daemon->fence) {
        struct gk_json *list = gk_json_new_array(), *item = gk_json_new_object();
        assert_true(gk_json_set_int(item, "device", 0) &&
                    gk_json_set_string(item, "origin", daemon->fence) && gk_json_push(list, item) &&
                    gk_json_set(body, "fenced", list));
    }
    fake_daemon_send(daemon, GK_MSG_WELCOME, 0, body);
}

static void answer_blob(struct fake_daemon *daemon, const struct gk_message *message)
{
    const char *want = gk_json_get_string(message->body, "hash", "");
    const struct gk_json *files = gk_json_get(daemon->bundle, "files");
    size_t offset = (size_t)gk_json_get_int(message->body, "offset", 0);
    for (size_t i = 0; i < gk_json_count(files); i++) {
        const struct gk_json *file = gk_json_at(files, i);
        const char *path = gk_json_get_string(file, "path", "");
        char *text = NULL;
        size_t size = 0;
        struct gk_err err = {0};
        if (strcmp(gk_json_get_string(file, "hash", ""), want) != 0) {
            continue;
        }
        if (daemon->extra_path && strcmp(path, daemon->extra_path) == 0) {
            text = gk_strdup(daemon->extra_text);
            size = strlen(text);
        } else {
            need(gk_catalog_file(daemon->catalog, path, &text, &size, &err), &err);
        }
        size_t piece =
            size - offset > 700 ? 700 : size - offset; /* small, so that offsets matter */
        struct gk_json *body = gk_json_new_object();
        struct gk_buf data = {0};
        gk_base64_encode(text + offset, piece, &data);
        assert_true(gk_json_set_string(body, "hash", want) &&
                    gk_json_set_int(body, "offset", (int64_t)offset) &&
                    gk_json_set_int(body, "size", (int64_t)size) &&
                    gk_json_set_string(body, "data", gk_buf_text(&data)));
        fake_daemon_send(daemon, GK_MSG_BLOB, 0, body);
        gk_buf_fini(&data);
        free(text);
        return;
    }
    fail_msg("BLOB_GET of an unknown hash %s", want);
}

void fake_daemon_next(struct fake_daemon *daemon, struct gk_message *message_out)
{
    struct gk_err err = {0};
    for (;;) {
        struct gk_message message = {0};
        enum gk_status status = gk_link_receive(daemon->link, &daemon->peer, &message, &err);
        if (status == GK_AGAIN) {
            need(gk_link_wait(daemon->link, WAIT_MS, &err), &err);
            continue;
        }
        need(status, &err);
        switch (message.type) {
        case GK_MSG_HELLO:
            answer_hello(daemon, &message);
            break;
        case GK_MSG_BLOB_GET:
            answer_blob(daemon, &message);
            break;
        case GK_MSG_PING:
            if (!daemon->mute) {
                fake_daemon_send(daemon, GK_MSG_PONG, 0, gk_json_new_object());
            }
            break;
        case GK_MSG_READY:
            daemon->credit = gk_json_get_int(message.body, "credit", -1);
            break;
        case GK_MSG_PONG:
        case GK_MSG_STARTED:
            break;
        default:
            *message_out = message;
            return;
        }
        bool hello = message.type == GK_MSG_HELLO || message.type == GK_MSG_STARTED;
        if (hello) {
            *message_out = message;
            return;
        }
        gk_message_fini(&message);
    }
}

void fake_daemon_expect(struct fake_daemon *daemon, enum gk_message_type type,
                        struct gk_message *message_out)
{
    for (;;) {
        struct gk_message message = {0};
        fake_daemon_next(daemon, &message);
        if (message.type == type) {
            *message_out = message;
            return;
        }
        gk_message_fini(&message);
    }
}

/* ------------------------------------------------------------------ leases */

static struct gk_json *lease_common(const struct fake_daemon *daemon, int64_t token,
                                    const char *problem, int64_t run_s, const char *kind)
{
    struct gk_json *lease = gk_json_new_object();
    assert_true(gk_json_set_int(lease, "token", token) && gk_json_set_int(lease, "attempt", 1) &&
                gk_json_set_string(lease, "kind", kind) &&
                gk_json_set_int(lease, "device", daemon->device) &&
                gk_json_set_int(lease, "job", 1) && gk_json_set_int(lease, "task", 1) &&
                gk_json_set_string(lease, "op", "add") &&
                gk_json_set_string(lease, "problem", problem) &&
                gk_json_set_string(lease, "policy", "cold-graph") &&
                gk_json_set_int(lease, "compile_s", 30) && gk_json_set_int(lease, "run_s", run_s) &&
                gk_json_set(lease, "bundle", gk_json_copy(daemon->bundle)));
    return lease;
}

static void set_config(struct gk_json *json, int64_t trial, const char *config)
{
    assert_true(gk_json_set_int(json, "trial", trial) &&
                gk_json_set_string(json, "template", "add_some") &&
                gk_json_set_string(json, "config", config) &&
                gk_json_set_string(json, "config_id", config));
}

static void send_lease(struct fake_daemon *daemon, struct gk_json *lease)
{
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array();
    assert_true(gk_json_push(list, lease));
    assert_true(gk_json_set(body, "leases", list));
    fake_daemon_send(daemon, GK_MSG_LEASE, 0, body);
}

void fake_daemon_lease(struct fake_daemon *daemon, int64_t token, const char *problem,
                       const char *config, int64_t run_s)
{
    struct gk_json *lease = lease_common(daemon, token, problem, run_s, "trial");
    set_config(lease, token + 1000, config);
    assert_true(gk_json_set_int(lease, "input_set", token % 4));
    send_lease(daemon, lease);
}

void fake_daemon_final(struct fake_daemon *daemon, int64_t token, const char *problem,
                       const char *const *configs, int64_t passes_max)
{
    struct gk_json *lease = lease_common(daemon, token, problem, 30, "final");
    struct gk_json *list = gk_json_new_array();
    for (int64_t i = 0; configs[i]; i++) {
        struct gk_json *item = gk_json_new_object();
        set_config(item, i + 1, configs[i]);
        assert_true(gk_json_push(list, item));
    }
    assert_true(gk_json_set(lease, "configs", list) && gk_json_set_int(lease, "seed", 3) &&
                gk_json_set_int(lease, "passes_max", passes_max) &&
                gk_json_set_int(lease, "budget_s", 60));
    send_lease(daemon, lease);
}

void fake_daemon_ack(struct fake_daemon *daemon, int64_t token, int64_t pass, bool go_on)
{
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array();
    struct gk_json *item = gk_json_new_object();
    assert_true(gk_json_set_int(item, "token", token) && gk_json_set_int(item, "pass", pass) &&
                gk_json_set_string(item, "status", "stored"));
    assert_true(gk_json_push(list, item) && gk_json_set(body, "results", list) &&
                gk_json_set_bool(body, "go_on", go_on));
    fake_daemon_send(daemon, GK_MSG_ACK, token, body);
}

/* ------------------------------------------------------------------ children */

static bool is_child(pid_t pid, pid_t parent, const char *text)
{
    char path[64], line[4096];
    long found_parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    size_t size = fread(line, 1, sizeof line - 1, file);
    (void)fclose(file);
    line[size] = '\0';
    const char *after = strrchr(line, ')');
    if (!after || sscanf(after + 1, " %*c %ld", &found_parent) != 1 || found_parent != parent) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    file = fopen(path, "r");
    size = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file) {
        (void)fclose(file);
    }
    return memmem(line, size, text, strlen(text)) != NULL;
}

uint32_t fake_daemon_children(const struct fake_daemon *daemon, const char *text, pid_t *any_out)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    uint32_t count = 0;
    while (dir && (entry = readdir(dir)) != NULL) {
        char *end = NULL;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0' && is_child((pid_t)pid, daemon->pid, text)) {
            *any_out = (pid_t)pid;
            count++;
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return count;
}

pid_t fake_daemon_child(const struct fake_daemon *daemon, const char *text)
{
    pid_t found = 0;
    (void)fake_daemon_children(daemon, text, &found);
    return found;
}
