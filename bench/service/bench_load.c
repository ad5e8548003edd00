/*
 * The daemon under load. bench_load cycles|reconnect|lost|hung|start|idle [options]
 *
 *   cycles      durable cycles a second (store a result, lease the next, reply), beanstalkd beside
 *   reconnect   kill -9 of the daemon under its workers: until all are back; what was lost or run
 * twice lost        a worker goes silent: until the daemon has noticed hung        a trial that
 * never ends: until a real worker has killed it start       time to ready after kill -9 over a
 * store of many trials, page cache warm and cold; memory idle        CPU and memory with workers
 * that have nothing to do
 *
 * --json, --workers N, --seconds S, --held N (leases of a worker at once), --started (STARTED
 * before every RESULT), --problems N, --trials N, --device mock:sm_80|cuda:0, --strategy NAME,
 * --state DIR (kept), --plain (the ipc socket instead of tcp with CURVE), --no-beanstalkd
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/service/load.h"
#include "core/config.h"
#include "core/hash.h"
#include "core/state_dir.h"
#include "core/told.h"
#include "db/db.h"
#include "tests/support/sample_trials.h"
#include "tests/unit/fake_daemon.h"

struct options {
    const char *what, *device, *strategy, *state;
    uint32_t workers, held, problems;
    int64_t trials;
    double seconds;
    bool json, started, plain, no_beanstalkd;
};

/* ------------------------------------------------------------------ jobs */

static void start_first(const struct options *options, struct load_daemon *daemon,
                        const char *state)
{
    if (!options->plain) {
        load_daemon_curve(daemon, state);
    }
    load_daemon_start(daemon, state);
}

/* One job of so many gemm problems, with so many trials each. */
static void submit(const struct options *options, const struct load_daemon *daemon, int64_t trials)
{
    char path[200], budget[32];
    bool gpu = strncmp(options->device, "cuda:", 5) == 0;
    (void)snprintf(path, sizeof path, "%s/shapes.json", daemon->state);
    FILE *file = fopen(path, "w");
    if (!file) {
        load_die("%s cannot be written", path);
    }
    (void)fprintf(file, "{\"op\":\"gemm\",\"shapes\":[{\"M\":[");
    for (uint32_t i = 0; i < options->problems; i++) {
        (void)fprintf(file, "%s%u", i ? "," : "", 512 + 64 * i);
    }
    (void)fprintf(file, "],\"N\":4096,\"K\":4096,\"dtype\":\"bf16\"}]}");
    if (fclose(file) != 0) {
        load_die("%s cannot be written", path);
    }
    (void)snprintf(budget, sizeof budget, "%lld", (long long)trials);
    const char *argv[] = {GK_BIN_DIR "/gktune",
                          "submit",
                          "gemm",
                          "--shapes",
                          path,
                          "--arch",
                          gpu ? "sm_80" : "mock-sm_80",
                          "--budget",
                          budget,
                          "--strategy",
                          options->strategy,
                          "--state",
                          daemon->state,
                          "--connect",
                          daemon->local,
                          "--kernels",
                          GK_SOURCE_DIR "/kernels",
                          NULL};
    free(load_run(argv, 0));
}

static struct load_fleet *connect_fleet(const struct options *options,
                                        const struct load_daemon *daemon, uint64_t run_ns)
{
    struct load_options load = {.endpoint = daemon->endpoint[0] ? daemon->endpoint : daemon->local,
                                .key = daemon->endpoint[0] ? &daemon->key : NULL,
                                .workers = options->workers,
                                .held_max = options->held,
                                .run_ns = run_ns,
                                .started = options->started,
                                .device = options->device};
    return load_fleet_create(&load);
}

static bool all_leased(struct load_fleet *fleet, void *context)
{
    const struct options *options = context;
    return load_fleet_counts(fleet).leased == options->workers;
}

/* ------------------------------------------------------------------ cycles */

