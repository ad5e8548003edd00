/* gktune replay: strategies over spaces that others recorded. No daemon, no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/replay_grid.h"

#define SEEDS_MAX 100000
#define EVALS_MAX 10000000
#define JOBS_MAX  1024

static enum gk_status fail_strategy(const char *name, size_t size, struct gk_err *err)
{
    struct gk_buf names = {0};
    for (uint32_t i = 0; gk_strategy_at(i); i++) {
        gk_buf_printf(&names, "%s%s", i ? ", " : "", gk_strategy_at(i)->name);
    }
    enum gk_status status = gk_fail(err, GK_USAGE, "--strategy '%.*s': allowed are %s",
                                    (int)(size < 64 ? size : 64), name, gk_buf_text(&names));
    gk_buf_fini(&names);
    return status;
}

/* "a,b": in that order. Without the option all but exhaustive, whose order means nothing here. */
static enum gk_status read_strategies(const struct gk_cli *cli, struct replay_grid *grid,
                                      struct gk_err *err)
{
    const char *text = gk_options_get(&cli->options, "strategy");
    for (uint32_t i = 0; !text && gk_strategy_at(i); i++) {
        if (grid->strategy_count < REPLAY_STRATEGIES_MAX &&
            strcmp(gk_strategy_at(i)->name, "exhaustive") != 0) {
            grid->strategies[grid->strategy_count++] = gk_strategy_at(i);
        }
    }
    while (text) {
        size_t size = strcspn(text, ",");
        char *name = gk_strndup(text, size);
        if (!name) {
            return gk_fail(err, GK_NOMEM, "out of memory");
        }
        const struct gk_strategy_ops *ops = gk_strategy_find(name);
        free(name);
        if (!ops) {
            return fail_strategy(text, size, err);
        }
        if (grid->strategy_count == REPLAY_STRATEGIES_MAX) {
            return gk_fail(err, GK_LIMIT, "--strategy: more than %u", REPLAY_STRATEGIES_MAX);
        }
        grid->strategies[grid->strategy_count++] = ops;
        text = text[size] ? text + size + 1 : NULL;
    }
    return GK_OK;
}

static enum gk_status read_numbers(const struct gk_cli *cli, struct replay_grid *grid,
                                   struct gk_err *err)
{
    static const uint32_t usual[] = {25, 50, 100, 200, 400};
    const struct gk_options *options = &cli->options;
    const char *budget_text = gk_options_get(options, "budget");
    struct gk_budget budget = {.trials = 400};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t seeds = 100, seed = 1, evals = 0, credit = 1, ahead = 0, samples = 0,
            jobs = cpus > 0 && cpus <= JOBS_MAX ? cpus : 1;
    const struct {
        const char *name;
        int64_t min, max;
        int64_t *value;
    } numbers[] = {{"seeds", 1, SEEDS_MAX, &seeds},
                   {"seed", 0, INT64_MAX / 2, &seed},
                   {"evals", 1, EVALS_MAX, &evals},
                   {"credit", 1, GK_REPLAY_CREDIT_MAX, &credit},
                   {"ahead", 0, GK_REPLAY_AHEAD_MAX, &ahead},
                   {"samples", 0, GK_REPLAY_SAMPLES_MAX, &samples},
                   {"jobs", 1, JOBS_MAX, &jobs}};
    if (budget_text && gk_options_has(options, "evals")) {
        return gk_fail(err, GK_USAGE, "--budget and --evals say the same; give one of them");
    }
    enum gk_status status = budget_text ? gk_parse_budget(budget_text, &budget, err) : GK_OK;
    evals = budget.trials;
    for (size_t i = 0; status == GK_OK && i < GK_ARRAY_COUNT(numbers); i++) {
        status = gk_options_int(options, numbers[i].name, numbers[i].min, numbers[i].max,
                                numbers[i].value, err);
    }
    if (status != GK_OK) {
        return status;
    }
    grid->seeds = (uint32_t)seeds;
    grid->seed = (uint64_t)seed;
    grid->evals = (uint32_t)evals;
    grid->credit = (uint32_t)credit;
    grid->ahead = (uint32_t)ahead;
    grid->samples = (uint32_t)samples;
    grid->jobs = (uint32_t)jobs;
    grid->score = !gk_options_has(&cli->options, "no-score");
    grid->budget_ns = (double)budget.seconds * 1e9;
    for (uint32_t part = 1; budget.seconds && part < 16; part *= 2) {
        grid->columns[grid->column_count++] = part;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(usual) && usual[i] < grid->evals; i++) {
        grid->columns[grid->column_count++] = usual[i];
    }
    grid->columns[grid->column_count++] = budget.seconds ? 16 : grid->evals;
    return GK_OK;
}

static enum gk_status add_space(struct replay_grid *grid, const char *path, struct gk_err *err)
{
    if (grid->space_count == REPLAY_SPACES_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %u files", REPLAY_SPACES_MAX);
    }
    struct replay_space *space = &grid->spaces[grid->space_count++];
    const char *slash = strrchr(path, '/');
    space->path = path;
    space->name = slash && slash[1] ? slash + 1 : path;
    enum gk_status status = replay_load(path, NULL, &space->recording, err);
    if (status == GK_OK) {
        status = gk_replay_baseline_create(space->recording, &space->baseline, err);
    }
    return status;
}

static enum gk_status read_spaces(const struct gk_cli *cli, struct replay_grid *grid,
                                  struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; status == GK_OK && i < cli->options.operand_count; i++) {
        status = add_space(grid, cli->options.operands[i], err);
    }
    for (uint32_t i = 0; status == GK_OK && gk_options_at(&cli->options, "space", i); i++) {
        status = add_space(grid, gk_options_at(&cli->options, "space", i), err);
    }
    if (status == GK_OK && !grid->space_count) {
        status = gk_fail(err, GK_USAGE, "a recorded space is missing: gktune replay FILE..");
    }
    return status;
}

