/*
 * A fixed piece of work (submit, trials, cancel, backup, an orderly end) over the real gktuned and
 * gktune-worker, once for every call at which one of them may die or fail
 * (tests/support/fail_io.c). What was acknowledged is written down here, and the store is held
 * against it.
 *
 *     crash_points BIN SHIM --who gktuned|gktune-worker --how kill|half|power|eio|enospc|full
 *                  [--every N --seed S] [--at N]      all points, a seeded Nth part of them, or one
 *                  [--store FILE]                     begins with this store, which is migrated
 *     crash_points BIN SHIM --kills N --seed S        SIGKILL at random moments instead
 *     crash_points BIN PROXY --chaos N --seed S       N runs through tests/support/chaos_proxy.c
 *     ... --jobs N                                    so many at once: they mostly wait
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base64.h"
#include "core/link.h"
#include "core/prng.h"
#include "db/db_internal.h"
#include "kernels/catalog.h"

#define TRIALS     6
#define LIMIT_S    60 /* of one point */
#define ANSWER_MS  1500
#define LOOK_MS    10
#define MARK_WAITS 40 /* looks at a daemon whose disk is full before it is ended */
#define JOBS_MAX   32
#define RUN_KILLS  8 /* of one run */
/* Of them, of the worker: a trial that was lost with its worker three times is parked, as it should
 * be. */
#define WORKER_KILLS 2

extern char **environ;

struct bench {
    const char *bin, *shim, *who, *how;
    const char *store; /* of an older gktune, to begin with; NULL: none */
    int64_t jobs_before;
    long at; /* 0: nobody fails */
    char folder[64], state[96], spool[96], endpoint[128], mark[96], count[96], backup[96];
    char notify[96]; /* where the daemon says that it is ready */
    int notify_fd;
    bool is_ready;
    pid_t daemon, worker, proxy;
    struct gk_link *link;
    uint64_t seq, deadline_s, kills, kills_left, worker_kills;
    uint64_t chaos; /* seed of the proxy; 0: there is none */
    struct gk_prng prng;
    uint32_t full_looks;
    int64_t job_a, job_b; /* acknowledged */
    bool cancel_acked, backup_acked;
    struct gk_catalog *catalog;
    struct gk_bundle bundle;
};

static uint64_t now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* a known clock */
    return (uint64_t)t.tv_sec;
}

static void show_file(const char *folder, const char *name)
{
    char path[256], line[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        (void)fprintf(stderr, "   %s: %s", name, line);
    }
    if (file) {
        (void)fclose(file);
    }
}

static void stop_all(struct bench *bench);

__attribute__((format(printf, 2, 3), noreturn)) static void lose(struct bench *bench,
                                                                 const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)fprintf(stderr, "%s %s at call %ld: ", bench->who, bench->how, bench->at);
    (void)vfprintf(stderr, format, ap);
    (void)fprintf(stderr, "\nagain: crash_points %s %s --who %s --how %s --at %ld; files: %s\n",
                  bench->bin, bench->shim, bench->who, bench->how, bench->at, bench->folder);
    va_end(ap);
    show_file(bench->folder, "gktuned.log");
    show_file(bench->folder, "gktune-worker.log");
    stop_all(bench);
    exit(1);
}

/* ------------------------------------------------------------------ processes */