static void bench_cycles(const struct options *options, struct load_report *report,
                         const char *state)
{
    struct load_daemon daemon = {0};
    struct load_histogram beanstalk;
    start_first(options, &daemon, state);
    submit(options, &daemon, options->trials);
    struct load_fleet *fleet = connect_fleet(options, &daemon, 0);
    load_fleet_run(fleet, 60000000000u, all_leased, (void *)(uintptr_t)options);
    load_fleet_run(fleet, 3000000000u, NULL, NULL);
    struct load_counts before = load_fleet_counts(fleet);
    double cpu = load_cpu_s(daemon.pid), own = load_cpu_s(getpid());
    load_histogram_clear(load_fleet_cycles(fleet));
    uint64_t start = load_now_ns();
    load_fleet_run(fleet, (uint64_t)(options->seconds * 1e9), NULL, NULL);
    double seconds = (double)(load_now_ns() - start) / 1e9;
    struct load_counts after = load_fleet_counts(fleet);
    double stored = (double)(after.stored - before.stored);
    double daemon_s = load_cpu_s(daemon.pid) - cpu, own_s = load_cpu_s(getpid()) - own;
    const struct load_histogram *cycles = load_fleet_cycles(fleet);
    load_report_add(report, "workers", options->workers, "", "");
    load_report_add(report, "durable cycles a second", stored / seconds, "1/s", "goal: 10000");
    load_report_add(report, "cycle p50", load_histogram_ms(cycles, 0.5), "ms", "");
    load_report_add(report, "cycle p99", load_histogram_ms(cycles, 0.99), "ms", "goal: at most 50");
    load_report_add(report, "cycle p99.9", load_histogram_ms(cycles, 0.999), "ms", "");
    load_report_add(report, "CPU of the daemon a cycle", daemon_s * 1e6 / stored, "us", "");
    load_report_add(report, "CPU of the workers a cycle", own_s * 1e6 / stored, "us", "");
    load_report_add(report, "final passes in it", (double)(after.passes - before.passes), "", "");
    load_report_add(report, "resident memory of the daemon", load_resident_mb(daemon.pid), "MB",
                    "");
    load_fleet_drain(fleet, 30000000000u);
    after = load_fleet_counts(fleet);
    load_report_add(report, "results stored in all", (double)after.stored, "", "");
    load_report_add(report, "not acknowledged at the end", (double)after.unacknowledged, "",
                    "goal: 0");
    load_report_add(report, "errors", (double)(after.errors + after.rejects + after.dropped), "",
                    "goal: 0");
    load_fleet_destroy(fleet);
    load_daemon_stop(&daemon, SIGTERM);
    if (!options->no_beanstalkd) {
        load_histogram_init(&beanstalk);
        double rate = load_beanstalk(options->workers, options->seconds / 2, &beanstalk);
        load_report_add(report, "beanstalkd -f 0, the same connections", rate, "1/s",
                        rate < 0 ? "not installed" : "");
        load_report_add(report, "beanstalkd cycle p99", load_histogram_ms(&beanstalk, 0.99), "ms",
                        "");
        load_histogram_fini(&beanstalk);
    }
}

/* ------------------------------------------------------------------ reconnect */

/* Checks the whole store (ends the bench if anything is wrong in it): recorded trials, each
 * compared with its hash. */
static double recorded(const struct load_daemon *daemon)
{
    const char *argv[] = {GK_BIN_DIR "/gktune", "db",        "check",       "--json", "--state",
                          daemon->state,        "--connect", daemon->local, NULL};
    char *text = load_run(argv, 0), *found = strstr(text, "\"trials_checked\"");
    double trials = found ? strtod(found + strcspn(found, "0123456789"), NULL) : -1;
    free(text);
    return trials;
}

static bool all_connected(struct load_fleet *fleet, void *context)
{
    const struct options *options = context;
    return load_fleet_counts(fleet).connected == options->workers;
}

/* Every worker holds a trial that takes 12 s when the daemon is killed: none of them may be given
 * to anybody else, and every result must be there in the end. */
