/*
 * gktune-worker: options in, a worker out. The same program is its own compile processes and
 * executors.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/notify.h"
#include "worker/children.h"
#include "worker/cuda/device_cuda.h"
#include "worker/emu_report.h"
#include "worker/gpu_list.h"
#include "worker/list_devices.h"
#include "worker/seats.h"
#include "worker/supervisor.h"

#define BUILD           "gktune-worker " GKTUNE_VERSION
#define EXIT_AGAIN      75 /* as EX_TEMPFAIL: whoever started it may do so again */
#define DRAIN_BEFORE_MS 120000
#define TIME_S_MAX      (30L * 86400)

static const char help[] =
    "gktune-worker: compiles, verifies and times kernels for a gktune daemon\n"
    "\n"
    "usage: gktune-worker --connect ENDPOINT [options]\n"
    "\n"
    "  --connect ENDPOINT        of the daemon: ipc:///path, or tcp://host:port with a key\n"
    "  --device DEVICE           cuda:0, cuda:GPU-UUID, emu, emu:sm_80, mock ...; may be given\n"
    "                            more than once. Default, and what all means: every CUDA device\n"
    "  --spool DIR               results, bundles, compiled code\n"
    "                            (default: $XDG_STATE_HOME/gktune/worker)\n"
    "  --compile-processes N     1 to 256 (default: the cores that it may use, less one a device;\n"
    "                            workers of one host share them)\n"
    "  --time-limit TIME         90m, 4h: what the scheduler gives; it drains in time and exits "
    "75\n"
    "  --drain-before TIME       how long before that (default 120s)\n"
    "  --drain-limit TIME        draining takes no longer (default: what a trial may take)\n"
    "  --log-level LEVEL         error, warn, info (default), debug\n"
    "  --log-format FORMAT       logfmt (default) or json\n"
    "  --private                 standard input is a pipe: end when it closes\n"
    "  --key FILE                for tcp: of gktune keys new --roles work\n"
    "  --server-key FILE         the daemon's public key, where FILE of --key does not say it\n"
    "  --check                   finalists of a GPU run on the emulated device too, on a small\n"
    "                            problem: it sees races that come out right (seconds each)\n"
    "  --allow-unsandboxed       over tcp: compile although there is no sandbox that works\n"
    "  --list-devices            print the CUDA devices as JSON, and end\n"
    "  --emu-report REQUEST      run one config on the emulated device, print what it did as\n"
    "                            JSON, and end: what gktune emu asks for (worker/emu_report.h)\n"
    "  --help\n"
    "\n"
    "environment: GKTUNE_NVRTC (the library, or a folder that holds it: of a toolkit or of a\n"
    "Python package), CUDA_HOME, VIRTUAL_ENV; GKTUNE_CUDA, GKTUNE_NVML (the driver's libraries,\n"
    "where they are not the system's), GKTUNE_CUBLASLT (the vendor's library or its folder);\n"
    "GKTUNE_BWRAP (bubblewrap's path, empty: no sandbox); GKTUNE_JOB, else SLURM_JOB_ID and its\n"
    "like: what the daemon shows as the worker's job; CUDA_VISIBLE_DEVICES holds, as for any "
    "program\n"
    "\n"
    "signals: SIGTERM drains: no more leases, those that wait go back, what runs ends within its\n"
    "deadline; a second one, and SIGINT, end at once. SIGUSR1 drains and asks to be started "
    "again.\n"
    "\n"
    "exit status: 0 told to end, or drained; 75 drained for a time limit or SIGUSR1: start it "
    "again;\n"
    "2 bad usage or refused; 3 no daemon; 4 internal\n";

struct arguments {
    struct gk_worker_options options;
    const char *child, *nvrtc;
    enum gk_log_level log_level;
    enum gk_log_format log_format;
    bool told;                    /* why it ends stands in the log */
    const char *emu_report;       /* JSON */
    const char *key, *server_key; /* files */
    uint64_t time_limit_ms, drain_before_ms;
    bool help, list_devices;
};