static pid_t start(struct bench *bench, const char *name, char *const argv[], bool armed)
{
    char program[512], log[160], at[32];
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    (void)snprintf(program, sizeof program, "%s/%s", bench->bin, name);
    (void)snprintf(log, sizeof log, "%s/%s.log", bench->folder, name);
    (void)snprintf(at, sizeof at, "%ld", bench->at);
    bool ok = setenv("GK_FAIL_NAME", bench->who, 1) == 0 && setenv("GK_FAIL_AT", at, 1) == 0 &&
              setenv("GK_FAIL_HOW", bench->how, 1) == 0 &&
              setenv("GK_FAIL_ONCE", bench->mark, 1) == 0 &&
              setenv("GK_FAIL_COUNT", bench->count, 1) == 0 &&
              (armed ? setenv("LD_PRELOAD", bench->shim, 1) : unsetenv("LD_PRELOAD")) == 0 &&
              posix_spawn_file_actions_init(&actions) == 0;
    for (int fd = 1; ok && fd <= 2; fd++) {
        ok = posix_spawn_file_actions_addopen(&actions, fd, log, O_WRONLY | O_CREAT | O_APPEND,
                                              0600) == 0;
    }
    if (!ok || posix_spawn(&pid, program, &actions, NULL, argv, environ) != 0) {
        lose(bench, "%s does not start", program);
    }
    (void)posix_spawn_file_actions_destroy(&actions); /* it was made */
    (void)unsetenv("LD_PRELOAD");                     /* a known name */
    return pid;
}

/* What daemons have said on their notify socket: whether one is ready. */
static void hear_daemon(struct bench *bench)
{
    char text[512];
    ssize_t size;
    while ((size = recv(bench->notify_fd, text, sizeof text, MSG_DONTWAIT)) > 0) {
        bench->is_ready = bench->is_ready || memmem(text, (size_t)size, "READY=1", 7);
    }
}

static void start_daemon(struct bench *bench, bool armed)
{
    char name[] = "gktuned", state[] = "--state", ballast[] = "--ballast",
         size[] = "64KiB"; /* to remove 16 MB takes as long as all of the work */
    char *const argv[] = {name, state, bench->state, ballast, size, NULL};
    hear_daemon(bench);
    bench->is_ready = false; /* that was the one before */
    if (setenv("NOTIFY_SOCKET", bench->notify, 1) != 0) {
        lose(bench, "NOTIFY_SOCKET: %s", strerror(errno));
    }
    bench->daemon = start(bench, name, argv, armed);
    (void)unsetenv("NOTIFY_SOCKET"); /* a known name */
}

static void listen_to_daemons(struct bench *bench)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", bench->notify);
    bench->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bench->notify_fd < 0 ||
        bind(bench->notify_fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        lose(bench, "%s: %s", bench->notify, strerror(errno));
    }
}

static void start_worker(struct bench *bench, bool armed)
{
    char name[] = "gktune-worker", connect[] = "--connect", device[] = "--device",
         mock[] = "mock:sm_80", spool[] = "--spool", processes[] = "--compile-processes",
         one[] = "1";
    char *const argv[] = {name,  connect,      bench->endpoint, device, mock,
                          spool, bench->spool, processes,       one,    NULL};
    bench->worker = start(bench, name, argv, armed);
}

static void end_process(pid_t *pid, int number)
{
    int status = 0;
    if (*pid > 0 && kill(*pid, number) == 0) {
        (void)waitpid(*pid, &status, 0); /* its child: there is nothing else to wait for */
    }
    *pid = 0;
}

/* Between the daemon and everybody else. */
static void start_proxy(struct bench *bench, uint64_t seed)
{
    char program[512], log[160], from[128], to[128], number[32],
        name[] = "chaos_proxy", seeds[] = "--seed", faults[] = "--faults", thirty[] = "30";
    posix_spawn_file_actions_t actions;
    (void)snprintf(program, sizeof program, "%s", bench->shim);
    (void)snprintf(log, sizeof log, "%s/chaos_proxy.log", bench->folder);
    (void)snprintf(from, sizeof from, "unix:%s/proxy.sock", bench->folder);
    (void)snprintf(to, sizeof to, "unix:%s/gktuned.sock", bench->state);
    (void)snprintf(number, sizeof number, "%" PRIu64, seed);
    (void)snprintf(bench->endpoint, sizeof bench->endpoint, "ipc://%s/proxy.sock", bench->folder);
    char *const argv[] = {name, from, to, seeds, number, faults, thirty, NULL};
    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT, 0600) != 0 ||
        posix_spawn(&bench->proxy, program, &actions, NULL, argv, environ) != 0) {
        lose(bench, "%s does not start", program);
    }
    (void)posix_spawn_file_actions_destroy(&actions); /* it was made */
}

