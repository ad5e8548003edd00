/* gktune db: check, backup, restore, prune. The daemon does the work: only it opens the store. */
#include "cli/client.h"
#include "core/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define EPOCH_FILE_MAX 4096
#define LONG_MS        3600000 /* a check or copy of many gigabytes */

static char *absolute(const char *path)
{
    if (path[0] == '/') {
        return gk_strdup(path);
    }
    char *here = getcwd(NULL, 0), *whole = here ? gk_asprintf("%s/%s", here, path) : NULL;
    free(here);
    return whole;
}

static void print_pruned(const struct gk_json *reply)
{
    (void)printf(
        "%" PRId64 " trials, %" PRId64 " passes, %" PRId64 " dead letters, about %.1f MB %s\n",
        gk_json_get_int(reply, "trials_deleted", 0), gk_json_get_int(reply, "passes_deleted", 0),
        gk_json_get_int(reply, "letters_deleted", 0),
        (double)gk_json_get_int(reply, "bytes", 0) / 1e6,
        gk_json_get_bool(reply, "dry_run", false) ? "can go" : "deleted");
}

static void print_reply(const char *action, const char *file, const struct gk_json *reply)
{
    const struct gk_json *problems = gk_json_get(reply, "problems");
    if (strcmp(action, "check") == 0) {
        (void)printf("%" PRId64 " trials, %" PRId64 " lines of the audit trail checked: %s\n",
                     gk_json_get_int(reply, "trials_checked", 0),
                     gk_json_get_int(reply, "audit_lines", 0),
                     gk_json_get_bool(reply, "ok", true) ? "the store is whole" : "damaged");
    } else if (strcmp(action, "prune") == 0) {
        print_pruned(reply);
    } else {
        (void)printf("the store was copied to %s\n", file);
    }
    for (size_t i = 0; i < gk_json_count(problems); i++) {
        (void)printf("  %s\n", gk_json_string(gk_json_at(problems, i), ""));
    }
}

/* To look at a store must not make one. */
static enum gk_status need_store(const struct gk_cli *cli, struct gk_err *err)
{
    struct stat info;
    if (!cli->connect && cli->state_dir && stat(cli->state_dir, &info) != 0 && errno == ENOENT) {
        return gk_fail(err, GK_NOT_FOUND, "state folder '%s' does not exist: there is no store",
                       cli->state_dir);
    }
    return GK_OK;
}

static enum gk_status ask(struct gk_cli *cli, const char *action, const char *path, bool dry_run,
                          struct gk_err *err)
{
    const char *reason = gk_options_get(&cli->options, "reason");
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL;
    int64_t days = 90;
    const char *days_text = gk_options_get(&cli->options, "days");
    enum gk_status status = GK_OK;
    if (days_text) {
        status = gk_parse_int(days_text, "--days", 0, 36500, &days, err);
    }
    if (status == GK_OK) {
        status = gk_client_open(cli, &client, err);
    }
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_string(body, "action", action);
        (void)gk_json_set_bool(body, "no_samples", gk_options_has(&cli->options, "no-samples"));
        (void)gk_json_set_int(body, "days", days);
        (void)(!dry_run || gk_json_set_bool(body, "dry_run", true));
        (void)(!reason || gk_json_set_string(body, "reason", reason));
        if (path) {
            (void)gk_json_set_string(body, "path", path);
        }
        status = gk_client_request(client, "db", body, LONG_MS, &reply, err);
    }
    if (status == GK_OK && cli->json && !(dry_run && !gk_options_has(&cli->options, "dry-run"))) {
        status = gk_print_json(cli, reply, err);
    } else if (status == GK_OK && !cli->json) {
        print_reply(action, path ? path : "", reply);
    }
    if (status == GK_OK && !gk_json_get_bool(reply, "ok", true)) {
        status = gk_fail(err, GK_CORRUPT, "the store is damaged: see the report");
    }
    gk_json_free(reply);
    gk_client_close(client);
    return status;
}