static void bench_reconnect(const struct options *options, struct load_report *report,
                            const char *state)
{
    struct load_daemon daemon = {0};
    void *context = (void *)(uintptr_t)options;
    start_first(options, &daemon, state);
    submit(options, &daemon, options->trials);
    uint64_t start = load_now_ns();
    struct load_fleet *fleet = connect_fleet(options, &daemon, UINT64_C(12000000000));
    load_fleet_run(fleet, 120000000000u, all_leased, context);
    load_report_add(report, "workers", options->workers, "", "");
    load_report_add(report, "first lease of all workers", (double)(load_now_ns() - start) / 1e9,
                    "s", "");
    load_fleet_run(fleet, 13000000000u, NULL, NULL); /* results are under way, most run again */
    struct load_counts before = load_fleet_counts(fleet);
    load_fleet_expect_epoch(fleet, load_fleet_epoch(fleet));
    start = load_now_ns();
    load_daemon_stop(&daemon, SIGKILL);
    load_daemon_start(&daemon, state);
    load_report_add(report, "ready again after kill -9", daemon.ready_ms, "ms", "");
    load_fleet_run(fleet, 60000000000u, all_connected, context);
    load_report_add(report, "all workers back", (double)(load_now_ns() - start) / 1e9, "s",
                    "goal: at most 10");
    struct load_counts after = load_fleet_counts(fleet);
    load_report_add(report, "leases held at the kill", (double)before.held, "", "");
    load_report_add(report, "of them dropped by the daemon",
                    (double)(after.cancelled - before.cancelled), "", "goal: 0");
    load_fleet_run(fleet, 15000000000u, NULL, NULL);
    load_fleet_drain(fleet, 60000000000u);
    after = load_fleet_counts(fleet);
    load_report_add(report, "results sent", (double)after.results, "", "");
    load_report_add(report, "results acknowledged as stored", (double)after.stored, "", "");
    load_report_add(report, "sent again, known already", (double)after.duplicate, "", "");
    load_report_add(report, "trials in the store", recorded(&daemon), "", "= results sent");
    load_report_add(report, "not acknowledged at the end", (double)after.unacknowledged, "",
                    "goal: 0");
    load_report_add(report, "stale, dropped", (double)(after.stale + after.dropped), "", "goal: 0");
    load_report_add(report, "trials leased while somebody held them", (double)after.twice, "",
                    "goal: 0");
    load_fleet_destroy(fleet);
    load_daemon_stop(&daemon, SIGTERM);
}

/* ------------------------------------------------------------------ lost */

static bool one_less(const char *state, const char *endpoint, uint32_t workers)
{
    const char *argv[] = {GK_BIN_DIR "/gktune", "workers", "--json", "--state", state,
                          "--connect",          endpoint,  NULL};
    char *text = load_run(argv, 0);
    uint32_t connected = 0;
    for (const char *at = text; (at = strstr(at, "\"connected\"")); at++) {
        connected++;
    }
    free(text);
    return connected < workers;
}

/* A worker goes silent, as if its host had lost power: nothing is closed, nothing comes. */
static void bench_lost(const struct options *options, struct load_report *report, const char *state)
{
    struct load_daemon daemon = {0};
    void *context = (void *)(uintptr_t)options;
    start_first(options, &daemon, state);
    struct load_fleet *fleet = connect_fleet(options, &daemon, UINT64_C(1000000000));
    load_fleet_run(fleet, 60000000000u, all_connected, context);
    load_fleet_run(fleet, 5000000000u, NULL, NULL);
    load_fleet_silence(fleet, 0);
    uint64_t start = load_now_ns();
    bool noticed = false;
    while (!noticed && load_now_ns() - start < 30000000000u) {
        load_fleet_run(fleet, 100000000u, NULL, NULL);
        noticed = one_less(daemon.state, daemon.local, options->workers);
    }
    load_report_add(report, "workers", options->workers, "", "");
    load_report_add(report,
                    noticed ? "silent worker noticed after" : "silent worker NOT noticed in",
                    (double)(load_now_ns() - start) / 1e9, "s", "goal: at most 8");
    load_fleet_destroy(fleet);
    load_daemon_stop(&daemon, SIGTERM);
}

/* ------------------------------------------------------------------ start */

/* Nothing of the store's files stays in memory; false where that is not allowed. */
static bool drop_caches(void)
{
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0;
    sync();
    if (good) {
        good = write(fd, "1", 1) == 1;
        (void)close(fd); /* it has no buffer */
    }
    return good;
}