/* Its last line: how many faults there were. */
static void end_proxy(struct bench *bench)
{
    end_process(&bench->proxy, SIGTERM);
    show_file(bench->folder, "chaos_proxy.log");
}

static bool ended(pid_t pid)
{
    int status = 0;
    return pid > 0 && waitpid(pid, &status, WNOHANG) == pid;
}

static void stop_all(struct bench *bench)
{
    gk_link_destroy(bench->link);
    bench->link = NULL;
    end_process(&bench->worker, SIGKILL);
    end_process(&bench->daemon, SIGKILL);
    end_process(&bench->proxy, SIGKILL);
}

static bool marked(const struct bench *bench)
{
    return access(bench->mark, F_OK) == 0;
}

/* Whoever has died is started again, as a service manager does. */
static void tend(struct bench *bench)
{
    if (now_s() > bench->deadline_s) {
        lose(bench, "the work does not end within %d s", LIMIT_S);
    }
    if (bench->kills_left > 0 && gk_prng_below(&bench->prng, 12) == 0) {
        bool worker = gk_prng_below(&bench->prng, 2) && bench->worker_kills < WORKER_KILLS;
        pid_t victim = worker ? bench->worker : bench->daemon;
        if (victim > 0 && kill(victim, SIGKILL) == 0) {
            bench->kills_left--;
            bench->kills++;
            bench->worker_kills += worker;
        }
    }
    /* A disk that stays full: the daemon stays up and answers; then somebody makes room. */
    if (strcmp(bench->how, "full") == 0 && marked(bench) && ++bench->full_looks == MARK_WAITS) {
        end_process(&bench->daemon, SIGKILL);
        end_process(&bench->worker, SIGKILL);
        start_daemon(bench, false);
        start_worker(bench, false);
    }
    if (ended(bench->daemon)) {
        start_daemon(bench, bench->at > 0 && !marked(bench));
    }
    if (ended(bench->worker)) {
        start_worker(bench, bench->at > 0 && !marked(bench));
    }
}

/* ------------------------------------------------------------------ asking */

static void await_daemon(struct bench *bench)
{
    for (hear_daemon(bench); !bench->is_ready; hear_daemon(bench)) {
        struct pollfd item = {.fd = bench->notify_fd, .events = POLLIN};
        (void)poll(&item, 1, LOOK_MS); /* something or not: look again */
        tend(bench);
    }
}

static void connect_again(struct bench *bench)
{
    struct gk_err err = {0};
    gk_link_destroy(bench->link);
    bench->link = NULL;
    await_daemon(bench);
    if (gk_link_connect(bench->endpoint, &bench->link, &err) != GK_OK) {
        lose(bench, "connect: %s", err.text);
    }
}

/* NULL: no answer, the caller asks again. Takes the body. */
static struct gk_json *ask_once(struct bench *bench, const char *verb, struct gk_json *body)
{
    struct gk_err err = {0};
    struct gk_message message = {.type = GK_MSG_REQUEST, .seq = ++bench->seq, .body = body};
    bool sent = gk_json_set_string(body, "verb", verb) &&
                gk_link_send(bench->link, NULL, &message, &err) == GK_OK;
    gk_message_fini(&message);
    for (int waited = 0; sent && waited < ANSWER_MS; waited += LOOK_MS) {
        struct gk_peer peer;
        struct gk_message answer = {0};
        pid_t daemon = bench->daemon;
        enum gk_status status = gk_link_receive(bench->link, &peer, &answer, &err);
        if (status == GK_OK && answer.type == GK_MSG_REPLY && answer.reply_to == bench->seq) {
            return answer.body;
        }
        gk_message_fini(&answer);
        if (status == GK_AGAIN) {
            (void)gk_link_wait(bench->link, LOOK_MS, NULL); /* time out or not: look again */
        }
        tend(bench);
        if (bench->daemon != daemon || gk_link_connections(bench->link) > 1) {
            break; /* question or answer are lost */
        }
    }
    connect_again(bench);
    return NULL;
}

