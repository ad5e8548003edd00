/*
 * Progress of a job on stderr: one live line on a terminal, plain lines now and then elsewhere.
 */
#ifndef GK_CLI_PROGRESS_H
#define GK_CLI_PROGRESS_H

#include "cli/command.h"

struct gk_progress {
    const struct gk_cli *cli;
    uint64_t start_ns, last_line_ns;
    int64_t first_verified; /* when the command began: of an earlier run that is continued */
    bool begun, line_open;  /* a live line stands on the terminal */
    char last[256];         /* the last plain line: it is not said twice */
};

struct gk_progress_state {
    int64_t done, total; /* trials; total 0: unknown */
    int64_t verified, failed;
    double verified_per_s; /* of the job, by what is new in this store; 0: not known yet */
    int64_t tasks, tasks_done;
    double best_ns;    /* of the problem that changed last; 0 */
    const char *phase; /* "search", "final round" */
};

void gk_progress_init(struct gk_progress *progress, const struct gk_cli *cli);
void gk_progress_show(struct gk_progress *progress, const struct gk_progress_state *state);
/* A message between progress: the live line makes room. */
void gk_progress_note(struct gk_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void gk_progress_end(struct gk_progress *progress);

#endif