#define SAMPLES_MADE 20000
#define RECORDS      256

/* One more trial in one of the tasks that sample_trials() has made, with one of these records. */
static void add_recorded(struct gk_db *db, int64_t number, const struct gk_told *told)
{
    struct gk_err err = {0};
    const struct gk_record *record = &told->record;
    struct gk_hash hash = gk_hash_text("gemm_mma"), id;
    char config[64], template_hash[GK_HASH_TEXT_SIZE], config_id[GK_HASH_TEXT_SIZE];
    int64_t task = number % (SAMPLES_MADE / SAMPLE_TRIALS_A_TASK) + 1, trial, event, token;
    (void)snprintf(config, sizeof config, "gemm_mma{\"BK\":%lld}", (long long)number);
    id = gk_config_id(&hash, config);
    gk_hash_hex(&hash, template_hash);
    gk_hash_hex(&id, config_id);
    struct gk_db_trial row = {.job = 1,
                              .task = task,
                              .seq = number, /* of the tasks' first trials all are smaller */
                              .batch = number / 8,
                              .created_ms = 1,
                              .template_name = "gemm_mma",
                              .template_hash = template_hash,
                              .config = config,
                              .config_id = config_id};
    load_need(gk_db_trial_add(db, &row, &trial, &err), &err);
    load_need(gk_db_take_tokens(db, 1, &token, &err), &err);
    bool ok = record->failure == GK_FAILURE_NONE;
    struct gk_db_outcome outcome = {.trial = trial,
                                    .task = task,
                                    .token = token,
                                    .worker = 1,
                                    .leased_ms = 1,
                                    .wall_ms = 1,
                                    .config_id = config_id,
                                    .state = "recorded",
                                    .stage = gk_stage_name(record->stage),
                                    .failure = gk_failure_name(record->failure),
                                    .message = record->message,
                                    .time_ns = ok ? record->time_ns : (double)NAN,
                                    .cost_ns = 5e8,
                                    .record = gk_buf_text(&told->kept),
                                    .samples = ok ? gk_buf_text(&told->samples) : NULL,
                                    .environment = ok ? gk_buf_text(&told->environment) : NULL};
    load_need(gk_db_trial_done(db, &outcome, &err), &err);
    load_need(gk_db_count(db, 1, task, 1, !ok, 5e8, &err), &err);
    load_need(gk_db_event_put(db, 1, 1, "recorded", "{}", &event, &err), &err);
}

/* An ended job of so many trials. */
static void fill_store(const char *path, int64_t trials)
{
    struct gk_err err = {0};
    struct gk_db *db = NULL;
    struct gk_prng prng;
    struct gk_told *told = calloc(RECORDS, sizeof *told);
    gk_prng_init(&prng, 3, 0);
    load_need(gk_db_open(path, true, &db, &err), &err);
    sample_trials(db, SAMPLES_MADE);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct gk_json *record = sample_record(&prng, i % 4);
        load_need(gk_told_from_json(record, &told[i], &err), &err);
        gk_json_free(record);
    }
    for (int64_t i = SAMPLES_MADE; i < trials; i++) {
        add_recorded(db, i, &told[i % RECORDS]);
        if (i % 5000 == 0) {
            load_need(gk_db_commit(db, &err), &err);
            load_need(gk_db_checkpoint(db, false, &err), &err);
        }
    }
    load_need(gk_db_commit(db, &err), &err);
    load_need(gk_db_checkpoint(db, true, &err), &err);
    gk_db_close(db);
    for (uint32_t i = 0; i < RECORDS; i++) {
        gk_told_fini(&told[i]);
    }
    free(told);
}

/* `trials` in the store: all but a tenth in an ended job, the rest asked for in an open one whose
 * workers are connected when the daemon is killed. */