static struct gk_json *job_body(int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    GK_ASSERT(gk_json_set_int(body, "job", job));
    return body;
}

static struct gk_json *ask(struct bench *bench, const char *verb, const struct gk_json *body)
{
    struct gk_json *reply = NULL;
    while (!reply) {
        tend(bench);
        reply = ask_once(bench, verb, gk_json_copy(body));
    }
    return reply;
}

static bool is_status(const struct gk_json *reply, const char *status)
{
    return strcmp(gk_json_get_string(reply, "status", ""), status) == 0;
}

static void put_files(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->bundle.count; i++) {
        char *text = NULL, hex[GK_HASH_TEXT_SIZE];
        size_t size = 0;
        struct gk_buf data = {0};
        struct gk_json *body = gk_json_new_object();
        gk_hash_hex(&bench->bundle.files[i].hash, hex);
        GK_ASSERT(gk_catalog_file(bench->catalog, bench->bundle.files[i].path, &text, &size,
                                  NULL) == GK_OK);
        gk_base64_encode(text, size, &data);
        GK_ASSERT(gk_json_set_string(body, "hash", hex) && gk_json_set_int(body, "offset", 0) &&
                  gk_json_set_int(body, "size", (int64_t)size) &&
                  gk_json_set_string(body, "data", gk_buf_text(&data)));
        gk_json_free(ask(bench, "blob_put", body)); /* if it failed the submit says MISSING again */
        gk_json_free(body);
        gk_buf_fini(&data);
        free(text);
    }
}

static struct gk_json *submit_body(struct bench *bench, const char *id, int64_t trials)
{
    struct gk_json *body = gk_json_new_object(), *problems = gk_json_new_array(),
                   *archs = gk_json_new_array(), *budget = gk_json_new_object();
    GK_ASSERT(gk_json_push(problems, gk_json_new_string("scale{\"N\":4096}")) &&
              gk_json_push(archs, gk_json_new_string("mock-sm_80")) &&
              gk_json_set_int(budget, "trials", trials) &&
              gk_json_set(body, "problems", problems) && gk_json_set(body, "archs", archs) &&
              gk_json_set(body, "budget", budget) && gk_json_set_string(body, "submit_id", id) &&
              gk_json_set_string(body, "what", "crash") &&
              gk_json_set_string(body, "strategy", "exhaustive") &&
              gk_json_set_int(body, "seed", 1) && gk_json_set_bool(body, "fresh", true) &&
              gk_json_set(body, "bundle", gk_bundle_to_json(&bench->bundle)));
    return body;
}

static int64_t submit(struct bench *bench, const char *id, int64_t trials)
{
    struct gk_json *body = submit_body(bench, id, trials);
    int64_t job = 0;
    while (job == 0) {
        struct gk_json *reply = ask(bench, "submit", body);
        if (is_status(reply, "MISSING")) {
            put_files(bench);
        } else if (is_status(reply, "OK")) {
            job = gk_json_get_int(reply, "job", 0);
        } else if (!is_status(reply, "FULL") && !is_status(reply, "LIMIT") &&
                   !is_status(reply, "INPUT")) { /* refused for now: asked again */
            lose(bench, "submit: %s", gk_json_get_string(reply, "text", ""));
        }
        gk_json_free(reply);
    }
    gk_json_free(body);
    return job;
}

