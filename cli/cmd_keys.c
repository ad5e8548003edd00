/*
 * gktune keys: who may use the daemon from other hosts. Works on the state folder's files and tells
 * the daemon that runs there, if one does; only `list` may also be asked of a daemon elsewhere.
 */
#include "cli/client.h"
#include "cli/table.h"
#include "core/key_list.h"
#include "core/state_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What new, add and revoke have done. */
struct outcome {
    const char *done;
    struct gk_admitted key;            /* borrows hosts and reason */
    char file[4096];                   /* of the secret key; "": none was written */
    char server_key[GK_KEY_TEXT_SIZE]; /* of the daemon; "": not known here */
    bool admitted, told;               /* told: a running daemon knows of it */
};

static enum gk_status need_local(const struct gk_cli *cli, const char *verb, struct gk_err *err)
{
    if (cli->connect) {
        return gk_fail(err, GK_USAGE,
                       "keys %s works on the state folder of the daemon: run it on the daemon's "
                       "host, without --connect",
                       verb);
    }
    return cli->state_dir ? gk_state_dir_make(cli->state_dir, err)
                          : gk_fail(err, cli->state_error.status, "%s", cli->state_error.text);
}

/* Name, roles, pool and hosts from the command line. */
static enum gk_status read_key(const struct gk_cli *cli, struct gk_admitted *key,
                               struct gk_err *err)
{
    const char *roles = gk_options_get(&cli->options, "roles"), *name = cli->options.operands[1];
    if (!name) {
        return gk_fail(err, GK_USAGE, "a name is missing: keys %s NAME --roles R,..",
                       cli->options.operands[0]);
    }
    if (!roles) {
        return gk_fail(err, GK_USAGE, "--roles is missing: submit, work, admin or several of them");
    }
    enum gk_status status = gk_key_name_check(name, err);
    if (status == GK_OK) {
        status = gk_roles_parse(roles, &key->roles, err);
    }
    if (status == GK_OK) {
        (void)snprintf(key->name, sizeof key->name, "%s", name);
        key->is_pool = gk_options_has(&cli->options, "pool");
        /* Borrowed of the command line and never changed; the list makes its own copy. */
        key->hosts = (char *)(uintptr_t)gk_options_get(&cli->options, "hosts");
        key->added_ms = (int64_t)cli->clock.wall_ms(cli->clock.context);
    }
    return status;
}

/* One change of the list under its lock; then the daemon hears of it. */
static enum gk_status change_list(struct gk_cli *cli, struct outcome *outcome, struct gk_err *err)
{
    struct gk_key_list list = {0};
    int lock = -1;
    enum gk_status status = gk_key_list_lock(cli->state_dir, &lock, err);
    if (status != GK_OK) {
        return status;
    }
    status = gk_key_list_load(cli->state_dir, &list, err);
    if (status == GK_OK) {
        status = outcome->key.reason
                     ? gk_key_list_revoke(&list, outcome->key.name, outcome->key.revoked_ms,
                                          outcome->key.reason, err)
                     : gk_key_list_add(&list, &outcome->key, err);
    }
    if (status == GK_OK) {
        status = gk_key_list_save(cli->state_dir, &list, err);
    }
    const struct gk_admitted *key = gk_key_list_named(&list, outcome->key.name);
    if (status == GK_OK && key) {
        outcome->key.roles = key->roles;
        outcome->key.is_pool = key->is_pool;
        outcome->key.added_ms = key->added_ms;
        memcpy(outcome->key.public_key, key->public_key, sizeof outcome->key.public_key);
        outcome->admitted = key->revoked_ms == 0;
    }
    gk_key_list_fini(&list);
    (void)close(lock); /* gives the lock back */
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_string(body, "action", "reload"); /* without it the daemon says so */
        status = gk_client_tell(cli, "keys", body, &outcome->told, err);
        if (status != GK_OK) {
            status = gk_fail_in(err, status,
                                "the list was changed, but the running daemon did not "
                                "take it (kill -HUP makes it try again)");
        }
    }
    return status;
}

/* ------------------------------------------------------------------ what was done */