enum option_code {
    OPTION_CONNECT = 256,
    OPTION_DEVICE,
    OPTION_SPOOL,
    OPTION_PROCESSES,
    OPTION_TIME_LIMIT,
    OPTION_DRAIN_BEFORE,
    OPTION_DRAIN_LIMIT,
    OPTION_PRIVATE,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT,
    OPTION_KEY,
    OPTION_SERVER_KEY,
    OPTION_UNSANDBOXED,
    OPTION_CHECK,
    OPTION_CHILD,
    OPTION_NVRTC,
    OPTION_LIST,
    OPTION_EMU_REPORT,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"connect", required_argument, NULL, OPTION_CONNECT},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"spool", required_argument, NULL, OPTION_SPOOL},
    {"compile-processes", required_argument, NULL, OPTION_PROCESSES},
    {"time-limit", required_argument, NULL, OPTION_TIME_LIMIT},
    {"drain-before", required_argument, NULL, OPTION_DRAIN_BEFORE},
    {"drain-limit", required_argument, NULL, OPTION_DRAIN_LIMIT},
    {"private", no_argument, NULL, OPTION_PRIVATE},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"log-format", required_argument, NULL, OPTION_LOG_FORMAT},
    {"key", required_argument, NULL, OPTION_KEY},
    {"server-key", required_argument, NULL, OPTION_SERVER_KEY},
    {"allow-unsandboxed", no_argument, NULL, OPTION_UNSANDBOXED},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"child", required_argument, NULL, OPTION_CHILD},
    {"nvrtc", required_argument, NULL, OPTION_NVRTC},
    {"list-devices", no_argument, NULL, OPTION_LIST},
    {"emu-report", required_argument, NULL, OPTION_EMU_REPORT},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static enum gk_status add_device(struct gk_worker_options *options, const char *name,
                                 struct gk_err *err)
{
    if (strcmp(name, "all") == 0) {
        return GK_OK; /* what none says, for a service unit that has to say something */
    }
    if (options->device_count == GK_WORKER_DEVICES_MAX) {
        return gk_fail(err, GK_USAGE, "more than %d devices", GK_WORKER_DEVICES_MAX);
    }
    options->devices[options->device_count++] = name;
    return GK_OK;
}

static enum gk_status read_processes(const char *text, uint32_t *count_out, struct gk_err *err)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 1 || value > 256) {
        return gk_fail(err, GK_USAGE, "--compile-processes %s: 1 to 256 is allowed", text);
    }
    *count_out = (uint32_t)value;
    return GK_OK;
}

/* "90s", "45m", "4h" */
static enum gk_status read_time(const char *option, const char *text, uint64_t *ms_out,
                                struct gk_err *err)
{
    char *end = NULL;
    errno = 0;
    long value = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : 0;
    long unit = 0;
    if (end && end[0] != '\0' && end[1] == '\0') {
        unit = end[0] == 's' ? 1 : end[0] == 'm' ? 60 : end[0] == 'h' ? 3600 : 0;
    }
    if (errno != 0 || unit == 0 || value < 1 || value > TIME_S_MAX / unit) {
        return gk_fail(err, GK_USAGE, "%s '%.40s': allowed are 90s, 45m, 4h, at most 30 days",
                       option, text);
    }
    *ms_out = (uint64_t)(value * unit) * 1000;
    return GK_OK;
}

static enum gk_status read_limit(int code, const char *text, struct arguments *arguments,
                                 struct gk_err *err)
{
    switch (code) {
    case OPTION_TIME_LIMIT:
        return read_time("--time-limit", text, &arguments->time_limit_ms, err);
    case OPTION_DRAIN_BEFORE:
        return read_time("--drain-before", text, &arguments->drain_before_ms, err);
    default:
        return read_time("--drain-limit", text, &arguments->options.drain_limit_ms, err);
    }
}

static enum gk_status read_log(int code, const char *text, struct arguments *arguments,
                               struct gk_err *err)
{
    if (code == OPTION_LOG_LEVEL) {
        return gk_log_level_from(text, &arguments->log_level)
                   ? GK_OK
                   : gk_fail(err, GK_USAGE, "--log-level '%s': allowed are " GK_LOG_LEVELS, text);
    }
    return gk_log_format_from(text, &arguments->log_format)
               ? GK_OK
               : gk_fail(err, GK_USAGE, "--log-format '%s': logfmt or json is needed", text);
}