static void wait_done(struct bench *bench, int64_t job)
{
    struct gk_json *body = job_body(job);
    for (bool over = false; !over;) {
        struct gk_json *reply = ask(bench, "show", body);
        const char *state = gk_json_get_string(reply, "state", "");
        over = strcmp(state, "done") == 0;
        if (is_status(reply, "NOT_FOUND") || strcmp(state, "failed") == 0) {
            lose(bench, "job %" PRId64 " was acknowledged; now: %s%s", job, state,
                 gk_json_get_string(reply, "text", ""));
        }
        gk_json_free(reply);
        if (!over) {
            (void)gk_link_wait(bench->link, LOOK_MS, NULL); /* time out or not: look again */
        }
    }
    gk_json_free(body);
}

static void cancel(struct bench *bench, int64_t job)
{
    struct gk_json *body = job_body(job), *reply = ask(bench, "cancel", body);
    bench->cancel_acked =
        is_status(reply, "OK"); /* else it has ended, by an answer that was lost */
    gk_json_free(reply);
    gk_json_free(body);
}

static void back_up(struct bench *bench)
{
    struct gk_json *body = gk_json_new_object();
    GK_ASSERT(gk_json_set_string(body, "action", "backup") &&
              gk_json_set_string(body, "path", bench->backup));
    struct gk_json *reply = ask(bench, "db", body);
    bench->backup_acked = is_status(reply, "OK");
    gk_json_free(reply);
    gk_json_free(body);
}

/* ------------------------------------------------------------------ the check */

static void check_store(struct bench *bench, const char *path, const char *what)
{
    struct gk_db *db = NULL;
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    if (gk_db_open(path, true, &db, &err) != GK_OK || gk_db_check(db, &report, &err) != GK_OK) {
        lose(bench, "%s: %s", what, err.text);
    }
    if (!gk_json_get_bool(report, "ok", false)) {
        lose(bench, "%s: %s", what,
             gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), ""));
    }
    gk_json_free(report);
    gk_db_close(db);
}

static int64_t count(struct bench *bench, struct gk_db *db, const char *sql, int64_t job)
{
    int64_t value = -1;
    struct gk_err err = {0};
    if (db_int(db, &err, &value, sql, "i", job) != GK_OK) {
        lose(bench, "%s: %s", sql, err.text);
    }
    return value;
}

static void check(struct bench *bench)
{
    char store[160];
    struct gk_db *db = NULL;
    struct gk_err err = {0};
    (void)snprintf(store, sizeof store, "%s/%s", bench->state, "gktune.db");
    check_store(bench, store, "the store");
    if (access(bench->backup, F_OK) == 0) {
        check_store(bench, bench->backup, "a backup that stands under its name");
        if (gk_db_open(bench->backup, false, &db, &err) != GK_OK ||
            count(bench, db, "SELECT count(*) FROM jobs WHERE job=?1", bench->job_a) != 1) {
            lose(bench, "a backup that stands under its name does not hold the job");
        }
        gk_db_close(db);
        db = NULL;
    } else if (bench->backup_acked) {
        lose(bench, "the backup was acknowledged and is not there");
    }
    if (gk_db_open(store, false, &db, &err) != GK_OK) {
        lose(bench, "%s", err.text);
    }
    if (count(bench, db, "SELECT count(*) FROM jobs WHERE ?1>0", 1) != 2 + bench->jobs_before) {
        lose(bench, "two submits are not two jobs more");
    }
    int64_t recorded = count(
        bench, db, "SELECT count(DISTINCT config) FROM trials WHERE job=?1 AND state='recorded'",
        bench->job_a);
    int64_t all = count(bench, db, "SELECT count(*) FROM trials WHERE job=?1", bench->job_a);
    if (recorded != TRIALS || all != TRIALS) {
        lose(bench, "%" PRId64 " of %" PRId64 " trials are recorded, %d were asked for", recorded,
             all, TRIALS);
    }
    if (count(bench, db, "SELECT count(*) FROM jobs WHERE job=?1 AND state='done'", bench->job_a) !=
        1) {
        lose(bench, "the job that was done is not done any more");
    }
    if (bench->cancel_acked &&
        count(bench, db, "SELECT count(*) FROM jobs WHERE job=?1 AND state='cancelled'",
              bench->job_b) != 1) {
        lose(bench, "the job that was cancelled is not cancelled");
    }
    /* While only the daemon dies, a live trial is not run again. */
    if (bench->kills == 0 && bench->chaos == 0 && strcmp(bench->who, "gktuned") == 0 &&
        strcmp(bench->how, "full") != 0 &&
        count(bench, db, "SELECT count(*) FROM trials WHERE ?1>0 AND attempt>0", 1) != 0) {
        lose(bench, "a live trial was run again");
    }
    gk_db_close(db);
}

