/*
 * gktuned: options, the config file, the state folder, the lock; then the loop of shell.c.
 * Exit status: 0 an orderly end; 2 bad usage, a bad config, an unusable state folder, or another
 * daemon there; 4 the store failed.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/link.h"
#include "core/state_dir.h"
#include "daemon/lock.h"
#include "daemon/notice.h"
#include "daemon/shell.h"

static const char HELP[] =
    "gktuned: the daemon of gktune: queues tuning jobs, leases trials to workers, keeps every "
    "result\n"
    "\n"
    "  gktuned [options]\n"
    "\n";

static const char HELP_MORE[] =
    "  --config FILE        JSON object with the members above, - as _ (docs/operating.md); "
    "options "
    "given here win\n"
    "  --check-config       read options and config, say what would be used, and end\n"
    "  --private            for the gktune command: serve only its run, end when stdin ends\n"
    "  --version, --help\n"
    "\n"
    "Signals: TERM and INT end in order, HUP reads the config again (log_level, disk_low, "
    "disk_resume),\n"
    "USR1 switches between debug and the config's log level.\n"
    "\n"
    "Examples\n"
    "  gktuned                                        # in the default state folder\n"
    "  gktuned --state /srv/gktune --http 127.0.0.1:9090\n"
    "  gktuned --config /etc/gktune/gktuned.json --check-config\n";

static const struct gk_log_event events[] = {
#define EVENT_ROW_OF(name, text, level) {#text, GK_LOG_##level},
    GK_EVENT_MAP(EVENT_ROW_OF)
#undef EVENT_ROW_OF
};

/* What the command line says beside the settings. */
struct arguments {
    const char *config;
    bool check, is_private, ends;
};

enum option_code {
    OPTION_SETTING = 256,
    OPTION_CONFIG = 512,
    OPTION_CHECK,
    OPTION_PRIVATE,
    OPTION_VERSION,
    OPTION_HELP
};

static void say(const struct gk_err *err)
{
    (void)fprintf(stderr, "gktuned: %s\n", err->text);
}

/* served: the store was ours. What fails then is not how we were called: whoever started us may
 * start us again. */
static int exit_code(enum gk_status status, bool served)
{
    bool usage = status == GK_BUSY || status == GK_VERSION || status == GK_UNSUPPORTED;
    bool store = status == GK_IO || status == GK_FULL || status == GK_CORRUPT;
    return served && store ? 4 : usage ? 2 : gk_status_exit(status);
}