static enum gk_status read_arguments(int argc, char **argv, struct arguments *arguments,
                                     struct gk_err *err)
{
    enum gk_status status = GK_OK;
    int code;
    opterr = 0;
    while (status == GK_OK && (code = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        switch (code) {
        case OPTION_CONNECT:
            arguments->options.endpoint = optarg;
            break;
        case OPTION_DEVICE:
            status = add_device(&arguments->options, optarg, err);
            break;
        case OPTION_SPOOL:
            arguments->options.spool = optarg;
            break;
        case OPTION_PROCESSES:
            status = read_processes(optarg, &arguments->options.compile_processes, err);
            break;
        case OPTION_TIME_LIMIT:
        case OPTION_DRAIN_BEFORE:
        case OPTION_DRAIN_LIMIT:
            status = read_limit(code, optarg, arguments, err);
            break;
        case OPTION_LOG_LEVEL:
        case OPTION_LOG_FORMAT:
            status = read_log(code, optarg, arguments, err);
            break;
        case OPTION_PRIVATE:
            arguments->options.is_private = true;
            break;
        case OPTION_KEY:
            arguments->key = optarg;
            break;
        case OPTION_SERVER_KEY:
            arguments->server_key = optarg;
            break;
        case OPTION_UNSANDBOXED:
            arguments->options.allow_unsandboxed = true;
            break;
        case OPTION_CHECK:
            arguments->options.checks = true;
            break;
        case OPTION_CHILD:
            arguments->child = optarg;
            break;
        case OPTION_NVRTC:
            arguments->nvrtc = optarg;
            break;
        case OPTION_EMU_REPORT:
            arguments->emu_report = optarg;
            break;
        case OPTION_LIST:
            arguments->list_devices = true;
            break;
        case OPTION_HELP:
            arguments->help = true;
            break;
        case ':':
            status = gk_fail(err, GK_USAGE, "%s needs a value", argv[optind - 1]);
            break;
        default:
            status = gk_fail(err, GK_USAGE, "unknown option %s; see --help", argv[optind - 1]);
            break;
        }
    }
    if (status == GK_OK && optind < argc) {
        status = gk_fail(err, GK_USAGE, "unexpected argument %s; see --help", argv[optind]);
    }
    return status;
}

/* The key for a tcp endpoint; *key stays as it is where none is needed. */
static enum gk_status find_key(const struct arguments *arguments, struct gk_key *key,
                               struct gk_err *err)
{
    struct gk_key server = {0};
    if (!arguments->options.endpoint) {
        return gk_fail(err, GK_USAGE, "--connect ENDPOINT is needed; see --help");
    }
    if (strncmp(arguments->options.endpoint, "tcp://", 6) != 0) {
        return GK_OK;
    }
    if (!arguments->key) {
        return gk_fail(err, GK_USAGE,
                       "%s: tcp needs --key FILE: gktune keys new NAME --roles work, on the "
                       "daemon's host, makes one",
                       arguments->options.endpoint);
    }
    enum gk_status status = gk_key_load(arguments->key, key, err);
    if (status == GK_OK && arguments->server_key) {
        status = gk_key_load(arguments->server_key, &server, err);
        const char *text = server.server_key[0] ? server.server_key : server.public_key;
        if (status == GK_OK) {
            memcpy(key->server_key, text, sizeof key->server_key);
        }
        gk_key_wipe(&server);
    }
    if (status == GK_OK && !key->secret_key[0]) {
        status = gk_fail(err, GK_INPUT, "%s: lacks the line 'secret'", arguments->key);
    }
    if (status == GK_OK && !key->server_key[0]) {
        status = gk_fail(err, GK_INPUT,
                         "%s: lacks the line 'server', the daemon's public key: give --server-key "
                         "FILE with it",
                         arguments->key);
    }
    return status;
}

/* Without --device: every CUDA device there is. *all_out holds their names; the caller frees it. */
static enum gk_status default_devices(struct gk_worker_options *options,
                                      struct gk_device_props **all_out, struct gk_err *err)
{
    uint32_t count = 0;
    struct gk_device_props *all = calloc(GK_CUDA_GPUS_MAX, sizeof *all);
    if (!all) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_gpu_list(all, GK_CUDA_GPUS_MAX, &count, err);
    if (status != GK_OK) {
        free(all);
        return gk_fail_in(err, status, "no CUDA device; --device emu:sm_80 gives an emulated one");
    }
    for (uint32_t i = 0; i < count; i++) {
        options->devices[options->device_count++] = all[i].device;
    }
    *all_out = all;
    return GK_OK;
}

static char *default_spool(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state) {
        return gk_asprintf("%s/gktune/worker", state);
    }
    return home && *home ? gk_asprintf("%s/.local/state/gktune/worker", home) : NULL;
}