/* ------------------------------------------------------------------ one point */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static long calls_made(const struct bench *bench)
{
    long most = 0, value;
    FILE *file = fopen(bench->count, "r");
    while (file && fscanf(file, "%ld", &value) == 1) {
        most = value > most ? value : most;
    }
    if (file) {
        (void)fclose(file);
    }
    return most;
}

/* The older store, as it is, and how many jobs it has. */
static void begin_with(struct bench *bench)
{
    char path[160], *bytes = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    sqlite3 *handle = NULL;
    sqlite3_stmt *statement = NULL;
    (void)snprintf(path, sizeof path, "%s/gktune.db", bench->state);
    if (gk_file_load(bench->store, 16u << 20, &bytes, &size, &err) != GK_OK ||
        gk_file_store(path, bytes, size, &err) != GK_OK || chmod(path, 0600) != 0) {
        lose(bench, "%s: %s", bench->store, err.text);
    }
    free(bytes);
    if (sqlite3_open_v2(bench->store, &handle, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(handle, "SELECT count(*) FROM jobs", -1, &statement, NULL) !=
            SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        lose(bench, "%s: %s", bench->store, sqlite3_errmsg(handle));
    }
    bench->jobs_before = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement); /* it was stepped */
    (void)sqlite3_close(handle);       /* no statement is open */
}