static void bench_start(const struct options *options, struct load_report *report,
                        const char *state)
{
    struct load_daemon daemon = {0};
    struct gk_err err = {0};
    struct stat info;
    void *context = (void *)(uintptr_t)options;
    load_need(gk_state_dir_make(state, &err), &err);
    char *path = gk_asprintf("%s/%s", state, GK_STATE_STORE);
    fill_store(path, options->trials - options->trials / 10);
    start_first(options, &daemon, state);
    submit(options, &daemon, options->trials / 10 / options->problems + 1);
    struct load_fleet *fleet = connect_fleet(options, &daemon, 0);
    load_fleet_run(fleet, 120000000000u, all_leased, context);
    uint64_t until = load_now_ns() + 120000000000u; /* nine tenths of the open ones are recorded */
    while (load_now_ns() < until &&
           load_fleet_counts(fleet).stored < (uint64_t)(options->trials / 10 * 9 / 10)) {
        load_fleet_run(fleet, 100000000u, NULL, NULL);
    }
    load_report_add(report, "workers", options->workers, "", "");
    load_report_add(report, "trials of ended jobs in the store",
                    (double)(options->trials - options->trials / 10), "", "");
    load_report_add(report, "trials of the open job recorded",
                    (double)load_fleet_counts(fleet).stored, "", "");
    load_report_add(report, "resident under load", load_resident_mb(daemon.pid), "MB",
                    "goal: at most 150");
    load_daemon_stop(&daemon, SIGKILL);
    load_report_add(report, "store on disk",
                    stat(path, &info) == 0 ? (double)info.st_size / 1e6 : -1, "MB", "");
    load_daemon_start(&daemon, state);
    load_report_add(report, "ready after kill -9, page cache warm", daemon.ready_ms, "ms",
                    "goal: at most 1000");
    load_fleet_expect_epoch(fleet, load_fleet_epoch(fleet));
    load_fleet_run(fleet, 60000000000u, all_connected, context);
    load_fleet_run(fleet, 3000000000u, NULL, NULL);
    load_report_add(report, "resident with its workers back", load_resident_mb(daemon.pid), "MB",
                    "goal: at most 150");
    load_daemon_stop(&daemon, SIGKILL);
    bool cold = drop_caches();
    load_daemon_start(&daemon, state);
    load_report_add(report,
                    cold ? "ready after kill -9, page cache cold"
                         : "ready once more (drop_caches is not allowed here)",
                    daemon.ready_ms, "ms", "");
    load_fleet_destroy(fleet);
    load_daemon_stop(&daemon, SIGTERM);
    free(path);
}

/* ------------------------------------------------------------------ idle */

static void bench_idle(const struct options *options, struct load_report *report, const char *state)
{
    struct load_daemon daemon = {0};
    void *context = (void *)(uintptr_t)options;
    start_first(options, &daemon, state);
    uint64_t start = load_now_ns();
    struct load_fleet *fleet = connect_fleet(options, &daemon, 0);
    load_fleet_run(fleet, 60000000000u, all_connected, context);
    load_report_add(report, "workers", options->workers, "", "");
    load_report_add(report, "all connected after", (double)(load_now_ns() - start) / 1e9, "s", "");
    load_fleet_run(fleet, 5000000000u, NULL, NULL);
    double cpu = load_cpu_s(daemon.pid);
    start = load_now_ns();
    load_fleet_run(fleet, (uint64_t)(options->seconds * 1e9), NULL, NULL);
    double seconds = (double)(load_now_ns() - start) / 1e9;
    load_report_add(report, "CPU of the idle daemon",
                    100 * (load_cpu_s(daemon.pid) - cpu) / seconds, "% of one", "");
    load_report_add(report, "resident memory", load_resident_mb(daemon.pid), "MB", "");
    load_fleet_destroy(fleet);
    load_daemon_stop(&daemon, SIGTERM);
}

/* ------------------------------------------------------------------ hung */

#define HUNG_S 3

/* A real worker with a mock device whose trial never ends: from the lease until its RESULT, which
 * comes behind the SIGKILL of the executor. */