enum gk_status gk_copy_file(const char *from, const char *to, struct gk_err *err)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK), out = -1;
    struct stat info;
    enum gk_status status = GK_OK;
    if (in < 0 || fstat(in, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = gk_fail(err, GK_NOT_FOUND, "backup '%s': %s", from,
                         in < 0 ? strerror(errno) : "not a file");
    } else if ((out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0) {
        status = gk_fail(
            err, errno == EEXIST ? GK_EXISTS : GK_IO, "'%s': %s%s", to, strerror(errno),
            errno == EEXIST ? "; restore into a state folder without a store (--state DIR)" : "");
    }
    for (off_t done = 0; status == GK_OK && done < info.st_size;) {
        ssize_t part = sendfile(out, in, &done, 1 << 24);
        if (part < 0 && errno != EINTR) {
            status = gk_fail(err, GK_IO, "copying '%s' to '%s': %s", from, to, strerror(errno));
        } else if (part == 0) {
            break; /* shorter than it was a moment ago: the check will say what is missing */
        }
    }
    if (status == GK_OK && fsync(out) != 0) {
        status = gk_fail(err, GK_IO, "'%s': fsync: %s", to, strerror(errno));
    }
    if (out >= 0) {
        (void)close(out);
        if (status != GK_OK) {
            (void)unlink(to);
        }
    }
    if (in >= 0) {
        (void)close(in); /* it was only read */
    }
    return status;
}

/* What the folder knows of its store becomes: it was restored. The daemon that opens it leaves the
 * backup's past behind (epochs, tokens, leases). *was_out: what the file said before, NULL if there
 * was none. */
static enum gk_status mark_restored(const char *path, char **was_out, struct gk_err *err)
{
    struct gk_json *json = NULL;
    size_t size = 0;
    struct gk_err why = {0};
    enum gk_status status = gk_file_load(path, EPOCH_FILE_MAX, was_out, &size, &why);
    if (status != GK_OK && status != GK_NOT_FOUND) {
        return gk_fail(err, status, "%s", why.text);
    }
    if (!*was_out || gk_json_parse(*was_out, size, path, &json, NULL) != GK_OK) {
        json = gk_json_new_object(); /* damaged: the flag alone is enough */
    }
    char *text = gk_json_set_bool(json, "restored", true) ? gk_json_text(json) : NULL;
    status = text ? gk_file_store(path, text, strlen(text), err)
                  : gk_fail(err, GK_NOMEM, "out of memory");
    free(text);
    gk_json_free(json);
    return status;
}

/* A restore that came to nothing leaves the folder as it was; at worst its next epoch is higher. */
static void unmark_restored(const char *path, const char *was)
{
    if (was) {
        (void)gk_file_store(path, was, strlen(was), NULL);
    } else {
        (void)unlink(path);
    }
}

/* What a restore that came to nothing has made, with the log that a daemon has put beside it. */
static void drop_store(const char *store)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(ends); i++) {
        char *path = gk_asprintf("%s%s", store, ends[i]);
        if (path) {
            (void)unlink(path); /* most often there is none */
        }
        free(path);
    }
}

/* A store is made only where there is none, and kept only if the daemon that opens it finds it
 * whole. The mark comes first: a store without it would give out tokens again. */
static enum gk_status restore(struct gk_cli *cli, const char *backup, struct gk_err *err)
{
    struct stat info;
    if (!cli->state_dir) {
        return gk_fail(err, cli->state_error.status, "%s", cli->state_error.text);
    }
    if (cli->connect) {
        return gk_fail(err, GK_USAGE,
                       "db restore works on the state folder: run it on that host, without "
                       "--connect and $GKTUNE_CONNECT");
    }
    if (gk_client_is_served(cli)) { /* it would be asked whether its own store is whole */
        return gk_fail(err, GK_BUSY,
                       "a daemon serves '%s': stop it, or restore into another state folder "
                       "(--state DIR)",
                       cli->state_dir);
    }
    enum gk_status status = gk_backup_check(backup, err); /* before any folder is made */
    if (status != GK_OK) {
        return status;
    }
    char *store = gk_asprintf("%s/%s", cli->state_dir, GK_STATE_STORE),
         *epoch = gk_asprintf("%s/%s", cli->state_dir, GK_STATE_EPOCH), *was = NULL;
    status = store && epoch ? gk_state_dir_make(cli->state_dir, err)
                            : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && lstat(store, &info) == 0) {
        status = gk_fail(err, GK_EXISTS,
                         "'%s' exists; restore into a state folder without a store (--state DIR)",
                         store);
    }
    if (status == GK_OK) {
        status = mark_restored(epoch, &was, err);
        if (status == GK_OK) {
            status = gk_copy_file(backup, store, err);
        }
        if (status == GK_OK) {
            status = ask(cli, "check", NULL, false, err);
            if (status != GK_OK) {
                drop_store(store);
                status = gk_fail_in(err, GK_INPUT, "backup '%s' was not restored", backup);
            }
        }
        if (status != GK_OK) {
            unmark_restored(epoch, was);
        }
    }
    free(was);
    free(epoch);
    free(store);
    return status;
}

enum gk_status gk_cmd_db(struct gk_cli *cli, struct gk_err *err)
{
    const char *action = cli->options.operands[0];
    const char *file = cli->options.operand_count > 1 ? cli->options.operands[1] : NULL;
    bool check = strcmp(action, "check") == 0, prune = strcmp(action, "prune") == 0;
    bool backup = strcmp(action, "backup") == 0,
         wants_file = backup || strcmp(action, "restore") == 0;
    if (!check && !prune && !wants_file) {
        return gk_fail(err, GK_USAGE, "db '%s': allowed are check, backup, restore and prune",
                       action);
    }
    if (wants_file != (file != NULL)) {
        return gk_fail(err, GK_USAGE, wants_file ? "db %s needs a FILE" : "db %s takes no FILE",
                       action);
    }
    if (strcmp(action, "restore") == 0) {
        return restore(cli, file, err);
    }
    enum gk_status status = need_store(cli, err);
    if (status != GK_OK) {
        return status;
    }
    char *path = file ? absolute(file) : NULL;
    bool dry_run = gk_options_has(&cli->options, "dry-run");
    if (dry_run && !prune) {
        status = gk_fail(err, GK_USAGE, "--dry-run is for db prune");
    }
    if (status == GK_OK && prune) { /* what would go is said before it goes */
        status = ask(cli, action, path, true, err);
    }
    if (status == GK_OK && !dry_run) {
        status = ask(cli, action, path, false, err);
    }
    free(path);
    return status;
}