/* What the supervisor's callbacks write to. A private worker speaks to the command that started it:
 * plain lines, and no service manager. */
struct voice {
    struct gk_log *log; /* NULL: plain lines */
    struct gk_notify notify;
    struct gk_clock clock;
    uint64_t fed_ns; /* the watchdog */
    bool said, was_connected;
};

static const struct gk_log_event events[] = {
#define EVENT_ROW(name, text, level) {#text, GK_LOG_##level},
    GK_WORKER_EVENT_MAP(EVENT_ROW)
#undef EVENT_ROW
};

static void write_log(void *context, enum gk_worker_event event, const char *text)
{
    struct voice *voice = context;
    if (!voice->log) {
        (void)fprintf(stderr, "gktune-worker: %s\n", text);
    } else if (gk_log_begin(voice->log, event)) {
        gk_log_text(voice->log, "text", text);
        gk_log_end(voice->log);
    }
}

static void write_ready(void *context)
{
    struct voice *voice = context;
    if (voice->log) {
        write_log(context, GK_WORKER_READY, "the daemon has let this worker in");
    }
    (void)printf("ready\n");
    (void)fflush(stdout);
}

/* READY once the loop runs: a daemon that is away for a while is no failure of the worker. */
static void write_beat(void *context, bool connected)
{
    struct voice *voice = context;
    uint64_t every = voice->notify.watchdog_us * 1000 / 3;
    uint64_t now = voice->clock.monotonic_ns(voice->clock.context);
    if (!voice->said || voice->was_connected != connected) {
        (void)gk_notify_send(&voice->notify, "%sSTATUS=%s", voice->said ? "" : "READY=1\n",
                             connected ? "connected" : "no connection to the daemon yet");
        voice->said = true;
        voice->was_connected = connected;
    }
    if (every > 0 && now - voice->fed_ns >= every) {
        voice->fed_ns = now;
        (void)gk_notify_send(&voice->notify, "WATCHDOG=1"); /* missing ones end us: right */
    }
    gk_log_beat(voice->log);
}