static void bench_hung(const struct options *options, struct load_report *report, const char *state)
{
    static const char *const args[] = {"--device", "mock:sm_80", "--private", NULL};
    struct fake_daemon daemon;
    struct gk_message message = {0};
    (void)options, (void)state;
    fake_daemon_open(&daemon, GK_SOURCE_DIR "/tests/data/worker", "add/mock.json",
                     "{\"rules\": [{\"when\": \"BUG == 'endless'\", \"outcome\": "
                     "\"hang\"}]}");
    fake_daemon_start_worker(&daemon, args);
    fake_daemon_expect(&daemon, GK_MSG_HELLO, &message);
    gk_message_fini(&message);
    /* The first one fetches the bundle and starts the executor. */
    fake_daemon_lease(&daemon, 1, "add{\"n\":1000}", "add_some{\"BLOCK\":256,\"BUG\":\"none\"}",
                      60);
    fake_daemon_expect(&daemon, GK_MSG_RESULT, &message);
    gk_message_fini(&message);
    fake_daemon_ack(&daemon, 1, 0, false);
    uint64_t start = load_now_ns();
    fake_daemon_lease(&daemon, 2, "add{\"n\":1000}", "add_some{\"BLOCK\":256,\"BUG\":\"endless\"}",
                      HUNG_S);
    fake_daemon_expect(&daemon, GK_MSG_RESULT, &message);
    double seconds = (double)(load_now_ns() - start) / 1e9;
    const struct gk_json *record = gk_json_get(message.body, "record");
    load_report_note(report, "failure", gk_json_get_string(record, "failure", "?"));
    load_report_add(report, "deadline of the trial", HUNG_S, "s", "");
    load_report_add(report, "its RESULT after", seconds, "s", "goal: at most the deadline + 1");
    gk_message_fini(&message);
    fake_daemon_close(&daemon);
}

/* ------------------------------------------------------------------ main */

static void parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.device = "cuda:0",
                                .strategy = "random",
                                .workers = 256,
                                .held = 1,
                                .problems = 64,
                                .trials = 20000,
                                .seconds = 20};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        i++;
        if (strcmp(name, "--workers") == 0) {
            options->workers = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(name, "--held") == 0) {
            options->held = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(name, "--problems") == 0) {
            options->problems = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(name, "--trials") == 0) {
            options->trials = strtoll(value, NULL, 10);
        } else if (strcmp(name, "--seconds") == 0) {
            options->seconds = strtod(value, NULL);
        } else if (strcmp(name, "--device") == 0) {
            options->device = value;
        } else if (strcmp(name, "--strategy") == 0) {
            options->strategy = value;
        } else if (strcmp(name, "--state") == 0) {
            options->state = value;
        } else {
            i--;
            if (strcmp(name, "--json") == 0) {
                options->json = true;
            } else if (strcmp(name, "--started") == 0) {
                options->started = true;
            } else if (strcmp(name, "--plain") == 0) {
                options->plain = true;
            } else if (strcmp(name, "--no-beanstalkd") == 0) {
                options->no_beanstalkd = true;
            } else if (name[0] != '-' && !options->what) {
                options->what = name;
            } else {
                load_die("unknown argument '%s'; the head of bench_load.c lists them", name);
            }
        }
    }
    if (options->workers < 1 || options->workers > 4096 || options->problems < 1 ||
        options->trials < 1 || !(options->seconds > 0)) {
        load_die("1 to 4096 workers, at least one problem, one trial and some time are needed");
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const struct options *options, struct load_report *report, const char *state);
    } benches[] = {{"cycles", bench_cycles}, {"reconnect", bench_reconnect}, {"lost", bench_lost},
                   {"start", bench_start},   {"idle", bench_idle},           {"hung", bench_hung}};
    struct options options;
    struct gk_err err = {0};
    char folder[64];
    (void)signal(SIGPIPE, SIG_IGN); /* a known signal */
    load_need(gk_hash_setup(&err), &err);
    parse(argc, argv, &options);
    for (size_t i = 0; options.what && i < GK_ARRAY_COUNT(benches); i++) {
        if (strcmp(benches[i].name, options.what) == 0) {
            struct load_report *report = load_report_create(argc, argv);
            if (!options.state) {
                load_folder_make(folder);
            }
            benches[i].run(&options, report, options.state ? options.state : folder);
            if (!options.state) {
                load_folder_remove(folder);
            }
            load_report_print(report, options.json);
            return 0;
        }
    }
    load_die("what to measure? cycles, reconnect, lost, hung, start or idle");
}
