/* Files and runs of gktune replay. See replay_grid.h. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/replay_grid.h"
#include "search/replay_t4.h"

#define PIECE (256u * 1024)

void replay_grid_fini(struct replay_grid *grid)
{
    size_t runs = (size_t)grid->space_count * grid->strategy_count * grid->seeds;
    for (size_t i = 0; grid->traces && i < runs; i++) {
        gk_replay_trace_fini(&grid->traces[i]);
    }
    free(grid->traces);
    for (uint32_t i = 0; i < grid->space_count; i++) {
        gk_replay_baseline_destroy(grid->spaces[i].baseline);
        gk_recording_destroy(grid->spaces[i].recording);
        free(grid->spaces[i].hints);
    }
    memset(grid, 0, sizeof *grid);
}

double replay_column_ns(const struct replay_grid *grid, uint32_t space, uint32_t column)
{
    return grid->budget_ns > 0 ? grid->budget_ns * grid->columns[column] / 16
                               : grid->columns[column] * grid->spaces[space].baseline->mean_cost_ns;
}

uint32_t replay_column_evals(const struct replay_grid *grid, uint32_t space, uint32_t column)
{
    double cost = grid->spaces[space].baseline->mean_cost_ns;
    if (grid->budget_ns <= 0 || cost <= 0) {
        return grid->columns[column];
    }
    double evals = floor(replay_column_ns(grid, space, column) / cost + 0.5);
    return (uint32_t)fmin(fmax(evals, 1), UINT32_MAX / 2);
}

static enum gk_status read_all(int file, const char *path, struct gk_replay_reader *reader,
                               struct gk_err *err)
{
    char *piece = malloc(PIECE);
    enum gk_status status =
        piece ? GK_OK : gk_fail(err, GK_NOMEM, "%s: no memory to read it", path);
    while (status == GK_OK) {
        ssize_t got = read(file, piece, PIECE);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
        }
        if (got <= 0) {
            break;
        }
        status = gk_replay_feed(reader, piece, (size_t)got, err);
    }
    free(piece);
    return status;
}

enum gk_status replay_load(const char *path, struct gk_diag *check,
                           struct gk_recording **recording_out, struct gk_err *err)
{
    struct gk_replay_reader *reader = NULL;
    struct stat info;
    enum gk_status status = GK_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (file < 0) {
        return gk_fail(err, errno == ENOENT ? GK_INPUT : GK_IO, "%s: %s", path, strerror(errno));
    }
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = gk_fail(err, GK_INPUT, "%s is not a regular file", path);
        goto out;
    }
    status = gk_replay_reader_create(path, &reader, err);
    if (status == GK_OK && check) {
        gk_replay_reader_check(reader, check);
    }
    if (status == GK_OK) {
        status = read_all(file, path, reader, err);
    }
    if (status == GK_OK) {
        status = gk_replay_finish(reader, recording_out, err);
    }
out:
    gk_replay_reader_destroy(reader);
    (void)close(file);
    return status;
}

/* ------------------------------------------------------------------ runs */

struct crew {
    struct replay_grid *grid;
    atomic_size_t next, done;
    atomic_bool failed;
    pthread_t caller;     /* shows progress */
    pthread_mutex_t lock; /* of what follows */
    size_t failed_at;     /* the first in order of those that failed */
    struct gk_err err;
};

/* Seconds that the tables look at, and that the score needs. */
static double horizon_ns(const struct replay_grid *grid, const struct replay_space *space)
{
    double looked =
        grid->budget_ns > 0 ? grid->budget_ns : grid->evals * space->baseline->mean_cost_ns;
    return grid->score ? fmax(looked, space->baseline->cutoff_time_ns) : looked;
}