static enum gk_status print_outcome_json(const struct gk_cli *cli, const struct outcome *outcome,
                                         struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object();
    bool good =
        gk_json_set_string(json, "done", outcome->done) &&
        gk_json_set(json, "key", gk_admitted_json(&outcome->key)) &&
        gk_json_set_bool(json, "admitted", outcome->admitted) &&
        gk_json_set_bool(json, "told", outcome->told) &&
        (!outcome->file[0] || gk_json_set_string(json, "file", outcome->file)) &&
        (!outcome->server_key[0] || gk_json_set_string(json, "server", outcome->server_key));
    enum gk_status status =
        good ? gk_print_json(cli, json, err) : gk_fail(err, GK_NOMEM, "out of memory");
    gk_json_free(json);
    return status;
}

static void print_next(const struct outcome *outcome)
{
    const struct gk_admitted *key = &outcome->key;
    char roles[32];
    gk_roles_text(key->roles, roles);
    if (!outcome->admitted && !key->reason) {
        (void)printf("Not admitted anywhere yet. On the daemon's host:\n"
                     "  gktune keys add %s --roles %s%s --public '%s'\n",
                     key->name, roles, key->is_pool ? " --pool" : "", key->public_key);
    }
    if (outcome->file[0]) {
        (void)printf("Secret key: %s (mode 0600). %s\n", outcome->file,
                     outcome->admitted ? "Copy it to the host that uses it, by a channel that you "
                                         "trust, and delete it here."
                                       : "It stays on this host.");
        if (key->roles & (GK_ROLE_SUBMIT | GK_ROLE_ADMIN)) {
            (void)printf("  gktune jobs --connect tcp://HOST:PORT --key %s\n", outcome->file);
        }
        if (key->roles & GK_ROLE_WORK) {
            (void)printf("  gktune-worker --connect tcp://HOST:PORT --key %s\n", outcome->file);
        }
    }
    if (outcome->admitted && !outcome->told) {
        (void)printf(
            "The daemon reads the list when it starts: gktuned --listen tcp://HOST:PORT\n");
    }
}

static enum gk_status print_outcome(const struct gk_cli *cli, const struct outcome *outcome,
                                    struct gk_err *err)
{
    char roles[32];
    if (cli->json) {
        return print_outcome_json(cli, outcome, err);
    }
    gk_roles_text(outcome->key.roles, roles);
    (void)printf("key %s (%s%s): %s%s\n", outcome->key.name, roles,
                 outcome->key.is_pool ? ", pool" : "",
                 outcome->key.reason ? "revoked"
                 : outcome->admitted ? "admitted"
                                     : "made",
                 outcome->told ? ", the daemon knows" : "");
    print_next(outcome);
    return GK_OK;
}

/* ------------------------------------------------------------------ verbs */

/* The daemon's public key: of --server, else of this state folder, where it is made if need be. */
static enum gk_status find_server(const struct gk_cli *cli, char text_out[GK_KEY_TEXT_SIZE],
                                  struct gk_err *err)
{
    const char *given = gk_options_get(&cli->options, "server");
    struct gk_key server = {0};
    if (given) {
        enum gk_status status = gk_key_text_check(given, "--server", err);
        if (status == GK_OK) {
            memcpy(text_out, given, GK_KEY_TEXT_SIZE);
        }
        return status;
    }
    enum gk_status status = gk_key_server(cli->state_dir, &server, err);
    if (status == GK_OK) {
        memcpy(text_out, server.public_key, GK_KEY_TEXT_SIZE);
    }
    gk_key_wipe(&server);
    return status;
}

static enum gk_status make_file(struct gk_cli *cli, struct outcome *outcome, struct gk_err *err)
{
    struct gk_key pair = {0};
    const char *out = gk_options_get(&cli->options, "out");
    int size = out ? snprintf(outcome->file, sizeof outcome->file, "%s", out)
                   : snprintf(outcome->file, sizeof outcome->file, "%s.key", outcome->key.name);
    if (size < 0 || (size_t)size >= sizeof outcome->file) {
        return gk_fail(err, GK_USAGE, "--out: the path is too long");
    }
    enum gk_status status = gk_key_make(outcome->key.name, &pair, err);
    if (status == GK_OK) {
        memcpy(pair.server_key, outcome->server_key, sizeof pair.server_key);
        memcpy(outcome->key.public_key, pair.public_key, sizeof outcome->key.public_key);
        status = gk_key_save(outcome->file, &pair, err);
    }
    gk_key_wipe(&pair);
    return status;
}

