/*
 * gktune replay: strategies over recorded spaces, many seeds at once.
 *
 * The parts: files into recordings, a grid of runs shared by threads, what is printed, the drawing.
 * Results do not depend on the number of threads: each run has its place in the grid.
 */
#ifndef GK_CLI_REPLAY_GRID_H
#define GK_CLI_REPLAY_GRID_H

#include "cli/command.h"
#include "search/replay_run.h"

#define REPLAY_SPACES_MAX     64u
#define REPLAY_STRATEGIES_MAX 32u
#define REPLAY_COLUMNS_MAX    8u
#define REPLAY_WARM_MAX       4u /* configs that one recording gives as hints */

struct replay_space {
    const char *path; /* borrowed */
    const char *name; /* its last part */
    struct gk_recording *recording;
    struct gk_replay_baseline *baseline;
    uint32_t *hints; /* indices of this space, best of the others' first */
    uint32_t hint_count;
};

struct replay_grid {
    const struct gk_cli *cli; /* of the terminal that progress is shown on */
    struct replay_space spaces[REPLAY_SPACES_MAX];
    uint32_t space_count;
    const struct gk_strategy_ops *strategies[REPLAY_STRATEGIES_MAX];
    uint32_t strategy_count;
    uint32_t seeds;
    uint64_t seed; /* of the first run */
    uint32_t evals, credit, ahead, samples, jobs;
    bool score;                           /* run on to where scores end */
    double budget_ns;                     /* instead of evals, which is 0 then */
    uint32_t columns[REPLAY_COLUMNS_MAX]; /* evaluations, or 1/16 of the budget of time */
    uint32_t column_count;
    struct gk_replay_trace *traces; /* space, then strategy, then seed */
};

void replay_grid_fini(struct replay_grid *grid);
/* Where a table looks: so many evaluations of the space, and what they cost on average; of a budget
 * of time, a part of it and how many evaluations that is on average. */
uint32_t replay_column_evals(const struct replay_grid *grid, uint32_t space, uint32_t column);
double replay_column_ns(const struct replay_grid *grid, uint32_t space, uint32_t column);

/* Reads a regular file, in pieces. check may be NULL; else it gets what breaks the format's rules.
 */
enum gk_status replay_load(const char *path, struct gk_diag *check,
                           struct gk_recording **recording_out, struct gk_err *err);
/* Hints of a space from the best configs of other recordings. */
enum gk_status replay_warm(struct replay_space *space, struct gk_recording *const *others,
                           uint32_t count, struct gk_err *err);
/* All runs. A run that fails ends the grid; the error of the first in order is given. */
enum gk_status replay_grid_run(struct replay_grid *grid, struct gk_err *err);
const struct gk_replay_trace *replay_grid_traces(const struct replay_grid *grid, uint32_t space,
                                                 uint32_t strategy);

/* What was read, what was dropped. */
void replay_print_file(const struct replay_space *space, struct gk_buf *out);
enum gk_status replay_print_space(const struct replay_grid *grid, uint32_t space,
                                  struct gk_buf *out, struct gk_err *err);
/* Mean score of each strategy over all spaces. */
enum gk_status replay_print_means(const struct replay_grid *grid, struct gk_buf *out,
                                  struct gk_err *err);
/* The curves, appended. */
enum gk_status replay_svg(const struct replay_grid *grid, struct gk_buf *out, struct gk_err *err);
enum gk_status replay_json(const struct replay_grid *grid, struct gk_json **json_out,
                           struct gk_err *err);

#endif
