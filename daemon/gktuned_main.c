/*
 * gktuned: options, the state folder, the lock; then the loop of shell.c.
 * Exit status: 0 an orderly end; 2 bad usage, an unusable state folder, or another daemon there; 4
 * the store failed.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/state_dir.h"
#include "daemon/lock.h"
#include "daemon/shell.h"

#define VERSION "0.1.0"

static const char HELP[] =
    "gktuned: the daemon of gktune: queues tuning jobs, leases trials to workers, keeps every "
    "result\n"
    "\n"
    "  gktuned [--state DIR] [--listen ENDPOINT] [--http ADDR:PORT] [--config FILE] "
    "[--check-config]\n"
    "\n"
    "  --state DIR       where the store lives (default $GKTUNE_STATE, $XDG_STATE_HOME/gktune, "
    "~/.local/state/gktune)\n"
    "  --listen ENDPOINT ipc:///path (default: gktuned.sock in the state folder)\n"
    "  --http ADDR:PORT  /healthz /readyz /metrics there (default: off)\n"
    "  --config FILE     JSON object with the members state, listen, http; options given here win\n"
    "  --check-config    read options and config, say what would be used, and end\n"
    "  --private         for the gktune command: serve only its run, end when stdin ends\n"
    "  --no-migrate      refuse a store of an older schema instead of changing it\n"
    "  --version, --help\n"
    "\n"
    "Examples\n"
    "  gktuned                                        # in the default state folder\n"
    "  gktuned --state /srv/gktune --http 127.0.0.1:9090\n";

struct options {
    const char *state, *listen, *http, *config;
    bool check, is_private, no_migrate;
};

static int say(enum gk_status status, const struct gk_err *err)
{
    (void)fprintf(stderr, "gktuned: %s\n", err->text);
    if (status == GK_BUSY || status == GK_VERSION || status == GK_UNSUPPORTED) {
        return 2;
    }
    return gk_status_exit(status);
}

static enum gk_status parse(int argc, char **argv, struct options *options, bool *ends,
                            struct gk_err *err)
{
    static const struct option longs[] = {
        {"state", required_argument, NULL, 's'},  {"listen", required_argument, NULL, 'l'},
        {"http", required_argument, NULL, 'p'},   {"config", required_argument, NULL, 'c'},
        {"check-config", no_argument, NULL, 'k'}, {"private", no_argument, NULL, 'x'},
        {"no-migrate", no_argument, NULL, 'n'},   {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    int c;
    opterr = 0;
    while ((c = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        switch (c) {
        case 's':
            options->state = optarg;
            break;
        case 'l':
            options->listen = optarg;
            break;
        case 'p':
            options->http = optarg;
            break;
        case 'c':
            options->config = optarg;
            break;
        case 'k':
            options->check = true;
            break;
        case 'x':
            options->is_private = true;
            break;
        case 'n':
            options->no_migrate = true;
            break;
        case 'v':
            (void)printf("gktuned %s\n", VERSION);
            *ends = true;
            return GK_OK;
        case 'h':
            (void)fputs(HELP, stdout);
            *ends = true;
            return GK_OK;
        case ':':
            return gk_fail(err, GK_USAGE, "option '%s' needs a value", argv[optind - 1]);
        default:
            return gk_fail(err, GK_USAGE, "unknown option '%s'; see gktuned --help",
                           argv[optind - 1]);
        }
    }
    if (optind < argc) {
        return gk_fail(err, GK_USAGE, "unexpected argument '%s'; see gktuned --help", argv[optind]);
    }
    return GK_OK;
}

/* Members of the file stand for options that were not given. Strings are lent by *json_out. */
static enum gk_status read_config(struct options *options, struct gk_json **json_out,
                                  struct gk_err *err)
{
    if (!options->config) {
        return GK_OK;
    }
    struct gk_json *json = NULL;
    enum gk_status status = gk_json_load(options->config, 64 << 10, &json, err);
    if (status != GK_OK) {
        return status;
    }
    *json_out = json;
    void *cursor = NULL;
    const char *key;
    const struct gk_json *value;
    if (!gk_json_is(json, GK_JSON_OBJECT)) {
        return gk_fail(err, GK_INPUT, "%s: an object is needed", options->config);
    }
    while ((value = gk_json_next(json, &cursor, &key))) {
        const char **slot = strcmp(key, "state") == 0    ? &options->state
                            : strcmp(key, "listen") == 0 ? &options->listen
                            : strcmp(key, "http") == 0   ? &options->http
                                                         : NULL;
        if (!slot || !gk_json_is(value, GK_JSON_STRING)) {
            return gk_fail(err, GK_INPUT,
                           "%s: member '%s': allowed are state, listen and http, each a text",
                           options->config, key);
        }
        *slot = *slot ? *slot : gk_json_string(value, NULL);
    }
    return GK_OK;
}