/* at 0: nothing fails; returns the number of calls then. */
static long run_point(struct bench *bench, long at)
{
    bench->at = at;
    bench->full_looks = 0;
    bench->seq = 0;
    bench->cancel_acked = bench->backup_acked = false;
    bench->deadline_s = now_s() + LIMIT_S;
    (void)snprintf(bench->folder, sizeof bench->folder, "/tmp/gk-points-XXXXXX");
    if (!mkdtemp(bench->folder)) {
        lose(bench, "mkdtemp: %s", strerror(errno));
    }
    (void)snprintf(bench->state, sizeof bench->state, "%s/state", bench->folder);
    (void)snprintf(bench->spool, sizeof bench->spool, "%s/spool", bench->folder);
    (void)snprintf(bench->mark, sizeof bench->mark, "%s/mark", bench->folder);
    (void)snprintf(bench->count, sizeof bench->count, "%s/count", bench->folder);
    (void)snprintf(bench->backup, sizeof bench->backup, "%s/backup.db", bench->folder);
    (void)snprintf(bench->notify, sizeof bench->notify, "%s/notify", bench->folder);
    (void)snprintf(bench->endpoint, sizeof bench->endpoint, "ipc://%s/gktuned.sock", bench->state);
    if (mkdir(bench->state, 0700) != 0) {
        lose(bench, "mkdir: %s", strerror(errno));
    }
    if (bench->store) {
        begin_with(bench);
    }
    listen_to_daemons(bench);
    start_daemon(bench, at > 0 || !bench->chaos);
    if (bench->chaos) {
        start_proxy(bench, bench->chaos);
    }
    start_worker(bench, at > 0 || !bench->chaos);
    connect_again(bench);
    bench->job_a = submit(bench, "crash-a", TRIALS);
    wait_done(bench, bench->job_a);
    bench->job_b = submit(bench, "crash-b", 16);
    cancel(bench, bench->job_b);
    back_up(bench);
    int64_t again = submit(bench, "crash-a", TRIALS);
    if (again != bench->job_a) {
        lose(bench, "submit a was job %" PRId64 ", sent again it is %" PRId64, bench->job_a, again);
    }
    gk_link_destroy(bench->link);
    bench->link = NULL;
    end_process(&bench->worker, SIGTERM);
    end_process(&bench->daemon, SIGTERM);
    if (bench->chaos) {
        end_proxy(bench);
    }
    (void)close(bench->notify_fd); /* nobody speaks any more */
    check(bench);
    long calls = calls_made(bench);
    (void)nftw(bench->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* what stays is in /tmp */
    return calls;
}

/* ------------------------------------------------------------------ many of them */

struct plan {
    long every, at, jobs;
    uint64_t seed, kills, chaos;
};

/* What the processes of runs tell the one that started them. */
struct told {
    atomic_long calls;
    atomic_ulong kills;
};

struct crew {
    struct bench *bench;
    struct told *told;
    long jobs, running;
    bool lost;
};

static void crew_init(struct crew *crew, struct bench *bench, const struct plan *plan)
{
    void *shared =
        mmap(NULL, sizeof *crew->told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        lose(bench, "mmap: %s", strerror(errno));
    }
    *crew = (struct crew){.bench = bench, .told = shared, .jobs = plan->jobs};
}

static void crew_wait(struct crew *crew, long running)
{
    int status = 0;
    while (crew->running > running && wait(&status) > 0) {
        crew->running--;
        crew->lost = crew->lost || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
}

/* A run in a process of its own, when there is room for one more. False: one has failed, and the
 * others have ended. */
static bool crew_run(struct crew *crew, long at)
{
    crew_wait(crew, crew->jobs - 1);
    if (crew->lost) {
        crew_wait(crew, 0);
        return false;
    }
    pid_t pid = fork(); /* no link exists here: each run makes its own */
    if (pid < 0) {
        lose(crew->bench, "fork: %s", strerror(errno));
    }
    if (pid == 0) {
        long calls = run_point(crew->bench, at); /* it ends the program if it fails */
        atomic_store(&crew->told->calls, calls);
        (void)atomic_fetch_add(&crew->told->kills, crew->bench->kills);
        exit(0);
    }
    crew->running++;
    return true;
}

static bool crew_end(struct crew *crew)
{
    crew_wait(crew, 0);
    return !crew->lost;
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: crash_points BIN SHIM --who NAME --how HOW [--every N] [--seed S]"
                  " [--at N] [--store FILE] | --kills N [--seed S] | --chaos N [--seed S];"
                  " [--jobs N], 1 to %d\n",
                  JOBS_MAX);
    return 2;
}

static bool read_options(int argc, char **argv, struct bench *bench, struct plan *plan)
{
    for (int i = 3; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--who") == 0) {
            bench->who = value;
        } else if (strcmp(name, "--how") == 0) {
            bench->how = value;
        } else if (strcmp(name, "--store") == 0) {
            bench->store = value;
        } else if (strcmp(name, "--every") == 0) {
            plan->every = strtol(value, NULL, 10);
        } else if (strcmp(name, "--at") == 0) {
            plan->at = strtol(value, NULL, 10);
        } else if (strcmp(name, "--jobs") == 0) {
            plan->jobs = strtol(value, NULL, 10);
        } else if (strcmp(name, "--seed") == 0) {
            plan->seed = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--kills") == 0) {
            plan->kills = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--chaos") == 0) {
            plan->chaos = strtoull(value, NULL, 10);
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && plan->every > 0 && plan->jobs > 0 && plan->jobs <= JOBS_MAX;
}

static int random_kills(struct bench *bench, const struct plan *plan)
{
    struct crew crew;
    uint64_t runs = 0;
    crew_init(&crew, bench, plan);
    bench->kills_left = RUN_KILLS;
    /* A run may end before all of its kills, so how many runs it takes shows only then. */
    for (; atomic_load(&crew.told->kills) < plan->kills; runs++) {
        gk_prng_init(&bench->prng, plan->seed, runs);
        if (!crew_run(&crew, 0)) {
            return 1;
        }
        uint64_t planned = atomic_load(&crew.told->kills) + (uint64_t)crew.running * RUN_KILLS;
        crew_wait(&crew, planned < plan->kills ? crew.jobs : crew.running - 1);
    }
    if (!crew_end(&crew)) {
        return 1;
    }
    (void)printf("%lu kills in %" PRIu64 " runs: nothing lost, nothing twice\n",
                 atomic_load(&crew.told->kills), runs);
    return 0;
}

static int through_chaos(struct bench *bench, const struct plan *plan)
{
    struct crew crew;
    crew_init(&crew, bench, plan);
    for (uint64_t i = 0; i < plan->chaos; i++) {
        bench->chaos = plan->seed + i;
        if (!crew_run(&crew, 0)) {
            return 1;
        }
    }
    if (!crew_end(&crew)) {
        return 1;
    }
    (void)printf("%" PRIu64 " runs through the proxy: nothing lost, nothing twice\n", plan->chaos);
    return 0;
}

static int through_points(struct bench *bench, const struct plan *plan)
{
    struct crew crew;
    long points = 0;
    crew_init(&crew, bench, plan);
    if (!crew_run(&crew, 0) || !crew_end(&crew)) {
        return 1;
    }
    long calls = atomic_load(&crew.told->calls);
    if (calls < 20) {
        lose(bench, "only %ld calls were counted: the library was not loaded", calls);
    }
    for (long at = 1; at <= calls; at++) {
        if (plan->every == 1 || gk_prng_below(&bench->prng, (uint64_t)plan->every) == 0) {
            if (!crew_run(&crew, at)) {
                return 1;
            }
            points++;
        }
    }
    if (!crew_end(&crew)) {
        return 1;
    }
    (void)printf("%s %s: %ld of %ld points, nothing lost, nothing twice\n", bench->who, bench->how,
                 points, calls);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.who = "nobody", .how = "nothing"};
    struct plan plan = {.every = 1, .seed = 1, .jobs = 1};
    struct gk_diag diag;
    const char *all = getenv("GKTUNE_TEST_ALL");
    if (argc < 5 || !read_options(argc, argv, &bench, &plan)) {
        return usage();
    }
    bool is_all = all && strcmp(all, "1") == 0;
    plan.every = is_all ? 1 : plan.every;
    plan.kills = is_all ? plan.kills * 10 : plan.kills;
    plan.chaos = is_all ? plan.chaos * 10 : plan.chaos;
    bench.bin = argv[1];
    bench.shim = argv[2];
    gk_diag_init(&diag);
    gk_prng_init(&bench.prng, plan.seed, 7);
    if (gk_hash_setup(NULL) != GK_OK ||
        gk_catalog_load(GK_SOURCE_DIR "/tests/data/kernels/toy", &bench.catalog, &diag) != GK_OK ||
        gk_catalog_bundle(bench.catalog, &bench.bundle, NULL) != GK_OK) {
        (void)fprintf(stderr, "the toy catalog does not load\n");
        return 2;
    }
    gk_diag_fini(&diag);
    if (plan.kills > 0) {
        return random_kills(&bench, &plan);
    }
    if (plan.chaos > 0) {
        return through_chaos(&bench, &plan);
    }
    if (plan.at > 0) {
        (void)run_point(&bench, plan.at); /* it ends the program if it fails */
        return 0;
    }
    return through_points(&bench, &plan);
}