static enum gk_status keys_new(struct gk_cli *cli, struct gk_err *err)
{
    struct outcome outcome = {.done = "new"};
    bool elsewhere = gk_options_has(&cli->options, "server");
    enum gk_status status = read_key(cli, &outcome.key, err);
    if (status == GK_OK && !elsewhere) {
        status = need_local(cli, "new", err);
    }
    if (status == GK_OK) {
        status = find_server(cli, outcome.server_key, err);
    }
    if (status == GK_OK) {
        status = make_file(cli, &outcome, err);
    }
    if (status == GK_OK && !elsewhere) {
        status = change_list(cli, &outcome, err);
        if (status != GK_OK && !outcome.admitted) {
            (void)unlink(outcome.file); /* a key that nobody admits would only confuse */
        }
    }
    return status == GK_OK ? print_outcome(cli, &outcome, err) : status;
}

static enum gk_status keys_add(struct gk_cli *cli, struct gk_err *err)
{
    struct outcome outcome = {.done = "add"};
    const char *public_key = gk_options_get(&cli->options, "public");
    enum gk_status status = need_local(cli, "add", err);
    if (status == GK_OK) {
        status = read_key(cli, &outcome.key, err);
    }
    if (status == GK_OK && !public_key) {
        status = gk_fail(err, GK_USAGE, "--public KEY is missing: what keys new has printed");
    }
    if (status == GK_OK) {
        status = gk_key_text_check(public_key, "--public", err);
    }
    if (status == GK_OK) {
        memcpy(outcome.key.public_key, public_key, GK_KEY_TEXT_SIZE);
        status = find_server(cli, outcome.server_key, err);
    }
    if (status == GK_OK) {
        status = change_list(cli, &outcome, err);
    }
    return status == GK_OK ? print_outcome(cli, &outcome, err) : status;
}

static enum gk_status keys_revoke(struct gk_cli *cli, struct gk_err *err)
{
    struct outcome outcome = {.done = "revoke"};
    const char *name = cli->options.operands[1], *reason = gk_options_get(&cli->options, "reason");
    enum gk_status status = need_local(cli, "revoke", err);
    if (status == GK_OK && (!name || !reason)) {
        status = gk_fail(err, GK_USAGE, "keys revoke NAME --reason TEXT: %s is missing",
                         name ? "the reason" : "the name");
    }
    if (status == GK_OK) {
        status = gk_key_name_check(name, err);
    }
    if (status == GK_OK) {
        (void)snprintf(outcome.key.name, sizeof outcome.key.name, "%s", name);
        outcome.key.reason = (char *)(uintptr_t)reason; /* borrowed, never changed */
        outcome.key.revoked_ms = (int64_t)cli->clock.wall_ms(cli->clock.context);
        status = change_list(cli, &outcome, err);
    }
    return status == GK_OK ? print_outcome(cli, &outcome, err) : status;
}

/* ------------------------------------------------------------------ list */

static enum gk_status list_local(struct gk_cli *cli, struct gk_json *json, struct gk_err *err)
{
    struct gk_key_list list = {0};
    struct gk_json *rows = gk_json_new_array();
    struct gk_key server = {0};
    char *path = gk_asprintf("%s/%s", cli->state_dir ? cli->state_dir : "", GK_STATE_SERVER_KEY);
    enum gk_status status =
        cli->state_dir ? gk_key_list_load(cli->state_dir, &list, err)
                       : gk_fail(err, cli->state_error.status, "%s", cli->state_error.text);
    for (uint32_t i = 0; status == GK_OK && i < list.count; i++) {
        if (!gk_json_push(rows, gk_admitted_json(&list.keys[i]))) {
            status = gk_fail(err, GK_NOMEM, "out of memory for keys");
        }
    }
    /* It is made when it is first needed: to look makes nothing. */
    if (status == GK_OK && path && gk_key_load(path, &server, NULL) == GK_OK &&
        !gk_json_set_string(json, "server", server.public_key)) {
        status = gk_fail(err, GK_NOMEM, "out of memory for keys");
    }
    if (!gk_json_set(json, "keys", rows) && status == GK_OK) {
        status = gk_fail(err, GK_NOMEM, "out of memory for keys");
    }
    gk_key_wipe(&server);
    gk_key_list_fini(&list);
    free(path);
    return status;
}