/* The socket's path must not hang on the folder that we were started in. */
static enum gk_status make_absolute(struct gk_buf *state, struct gk_err *err)
{
    if (gk_buf_text(state)[0] == '/') {
        return GK_OK;
    }
    char *cwd = getcwd(NULL, 0),
         *whole = cwd ? gk_asprintf("%s/%s", cwd, gk_buf_text(state)) : NULL;
    free(cwd);
    if (!whole) {
        return gk_fail(err, GK_USAGE,
                       "state folder %s: the current folder cannot be found; give an absolute path",
                       gk_buf_text(state));
    }
    gk_buf_reset(state);
    gk_buf_puts(state, whole);
    free(whole);
    return gk_buf_status(state, err);
}

static enum gk_status check_listen(const char *endpoint, struct gk_err *err)
{
    if (strncmp(endpoint, "tcp://", 6) == 0) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "--listen %s: tcp needs keys (CURVE), which this version does not have yet; "
                       "without them anybody could send kernels. Use ipc:///path",
                       endpoint);
    }
    if (strncmp(endpoint, "ipc:///", 7) != 0) {
        return gk_fail(err, GK_USAGE, "--listen '%s': ipc:///absolute/path is needed", endpoint);
    }
    return GK_OK;
}

static enum gk_status serve(const struct options *options, const char *state, const char *endpoint,
                            struct gk_err *err)
{
    int fd = -1;
    enum gk_status status = gk_state_dir_make(state, err);
    if (status == GK_OK) {
        status = gk_lock_take(state, &fd, err);
    }
    if (status == GK_OK) {
        struct gk_shell_options shell = {.state_dir = state,
                                         .endpoint = endpoint,
                                         .http = options->http,
                                         .version = VERSION,
                                         .is_private = options->is_private,
                                         .may_migrate = !options->no_migrate,
                                         .lock_fd = fd};
        status = gk_shell_run(&shell, err);
    }
    gk_lock_release(fd);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct gk_err err = {0};
    struct gk_json *config = NULL;
    struct gk_buf state = {0}, endpoint = {0};
    bool ends = false;
    (void)signal(SIGPIPE, SIG_IGN); /* a known signal */
    (void)umask(077);               /* store, blobs and socket are the owner's alone */
    enum gk_status status = gk_hash_setup(&err);
    if (status == GK_OK) {
        status = parse(argc, argv, &options, &ends, &err);
    }
    if (status == GK_OK && !ends) {
        status = read_config(&options, &config, &err);
    }
    if (status == GK_OK && !ends) {
        status = gk_state_dir(options.state, getenv("GKTUNE_STATE"), getenv("XDG_STATE_HOME"),
                              getenv("HOME"), &state, &err);
    }
    if (status == GK_OK && !ends) {
        status = make_absolute(&state, &err);
    }
    if (status == GK_OK && !ends) {
        if (options.listen) {
            gk_buf_puts(&endpoint, options.listen);
        } else {
            gk_buf_printf(&endpoint, "ipc://%s/%s", gk_buf_text(&state), GK_STATE_SOCKET);
        }
        status = gk_buf_status(&endpoint, &err);
    }
    if (status == GK_OK && !ends) {
        status = check_listen(gk_buf_text(&endpoint), &err);
    }
    if (status == GK_OK && !ends && options.check) {
        (void)printf("state   %s\nlisten  %s\nhttp    %s\n", gk_buf_text(&state),
                     gk_buf_text(&endpoint), options.http ? options.http : "off");
    } else if (status == GK_OK && !ends) {
        status = serve(&options, gk_buf_text(&state), gk_buf_text(&endpoint), &err);
    }
    int code = status == GK_OK ? 0 : say(status, &err);
    gk_json_free(config);
    gk_buf_fini(&state);
    gk_buf_fini(&endpoint);
    return code;
}