/* "log_level" is --log-level; "migrate", which is on by itself, is --no-migrate. */
static void option_name(const char *member, bool takes_value, char name_out[40])
{
    (void)snprintf(name_out, 40, "%s%s", takes_value ? "" : "no-", member);
    for (char *at = name_out; *at; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

static void print_help(void)
{
    const char *name, *value, *help;
    (void)fputs(HELP, stdout);
    for (uint32_t i = 0; gk_settings_row(i, &name, &value, &help); i++) {
        char option[40], left[80];
        option_name(name, *value != '\0', option);
        (void)snprintf(left, sizeof left, "--%s %s", option, value);
        (void)printf("  %-20s %s\n", left, help);
    }
    (void)fputs(HELP_MORE, stdout);
}

static enum gk_status take_setting(struct gk_settings *settings, uint32_t index, const char *option,
                                   const char *text, struct gk_err *err)
{
    char where[48];
    (void)snprintf(where, sizeof where, "--%s", option);
    return gk_settings_set(settings, (enum gk_setting)index, text ? text : "false",
                           GK_SETTING_OPTION, where, err);
}

static enum gk_status take_option(int code, const char *value, struct option *longs,
                                  struct gk_settings *settings, struct arguments *arguments,
                                  char **argv, struct gk_err *err)
{
    switch (code) {
    case OPTION_CONFIG:
        arguments->config = value;
        return GK_OK;
    case OPTION_CHECK:
        arguments->check = true;
        return GK_OK;
    case OPTION_PRIVATE:
        arguments->is_private = true;
        return GK_OK;
    case OPTION_VERSION:
        (void)printf("gktuned %s\n", GKTUNE_VERSION);
        arguments->ends = true;
        return GK_OK;
    case 'h':
    case OPTION_HELP:
        print_help();
        arguments->ends = true;
        return GK_OK;
    case ':':
        return gk_fail(err, GK_USAGE, "option '%s' needs a value", argv[optind - 1]);
    case '?':
        return gk_fail(err, GK_USAGE, "unknown option '%s'; see gktuned --help", argv[optind - 1]);
    default:
        return take_setting(settings, (uint32_t)(code - OPTION_SETTING),
                            longs[code - OPTION_SETTING].name, value, err);
    }
}

static enum gk_status parse(int argc, char **argv, struct gk_settings *settings,
                            struct arguments *arguments, struct gk_err *err)
{
    static char names[GK_SETTING_COUNT][40];
    struct option longs[GK_SETTING_COUNT + 6] = {0};
    const char *name, *value, *help;
    uint32_t count = 0;
    for (; gk_settings_row(count, &name, &value, &help); count++) {
        option_name(name, *value != '\0', names[count]);
        longs[count] = (struct option){names[count], *value ? required_argument : no_argument, NULL,
                                       OPTION_SETTING + (int)count};
    }
    longs[count++] = (struct option){"config", required_argument, NULL, OPTION_CONFIG};
    longs[count++] = (struct option){"check-config", no_argument, NULL, OPTION_CHECK};
    longs[count++] = (struct option){"private", no_argument, NULL, OPTION_PRIVATE};
    longs[count++] = (struct option){"version", no_argument, NULL, OPTION_VERSION};
    longs[count++] = (struct option){"help", no_argument, NULL, OPTION_HELP};
    enum gk_status status = GK_OK;
    int code;
    opterr = 0;
    while (status == GK_OK && !arguments->ends &&
           (code = getopt_long(argc, argv, ":h", longs, NULL)) != -1) {
        status = take_option(code, optarg, longs, settings, arguments, argv, err);
    }
    if (status == GK_OK && !arguments->ends && optind < argc) {
        return gk_fail(err, GK_USAGE, "unexpected argument '%s'; see gktuned --help", argv[optind]);
    }
    return status;
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

/* Where to listen. Commands on this host find the daemon by a local socket, so there is always one,
 * and it comes first. */
struct endpoints {
    char *own; /* in the state folder; NULL where the settings name a local one */
    const char *all[GK_LISTEN_MAX + 1];
    uint32_t count;
};
_Static_assert(GK_LISTEN_MAX + 1 <= GK_LINK_ENDPOINTS_MAX, "all that may be named can be bound");

static enum gk_status gather(const struct gk_settings *settings, const char *state,
                             struct endpoints *endpoints, struct gk_err *err)
{
    uint32_t local = 0;
    while (local < settings->listen_count && strncmp(settings->listen[local], "ipc:", 4) != 0) {
        local++;
    }
    if (local == settings->listen_count) {
        endpoints->own = gk_asprintf("ipc://%s/%s", state, GK_STATE_SOCKET);
        if (!endpoints->own) {
            return gk_fail(err, GK_NOMEM, "out of memory for the endpoint");
        }
        endpoints->all[endpoints->count++] = endpoints->own;
    } else {
        endpoints->all[endpoints->count++] = settings->listen[local];
    }
    for (uint32_t i = 0; i < settings->listen_count; i++) {
        if (i != local) {
            endpoints->all[endpoints->count++] = settings->listen[i];
        }
    }
    return GK_OK;
}

static int print_config(const struct gk_settings *settings, const char *state,
                        const struct endpoints *endpoints)
{
    struct gk_buf text = {0}, all = {0};
    for (uint32_t i = 0; i < endpoints->count; i++) {
        gk_buf_printf(&all, "%s%s", i ? " " : "", endpoints->all[i]);
    }
    gk_settings_print(settings, state, gk_buf_text(&all), &text);
    bool good = gk_buf_status(&text, NULL) == GK_OK && fputs(gk_buf_text(&text), stdout) >= 0 &&
                fflush(stdout) == 0;
    gk_buf_fini(&text);
    gk_buf_fini(&all);
    return good ? 0 : 4;
}

/* The service manager's variables are for us alone. */
static enum gk_status notify_init(struct gk_notify *notify, bool is_private, struct gk_err *err)
{
    *notify = (struct gk_notify){.fd = -1};
    enum gk_status status =
        is_private ? GK_OK
                   : gk_notify_init(notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                                    getenv("WATCHDOG_PID"), getpid(), err);
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
    return status;
}

/* systemd says in JOURNAL_STREAM which device and inode its journal has; if that is our stderr, the
 * journal takes a line's level from "<N>" before it. */
static bool is_journal(const char *stream)
{
    struct stat info;
    char ours[64];
    if (!stream || fstat(STDERR_FILENO, &info) != 0) {
        return false;
    }
    (void)snprintf(ours, sizeof ours, "%ju:%ju", (uintmax_t)info.st_dev, (uintmax_t)info.st_ino);
    return strcmp(stream, ours) == 0;
}

static enum gk_status serve(const struct arguments *arguments, struct gk_settings *settings,
                            const char *state, const struct endpoints *endpoints,
                            struct gk_log *log, bool *served_out, struct gk_err *err)
{
    int fd = -1;
    struct gk_notify notify;
    struct gk_shell_options shell = {.state_dir = state,
                                     .listen = endpoints->all,
                                     .listen_count = endpoints->count,
                                     .config = arguments->config,
                                     .settings = settings,
                                     .version = GKTUNE_VERSION,
                                     .is_private = arguments->is_private,
                                     .log = log,
                                     .notify = &notify};
    enum gk_status status = notify_init(&notify, arguments->is_private, err);
    if (status == GK_OK) {
        status = gk_own_limits(&shell.limits, err);
    }
    if (status == GK_OK) {
        status = gk_state_dir_make(state, err);
    }
    if (status == GK_OK) {
        status = gk_lock_take(state, &fd, err);
    }
    if (status == GK_OK) {
        shell.lock_fd = fd;
        *served_out = true;
        status = gk_shell_run(&shell, err);
    }
    gk_lock_release(fd);
    if (status != GK_OK) {
        (void)gk_notify_send(&notify, "STATUS=%.200s", err->text); /* nobody may listen */
    }
    gk_notify_fini(&notify);
    return status;
}

/* A private daemon speaks to the command that started it, which shows what matters itself. */
static enum gk_status make_log(const struct arguments *arguments,
                               const struct gk_settings *settings, struct gk_log **log_out,
                               struct gk_err *err)
{
    bool chosen = settings->from[GK_SETTING_LOG_LEVEL].rank != GK_SETTING_DEFAULT;
    struct gk_log_setup setup = {.fd = STDERR_FILENO,
                                 .program = "gktuned",
                                 .format = settings->log_format,
                                 .level = arguments->is_private && !chosen ? GK_LOG_ERROR
                                                                           : settings->log_level,
                                 .events = events,
                                 .event_count = GK_EVENT_COUNT,
                                 .clock = gk_clock_real(),
                                 .priorities = is_journal(getenv("JOURNAL_STREAM"))};
    return gk_log_create(&setup, log_out, err);
}

/* What to do when it is the store's fault; NULL: the message says it. */
static const char *advice(enum gk_status status)
{
    switch (status) {
    case GK_CORRUPT:
        return "nothing is started over a damaged store: keep a copy of the folder, restore the "
               "last "
               "backup into another one (gktune db restore --state DIR), or rescue rows with "
               "sqlite3 "
               "gktune.db .recover";
    case GK_FULL:
        return "free some space, or gktune doctor --free-ballast; the next start goes on";
    case GK_IO:
        return "look at the kernel's log for the disk; the next start recovers from the "
               "write-ahead "
               "log";
    default:
        return NULL;
    }
}

static int run(const struct arguments *arguments, struct gk_settings *settings, const char *state,
               const struct endpoints *endpoints, struct gk_err *err)
{
    struct gk_log *log = NULL;
    bool served = false;
    enum gk_status status = make_log(arguments, settings, &log, err);
    if (status == GK_OK && gk_log_begin(log, GK_EVENT_START)) {
        gk_log_text(log, "version", GKTUNE_VERSION);
        gk_log_int(log, "pid", getpid());
        gk_log_text(log, "state", state);
        gk_log_text(log, "config", arguments->config);
        gk_log_end(log);
    }
    status =
        status == GK_OK ? serve(arguments, settings, state, endpoints, log, &served, err) : status;
    if (status == GK_OK) {
        gk_log_say(log, GK_EVENT_ENDED, "in order");
    } else if (!arguments->is_private && gk_log_begin(log, GK_EVENT_FAILED)) {
        gk_log_text(log, "code", gk_status_name(status));
        gk_log_text(log, "text", err->text);
        gk_log_int(log, "exit", exit_code(status, served));
        gk_log_text(log, "advice", advice(status));
        gk_log_end(log);
    } else { /* the command that started us shows it to its user */
        say(err);
    }
    gk_log_destroy(log);
    return exit_code(status, served);
}

int main(int argc, char **argv)
{
    struct gk_settings settings;
    struct arguments arguments = {0};
    struct endpoints endpoints = {0};
    struct gk_err err = {0};
    struct gk_buf state = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* a known signal */
    (void)umask(077);               /* store, blobs and socket are the owner's alone */
    gk_settings_init(&settings);
    enum gk_status status = gk_hash_setup(&err);
    if (status == GK_OK) {
        status = parse(argc, argv, &settings, &arguments, &err);
    }
    if (status == GK_OK && !arguments.ends && arguments.config) {
        status = gk_settings_load(&settings, arguments.config, &err);
    }
    if (status == GK_OK && !arguments.ends) {
        status = gk_settings_finish(&settings, &err);
    }
    if (status == GK_OK && !arguments.ends) {
        status = gk_state_dir(settings.state, getenv("GKTUNE_STATE"), getenv("XDG_STATE_HOME"),
                              getenv("HOME"), &state, &err);
    }
    if (status == GK_OK && !arguments.ends) {
        status = make_absolute(&state, &err);
    }
    if (status == GK_OK && !arguments.ends) {
        status = gather(&settings, gk_buf_text(&state), &endpoints, &err);
    }
    int code = 0;
    if (status != GK_OK) {
        say(&err);
        code = exit_code(status, false);
    } else if (!arguments.ends && arguments.check) {
        code = print_config(&settings, gk_buf_text(&state), &endpoints);
    } else if (!arguments.ends) {
        code = run(&arguments, &settings, gk_buf_text(&state), &endpoints, &err);
    }
    free(endpoints.own);
    gk_settings_fini(&settings);
    gk_buf_fini(&state);
    return code;
}