static enum gk_status list_remote(struct gk_cli *cli, struct gk_json *json, struct gk_err *err)
{
    struct gk_client *client = NULL;
    struct gk_json *reply = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        struct gk_json *body = gk_json_new_object();
        (void)gk_json_set_string(body, "action", "list"); /* without it the daemon says so */
        status = gk_client_request(client, "keys", body, 0, &reply, err);
    }
    if (status == GK_OK && !gk_json_set(json, "keys", gk_json_copy(gk_json_get(reply, "keys")))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for keys");
    }
    gk_json_free(reply);
    gk_client_close(client);
    return status;
}

static void print_table(const struct gk_cli *cli, const struct gk_json *json)
{
    const struct gk_json *keys = gk_json_get(json, "keys");
    const char *server = gk_json_get_string(json, "server", NULL);
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    struct gk_table table;
    struct gk_buf text = {0};
    gk_table_init(&table, "name|roles|use|hosts|>added|state");
    for (size_t i = 0; i < gk_json_count(keys); i++) {
        const struct gk_json *key = gk_json_at(keys, i), *roles = gk_json_get(key, "roles");
        struct gk_buf words = {0};
        char age[32];
        for (size_t r = 0; r < gk_json_count(roles); r++) {
            gk_buf_printf(&words, "%s%s", r ? "," : "", gk_json_string(gk_json_at(roles, r), ""));
        }
        gk_age_text(gk_json_get_int(key, "added_ms", 0), now, age);
        bool revoked = gk_json_get(key, "revoked_ms") != NULL;
        gk_table_cell(&table, "%s", gk_json_get_string(key, "name", ""));
        gk_table_cell(&table, "%s", gk_buf_text(&words));
        gk_table_cell(&table, "%s", gk_json_get_bool(key, "pool", false) ? "pool" : "single");
        gk_table_cell(&table, "%s", gk_json_get_string(key, "hosts", "any"));
        gk_table_cell(&table, "%s", age);
        gk_table_cell(&table, "%s%s", revoked ? "revoked: " : "valid",
                      revoked ? gk_json_get_string(key, "reason", "") : "");
        gk_buf_fini(&words);
    }
    gk_table_render(&table, &text);
    if (gk_table_rows(&table) > 0) {
        struct gk_buf plain = {0};
        gk_put_plain(gk_buf_text(&text), true, &plain);
        (void)fputs(gk_buf_text(&plain), stdout);
        gk_buf_fini(&plain);
    } else {
        (void)fprintf(stderr, "no key is admitted: gktune keys new makes one\n");
    }
    if (server) {
        (void)printf("public key of this daemon: %s\n", server);
    }
    gk_buf_fini(&text);
    gk_table_fini(&table);
}

static enum gk_status keys_list(struct gk_cli *cli, struct gk_err *err)
{
    if (cli->options.operand_count > 1) {
        return gk_fail(err, GK_USAGE, "keys list takes no argument; '%.80s' was given",
                       cli->options.operands[1]);
    }
    struct gk_json *json = gk_json_new_object();
    enum gk_status status = !json          ? gk_fail(err, GK_NOMEM, "out of memory")
                            : cli->connect ? list_remote(cli, json, err)
                                           : list_local(cli, json, err);
    if (status == GK_OK && cli->json) {
        status = gk_print_json(cli, json, err);
    } else if (status == GK_OK) {
        print_table(cli, json);
    }
    gk_json_free(json);
    return status;
}

enum gk_status gk_cmd_keys(struct gk_cli *cli, struct gk_err *err)
{
    static const struct {
        const char *name;
        enum gk_status (*run)(struct gk_cli *cli, struct gk_err *err);
    } verbs[] = {
        {"new", keys_new}, {"add", keys_add}, {"list", keys_list}, {"revoke", keys_revoke}};
    const char *verb = cli->options.operands[0];
    (void)umask(077); /* what is written here is its owner's alone */
    for (size_t i = 0; i < GK_ARRAY_COUNT(verbs); i++) {
        if (strcmp(verb, verbs[i].name) == 0) {
            return verbs[i].run(cli, err);
        }
    }
    return gk_fail(err, GK_USAGE, "keys: '%s'; there are new, add, list and revoke", verb);
}