/* The service manager's variables are for this process: no child may speak for it. */
static enum gk_status voice_init(struct voice *voice, const struct arguments *arguments,
                                 struct gk_err *err)
{
    *voice = (struct voice){.notify = {.fd = -1}, .clock = gk_clock_real()};
    struct gk_log_setup setup = {.fd = STDERR_FILENO,
                                 .program = "gktune-worker",
                                 .format = arguments->log_format,
                                 .level = arguments->log_level,
                                 .events = events,
                                 .event_count = GK_WORKER_EVENT_COUNT,
                                 .clock = voice->clock};
    enum gk_status status = GK_OK;
    if (!arguments->options.is_private) {
        status = gk_notify_init(&voice->notify, getenv("NOTIFY_SOCKET"), getenv("WATCHDOG_USEC"),
                                getenv("WATCHDOG_PID"), getpid(), err);
        status = status == GK_OK ? gk_log_create(&setup, &voice->log, err) : status;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
    return status;
}

static void voice_fini(struct voice *voice)
{
    (void)gk_notify_send(&voice->notify, "STOPPING=1"); /* nobody may listen */
    gk_notify_fini(&voice->notify);
    gk_log_destroy(voice->log);
}

/* Where bubblewrap is; NULL when it is not wanted or not there. */
static const char *find_bwrap(void)
{
    static const char *const places[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
    const char *given = getenv("GKTUNE_BWRAP");
    if (given) {
        return *given ? given : NULL;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(places); i++) {
        if (access(places[i], X_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

/* A variable that is set to nothing names no file: the loader would take that for this program. */
static const char *place(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

static struct gk_compiler_places compiler_places(void)
{
    return (struct gk_compiler_places){place("GKTUNE_NVRTC"), place("CUDA_HOME"),
                                       place("VIRTUAL_ENV"), place("HOME")};
}

/* The scheduler's job that this process is part of, for `gktune workers`. */
static char *find_job(void)
{
    static const struct {
        const char *name, *variable;
    } others[] = {{"pbs", "PBS_JOBID"}, {"lsf", "LSB_JOBID"}};
    const char *given = getenv("GKTUNE_JOB"), *job = getenv("SLURM_JOB_ID"),
               *array = getenv("SLURM_ARRAY_JOB_ID"), *task = getenv("SLURM_ARRAY_TASK_ID"),
               *restart = getenv("SLURM_RESTART_COUNT");
    if (given && *given) {
        return gk_asprintf("%.120s", given);
    }
    if (job && *job) {
        bool in_array = array && *array && task && *task;
        return gk_asprintf("slurm:%.40s%s%.20s%s%.10s", in_array ? array : job, in_array ? "_" : "",
                           in_array ? task : "", restart && *restart ? " restart " : "",
                           restart ? restart : "");
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(others); i++) {
        const char *value = getenv(others[i].variable);
        if (value && *value) {
            return gk_asprintf("%s:%.100s", others[i].name, value);
        }
    }
    return NULL;
}

/* It drains early enough, but not before it has begun: of a limit that is shorter than that, the
 * second half is for draining. */
static void set_limit(struct arguments *arguments)
{
    uint64_t limit_ms = arguments->time_limit_ms,
             before_ms = arguments->drain_before_ms ? arguments->drain_before_ms : DRAIN_BEFORE_MS;
    if (limit_ms == 0) {
        return;
    }
    before_ms = before_ms < limit_ms / 2 ? before_ms : limit_ms / 2;
    arguments->options.drain_at_ms = limit_ms - before_ms;
    if (arguments->options.drain_limit_ms == 0) {
        arguments->options.drain_limit_ms = before_ms - before_ms / 10; /* time to give back */
    }
}

static enum gk_status run(struct arguments *arguments, struct gk_err *err)
{
    char *job = find_job();
    struct gk_worker_options *options = &arguments->options;
    struct voice voice;
    char program[PATH_MAX] = "";
    char *spool = options->spool ? gk_strdup(options->spool) : default_spool();
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    uint32_t cores = gk_cores_allowed();
    struct gk_device_props *devices = NULL;
    struct gk_key key = {0};
    const struct rlimit no_dumps = {0, 0};   /* a key in memory must not become a file */
    (void)setrlimit(RLIMIT_CORE, &no_dumps); /* lowering is always allowed */
    enum gk_status status = voice_init(&voice, arguments, err);
    if (status == GK_OK) {
        status = find_key(arguments, &key, err);
    }
    if (status == GK_OK && options->device_count == 0) {
        status = default_devices(options, &devices, err);
    }
    if (status == GK_OK && !spool) {
        status = gk_fail(err, GK_USAGE, "--spool DIR is needed where HOME is not set");
    }
    if (status == GK_OK && size <= 0) {
        status = gk_fail(err, GK_INTERNAL, "/proc/self/exe: %s", strerror(errno));
    }
    if (status == GK_OK) {
        options->spool = spool;
        options->program = program;
        options->key = key.secret_key[0] ? &key : NULL;
        options->bwrap = find_bwrap();
        options->build = BUILD;
        options->job = job;
        set_limit(arguments);
        options->places = compiler_places();
        options->log = write_log;
        options->ready = write_ready;
        options->beat = write_beat;
        options->context = &voice;
        if (options->compile_processes == 0) {
            options->compile_processes = cores > 256 ? 256 : cores;
            options->shares_cores = true;
        }
        gk_log_say(voice.log, GK_WORKER_START, "%s, daemon at %s, spool %s", BUILD,
                   options->endpoint, spool);
        status = gk_worker_run(options, err);
        gk_log_say(voice.log, status == GK_OK ? GK_WORKER_ENDED : GK_WORKER_FAILED, "%s",
                   status == GK_OK ? "in order" : err->text);
        arguments->told = voice.log != NULL;
    }
    gk_key_wipe(&key);
    voice_fini(&voice);
    free(devices);
    free(spool);
    free(job);
    return status;
}

/* What was named stands alone: another library than the one that was asked for would be timed. NULL
 * when out of memory: then the usual places are tried. */
static char *vendor_places(void)
{
    const char *given = place("GKTUNE_CUBLASLT"), *toolkit = place("CUDA_HOME");
    const char *python = place("VIRTUAL_ENV"), *home = place("HOME");
    return given ? gk_strdup(given)
                 : gk_asprintf(":%s:%s:%s%s", toolkit ? toolkit : "", python ? python : "",
                               home ? home : "", home ? "/.local" : "");
}

static int run_child(const struct arguments *arguments)
{
    const char *device = arguments->options.device_count ? arguments->options.devices[0] : "";
    const char *nvrtc = arguments->nvrtc ? arguments->nvrtc : "";
    if (strcmp(arguments->child, "compile") == 0) {
        return gk_child_compile(nvrtc);
    }
    /* Bound to it before the driver starts: it shows this process nothing else, and of MIG
     * instances only what is asked for so. */
    if (gk_gpu_uuid(device) && setenv("CUDA_VISIBLE_DEVICES", gk_gpu_uuid(device), 1) != 0) {
        return 4;
    }
    if (strcmp(arguments->child, "describe") == 0) {
        return gk_child_describe(device);
    }
    if (strcmp(arguments->child, "probe") == 0) {
        return gk_child_probe(nvrtc);
    }
    char *vendor = vendor_places();
    const struct gk_executor_options executor = {
        device, nvrtc, arguments->options.spool ? arguments->options.spool : "", vendor,
        arguments->options.checks};
    int status = strcmp(arguments->child, "executor") == 0 ? gk_child_executor(&executor) : 2;
    free(vendor);
    return status;
}

static int list_devices(void)
{
    const struct gk_compiler_places places = compiler_places();
    struct gk_json *json = gk_list_devices(&places);
    char *text = json ? gk_json_text(json) : NULL;
    bool good = text && printf("%s\n", text) > 0 && fflush(stdout) == 0;
    free(text);
    gk_json_free(json);
    return good ? 0 : 4;
}

/* A launch may take minutes, and whoever asked may be gone, also by kill -9: then the pipe on
 * standard input closes. */
static void *watch_input(void *unused)
{
    char byte;
    (void)unused;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            _exit(4);
        }
    }
    return NULL;
}

/* What it prints is JSON in any case: the report, or {error, status}. */
static int emu_report(const char *text, bool is_private)
{
    pthread_t watcher;
    const struct gk_compiler_places places = compiler_places();
    struct gk_json *request = NULL, *report = NULL;
    struct gk_compiler *compiler = NULL;
    struct gk_err err = {0};
    gk_child_limits(0, 0);
    enum gk_status status = gk_json_parse(text, strlen(text), "--emu-report", &request, &err);
    if (status == GK_OK && is_private && pthread_create(&watcher, NULL, watch_input, NULL) != 0) {
        status = gk_fail(&err, GK_INTERNAL, "no thread can be started");
    }
    if (status == GK_OK) {
        status = gk_compiler_open(&places, &compiler, &err);
    }
    if (status == GK_OK) {
        status = gk_emu_report(request, compiler, &report, &err);
    }
    if (status != GK_OK) {
        report = gk_json_new_object();
        (void)gk_json_set_string(report, "error", err.text);
        (void)gk_json_set_int(report, "status", status);
    }
    char *line = gk_json_text(report);
    bool said = line && printf("%s\n", line) > 0 && fflush(stdout) == 0;
    free(line);
    gk_compiler_close(compiler);
    gk_json_free(report);
    gk_json_free(request);
    return said ? gk_status_exit(status) : 4;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.log_level = GK_LOG_INFO};
    struct gk_err err = {0};
    enum gk_status status = read_arguments(argc, argv, &arguments, &err);
    if (status == GK_OK && arguments.help) {
        (void)fputs(help, stdout);
        return 0;
    }
    const struct gk_device_places places = {place("GKTUNE_CUDA"), place("GKTUNE_NVML"),
                                            getenv("CUDA_VISIBLE_DEVICES")};
    gk_device_set_places(&places);
    if (status == GK_OK && arguments.list_devices) {
        return list_devices();
    }
    if (status == GK_OK) {
        status = gk_hash_setup(&err);
    }
    if (status == GK_OK && arguments.child) {
        return run_child(&arguments);
    }
    if (status == GK_OK && arguments.emu_report) {
        return emu_report(arguments.emu_report, arguments.options.is_private);
    }
    bool again = false;
    arguments.options.again = &again;
    if (status == GK_OK) {
        status = run(&arguments, &err);
    }
    if (status == GK_OK && again) {
        return EXIT_AGAIN;
    }
    if (status != GK_OK && !arguments.told) {
        (void)fprintf(stderr, "gktune-worker: %s\n", err.text);
    }
    return gk_status_exit(status);
}
