/*
 * What the daemon itself costs: its own time a trial (ask, lease, commit with fsync, record, tell,
 * acknowledge); time to ready and resident memory over a store with 200,000 trials of a finished
 * job; size and time of its small backup. bench_service [--json] [--trials N]      N: trials of the
 * large store
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/state_dir.h"
#include "tests/support/sample_trials.h"
#include "tests/unit/daemon_rig.h"

#define BENCH_TRIALS 1000

extern char **environ;

struct figures {
    double own_us, cpu_us, build_s, ready_ms, rss_mb, store_mb, backup_mb, backup_s, restore_s;
    int64_t trials;
};

static uint64_t now_ns(void)
{
    struct gk_clock clock = gk_clock_real();
    return clock.monotonic_ns(clock.context);
}

static void need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        (void)fprintf(stderr, "bench_service: %s\n", err->text);
        exit(4);
    }
}

/* The core on a store on disk, with a worker that answers at once: all time is the daemon's and the
 * disk's. */
static double own_time(const char *folder, double *cpu_us_out)
{
    static const char *const problem[] = {"gemm{\"K\":512,\"M\":512,\"N\":512}", NULL};
    struct rig rig;
    char *store = gk_asprintf("%s/own.db", folder);
    rig_open(&rig, store, "kernels");
    (void)rig_connect(&rig, "bench", "emu:sm_80", 4);
    (void)rig_submit(&rig, "bench", "emu-sm_80", BENCH_TRIALS, problem);
    (void)rig_work(&rig, 100); /* the space is built, statements are prepared */
    uint64_t start = now_ns();
    clock_t cpu = clock();
    uint32_t answers = rig_work(&rig, BENCH_TRIALS - 200);
    *cpu_us_out = (double)(clock() - cpu) * 1e6 / CLOCKS_PER_SEC / answers;
    double us = (double)(now_ns() - start) / 1000.0 / answers;
    rig_close(&rig);
    free(store);
    return us;
}

/* The large store, and a small backup of it that is opened again. */
static void build_store(const char *folder, struct figures *figures)
{
    struct gk_err err = {0};
    struct gk_db *db = NULL;
    struct stat info;
    char *path = gk_asprintf("%s/%s", folder, GK_STATE_STORE),
         *small = gk_asprintf("%s/small.db", folder);
    need(gk_db_open(path, true, &db, &err), &err);
    sample_trials(db, figures->trials);
    need(gk_db_checkpoint(db, true, &err), &err);
    uint64_t start = now_ns();
    need(gk_db_backup(db, small, true, &err), &err);
    figures->backup_s = (double)(now_ns() - start) / 1e9;
    figures->backup_mb = stat(small, &info) == 0 ? (double)info.st_size / 1048576.0 : 0;
    gk_db_close(db);
    start = now_ns();
    need(gk_db_open(small, true, &db, &err), &err);
    figures->restore_s = (double)(now_ns() - start) / 1e9;
    gk_db_close(db);
    free(path);
    free(small);
}

static double resident_mb(pid_t pid)
{
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kb = strtod(line + 6, NULL);
        }
    }
    if (file) {
        (void)fclose(file); /* it was only read */
    }
    return kb / 1024.0;
}

static void time_start(const char *folder, struct figures *figures)
{
    char program[] = GK_BIN_DIR "/gktuned", flag[] = "--state", *state = gk_strdup(folder),
         line[256];
    char *argv[] = {program, flag, state, NULL};
    int out[2];
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    if (!state || pipe(out) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out[1], 1) != 0 ||
        posix_spawn_file_actions_addclose(&actions, out[0]) != 0) {
        (void)fprintf(stderr, "bench_service: pipe: %s\n", strerror(errno));
        exit(4);
    }
    uint64_t start = now_ns();
    int rc = posix_spawn(&pid, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions); /* frees memory only */
    (void)close(out[1]);                              /* the child has its own */
    FILE *output = rc == 0 ? fdopen(out[0], "r") : NULL;
    if (!output || !fgets(line, sizeof line, output)) {
        (void)fprintf(stderr, "bench_service: %s did not get ready\n", program);
        exit(4);
    }
    figures->ready_ms = (double)(now_ns() - start) / 1e6;
    figures->rss_mb = resident_mb(pid);
    (void)kill(pid, SIGTERM);    /* ours */
    (void)waitpid(pid, NULL, 0); /* its status was seen by the tests */
    (void)fclose(output);        /* it was only read */
    free(state);
}

int main(int argc, char **argv)
{
    struct figures figures = {.trials = 200000};
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--trials") == 0 && i + 1 < argc) {
            figures.trials = strtoll(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr,
                          "bench_service: unknown argument '%s'; allowed: --json, --trials N\n",
                          argv[i]);
            return 2;
        }
    }
    char folder[] = "/tmp/gkbench_service_XXXXXX";
    if (!mkdtemp(folder)) {
        (void)fprintf(stderr, "bench_service: %s: %s\n", folder, strerror(errno));
        return 4;
    }
    figures.own_us = own_time(folder, &figures.cpu_us);
    uint64_t start = now_ns();
    build_store(folder, &figures);
    figures.build_s = (double)(now_ns() - start) / 1e9;
    time_start(folder, &figures);
    char *path = gk_asprintf("%s/%s", folder, GK_STATE_STORE);
    struct stat info;
    figures.store_mb = path && stat(path, &info) == 0 ? (double)info.st_size / 1048576.0 : 0;
    free(path);
    (void)printf(
        json ? "{\"wall_us_per_trial\":%.1f,\"cpu_us_per_trial\":%.1f,\"trials_in_store\":%" PRId64
               ",\"store_mb\":%.1f,\"build_s\":%.1f,\"ready_ms\":%.1f,\"rss_mb\":%.1f,\"small_"
               "backup_mb\":%.2f,"
               "\"small_backup_s\":%.1f,\"small_restore_s\":%.1f}\n"
             : "wall time a trial       %10.1f us   (one commit with fsync a message: nothing is "
               "batched here)\n"
               "own time a trial        %10.1f us   (CPU; goal: under 1000)\ntrials in the store   "
               "  %10" PRId64 "\nstore on disk           %10.1f MB\nbuilding it             %10.1f "
               "s\ntime to ready           %10.1f ms   (goal: under 1000)\n"
               "resident when ready     %10.1f MB   (goal: under 100)\n"
               "small backup            %10.2f MB   (goal: 16 for 100,000 trials)\n"
               "writing it              %10.1f s\nopening it              %10.1f s\n",
        figures.own_us, figures.cpu_us, figures.trials, figures.store_mb, figures.build_s,
        figures.ready_ms, figures.rss_mb, figures.backup_mb, figures.backup_s, figures.restore_s);
    char program[] = "/bin/rm", flags[] = "-rf";
    char *remove[] = {program, flags, folder, NULL};
    pid_t pid;
    return posix_spawn(&pid, program, NULL, NULL, remove, environ) == 0 &&
                   waitpid(pid, NULL, 0) == pid
               ? 0
               : 4;
}