static void run_one(struct crew *crew, size_t at)
{
    struct replay_grid *grid = crew->grid;
    size_t per_space = (size_t)grid->strategy_count * grid->seeds;
    const struct replay_space *space = &grid->spaces[at / per_space];
    const struct gk_strategy_ops *ops = grid->strategies[at % per_space / grid->seeds];
    struct gk_err err = {0};
    struct gk_replay_plan plan = {.seed = grid->seed + at % grid->seeds,
                                  .evals = grid->evals,
                                  .time_ns = horizon_ns(grid, space),
                                  .budget_ns = grid->budget_ns,
                                  .credit = grid->credit,
                                  .ahead = grid->ahead,
                                  .samples = grid->samples,
                                  .hints = space->hints,
                                  .hint_count = space->hint_count};
    if (gk_replay_run(space->recording, ops, &plan, &grid->traces[at], &err) != GK_OK) {
        (void)pthread_mutex_lock(&crew->lock);
        if (at < crew->failed_at) {
            crew->failed_at = at;
            crew->err = err;
            (void)gk_fail_in(&crew->err, err.status, "%s, strategy %s, seed %zu", space->path,
                             ops->name, (size_t)plan.seed);
        }
        (void)pthread_mutex_unlock(&crew->lock);
        atomic_store(&crew->failed, true);
    }
}

/* A line that is written over, a few times a second; nothing where stderr is no terminal. */
static void show_progress(const struct crew *crew, size_t runs, uint64_t *shown_ns)
{
    const struct gk_cli *cli = crew->grid->cli;
    uint64_t now = cli->progress_tty ? cli->clock.monotonic_ns(cli->clock.context) : 0;
    if (cli->progress_tty && now - *shown_ns > UINT64_C(200000000)) {
        *shown_ns = now;
        (void)fprintf(stderr, "\r%zu of %zu runs\033[K", atomic_load(&crew->done), runs);
        (void)fflush(stderr);
    }
}

/* Runs are begun in order, so that all before one that failed are done when the crew ends. */
static void *work(void *context)
{
    struct crew *crew = context;
    const struct replay_grid *grid = crew->grid;
    size_t runs = (size_t)grid->space_count * grid->strategy_count * grid->seeds;
    uint64_t shown_ns = 0;
    while (!atomic_load(&crew->failed)) {
        size_t at = atomic_fetch_add(&crew->next, 1);
        if (at >= runs) {
            break;
        }
        run_one(crew, at);
        atomic_fetch_add(&crew->done, 1);
        if (pthread_equal(pthread_self(), crew->caller)) {
            show_progress(crew, runs, &shown_ns);
        }
    }
    return NULL;
}

enum gk_status replay_grid_run(struct replay_grid *grid, struct gk_err *err)
{
    size_t runs = (size_t)grid->space_count * grid->strategy_count * grid->seeds;
    struct crew crew = {.grid = grid, .failed_at = SIZE_MAX, .caller = pthread_self()};
    uint32_t started = 0;
    pthread_t *threads = calloc(grid->jobs, sizeof threads[0]);
    grid->traces = calloc(runs, sizeof grid->traces[0]);
    if (!threads || !grid->traces) {
        free(threads);
        return gk_fail(err, GK_NOMEM, "no memory for %zu runs", runs);
    }
    (void)pthread_mutex_init(&crew.lock, NULL);
    while (started + 1 < grid->jobs && pthread_create(&threads[started], NULL, work, &crew) == 0) {
        started++;
    }
    (void)work(&crew); /* without threads this one does all */
    for (uint32_t i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_mutex_destroy(&crew.lock);
    free(threads);
    if (grid->cli->progress_tty) {
        (void)fputs("\r\033[K", stderr);
    }
    if (crew.failed_at != SIZE_MAX) {
        return gk_fail(err, crew.err.status, "%s", crew.err.text);
    }
    return GK_OK;
}

const struct gk_replay_trace *replay_grid_traces(const struct replay_grid *grid, uint32_t space,
                                                 uint32_t strategy)
{
    return grid->traces + ((size_t)space * grid->strategy_count + strategy) * (size_t)grid->seeds;
}