/* A file that is judged does not warm itself: the others do. */
static enum gk_status warm_one(const struct gk_cli *cli, struct replay_space *space,
                               struct gk_recording *const *all, uint32_t count, struct gk_err *err)
{
    struct gk_recording *others[REPLAY_SPACES_MAX];
    uint32_t other_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(gk_options_at(&cli->options, "warm", i), space->path) != 0) {
            others[other_count++] = all[i];
        }
    }
    return replay_warm(space, others, other_count, err);
}

static enum gk_status warm_spaces(const struct gk_cli *cli, struct replay_grid *grid,
                                  struct gk_err *err)
{
    struct gk_recording *all[REPLAY_SPACES_MAX] = {NULL};
    enum gk_status status = GK_OK;
    uint32_t count = 0;
    const char *path;
    while (status == GK_OK && (path = gk_options_at(&cli->options, "warm", count))) {
        status = count == REPLAY_SPACES_MAX
                     ? gk_fail(err, GK_LIMIT, "--warm: more than %u files", REPLAY_SPACES_MAX)
                     : replay_load(path, NULL, &all[count], err);
        count += status == GK_OK;
    }
    for (uint32_t i = 0; status == GK_OK && count && i < grid->space_count; i++) {
        status = warm_one(cli, &grid->spaces[i], all, count, err);
    }
    for (uint32_t i = 0; i < count; i++) {
        gk_recording_destroy(all[i]);
    }
    return status;
}

static enum gk_status print_all(struct gk_cli *cli, const struct replay_grid *grid,
                                struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (cli->json) {
        struct gk_json *json = NULL;
        status = replay_json(grid, &json, err);
        if (status == GK_OK) {
            status = gk_print_json(cli, json, err);
        }
        gk_json_free(json);
        return status;
    }
    struct gk_buf out = {0};
    for (uint32_t i = 0; status == GK_OK && i < grid->space_count; i++) {
        replay_print_file(&grid->spaces[i], &out);
        status = replay_print_space(grid, i, &out, err);
    }
    if (status == GK_OK) {
        status = replay_print_means(grid, &out, err);
    }
    if (status == GK_OK) {
        status = gk_buf_status(&out, err);
    }
    if (status == GK_OK) {
        (void)fputs(gk_buf_text(&out), stdout);
    }
    gk_buf_fini(&out);
    return status;
}

/* A line for each file that keeps the rules, else all that breaks them in one error. */
static enum gk_status check_file(const char *path, struct gk_buf *out, struct gk_err *err)
{
    struct gk_recording *recording = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = replay_load(path, &diag, &recording, err);
    if (status == GK_OK) {
        gk_buf_printf(out, "%s: %s, %u configs, %u with a time, %u mistakes\n", path,
                      recording->format == GK_REPLAY_T4 ? "T4" : "cache of Kernel Tuner",
                      recording->count, recording->ok_count, diag.count);
        for (uint32_t i = 0; i < diag.kept; i++) {
            gk_buf_puts(out, "  ");
            gk_put_plain(diag.texts[i], false, out);
            gk_buf_puts(out, "\n");
        }
        if (diag.count > diag.kept) {
            gk_buf_printf(out, "  and %u more\n", diag.count - diag.kept);
        }
        status =
            diag.count ? gk_fail(err, GK_INPUT, "%s breaks the rules of its format", path) : GK_OK;
    }
    gk_diag_fini(&diag);
    gk_recording_destroy(recording);
    return status;
}

/* All files are looked at; the status is the first bad one's. */
static enum gk_status check_files(const struct gk_cli *cli, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_buf out = {0};
    const struct gk_options *options = &cli->options;
    for (uint32_t i = 0; i < options->operand_count; i++) {
        struct gk_err one = {0};
        if (check_file(options->operands[i], &out, &one) != GK_OK && status == GK_OK) {
            status = gk_fail(err, one.status, "%s", one.text);
        }
    }
    (void)fputs(gk_buf_text(&out), stdout);
    gk_buf_fini(&out);
    return status;
}

static enum gk_status draw(const struct replay_grid *grid, const char *path, struct gk_err *err)
{
    struct gk_buf svg = {0};
    enum gk_status status = replay_svg(grid, &svg, err);
    if (status == GK_OK) {
        status = gk_file_store(path, gk_buf_text(&svg), svg.size, err);
    }
    gk_buf_fini(&svg);
    return status;
}

enum gk_status gk_cmd_replay(struct gk_cli *cli, struct gk_err *err)
{
    if (gk_options_has(&cli->options, "check")) {
        return check_files(cli, err);
    }
    struct replay_grid *grid = calloc(1, sizeof *grid);
    if (!grid) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    grid->cli = cli;
    enum gk_status status = read_strategies(cli, grid, err);
    if (status == GK_OK) {
        status = read_numbers(cli, grid, err);
    }
    if (status == GK_OK) {
        status = read_spaces(cli, grid, err);
    }
    if (status == GK_OK) {
        status = warm_spaces(cli, grid, err);
    }
    if (status == GK_OK) {
        status = replay_grid_run(grid, err);
    }
    if (status == GK_OK && gk_options_has(&cli->options, "svg")) {
        status = draw(grid, gk_options_get(&cli->options, "svg"), err);
    }
    if (status == GK_OK) {
        status = print_all(cli, grid, err);
    }
    replay_grid_fini(grid);
    free(grid);
    return status;
}
