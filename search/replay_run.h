/*
 * One run of a strategy over a recorded space, and what many runs are worth.
 *
 * The device of a run is the recording: an ask is answered with the config's recorded time or some
 * of its recorded samples, and costs what it cost. One config runs after another, as they were
 * recorded; a batch is told when all of it was measured, in the order of its asks, and batches
 * asked ahead wait for their turn. A strategy that asks for an index outside of the space or for
 * one twice is a bug and ends the run.
 *
 * Pure: everything follows from the recording, the strategy and the plan.
 */
#ifndef GK_SEARCH_REPLAY_RUN_H
#define GK_SEARCH_REPLAY_RUN_H

#include "search/replay.h"
#include "search/strategy.h"

#define GK_REPLAY_CREDIT_MAX 4096u
#define GK_REPLAY_AHEAD_MAX  16u

struct gk_replay_plan {
    uint64_t seed;
    uint32_t evals;   /* evaluations at least; not 0: also the budget that the strategy is told */
    double time_ns;   /* simulated time at least */
    double budget_ns; /* budget of time that the strategy is told; 0: none */
    uint32_t credit;  /* configs asked for at once; 1 and more */
    uint32_t ahead;   /* further batches asked for before one is told, as for a GPU's compilers */
    uint32_t samples; /* 0: the recorded time is told; else the median of so many recorded samples,
                         drawn for each seed and config */
    const uint32_t *hints;
    uint32_t hint_count;
};

/* The best changed: after so many evaluations and so much simulated time. */
struct gk_replay_step {
    uint32_t evals;
    double elapsed_ns;
    double best_ns; /* recorded time of the config that looks best to who was told */
};

struct gk_replay_trace {
    struct gk_replay_step *steps;
    uint32_t count, capacity;
    uint32_t evals;    /* the run ended after */
    double elapsed_ns; /* and so much time */
    uint32_t failed;   /* evaluations without a time */
};

void gk_replay_trace_fini(struct gk_replay_trace *trace);

/* Runs until the plan is met, the space is used up, or nothing better can come. GK_INTERNAL: the
 * strategy broke its contract; other errors are the strategy's. */
enum gk_status gk_replay_run(const struct gk_recording *recording,
                             const struct gk_strategy_ops *ops, const struct gk_replay_plan *plan,
                             struct gk_replay_trace *trace_out, struct gk_err *err);

/* ------------------------------------------------------------------ what it is worth */

/* Random search without replacement, computed and not simulated. Before the first config with a
 * time is found, the slowest recorded time stands for the best, here and in scores. */
struct gk_replay_baseline {
    uint32_t count;    /* rows */
    uint32_t ok_count; /* of sorted_ns */
    double *sorted_ns; /* times of the ok rows, rising */
    double best_ns, median_ns, worst_ns;
    double mean_cost_ns;   /* of one evaluation */
    double cutoff_ns;      /* 95 % of the way from median to best */
    uint32_t cutoff_evals; /* random search is expected to be there */
    double cutoff_time_ns; /* cutoff_evals at the mean cost: scores are integrated to here */
    double *expected_ns;   /* after 1 .. cutoff_evals + 1 evaluations */
};

enum gk_status gk_replay_baseline_create(const struct gk_recording *recording,
                                         struct gk_replay_baseline **baseline_out,
                                         struct gk_err *err);
void gk_replay_baseline_destroy(struct gk_replay_baseline *baseline);
/* Expected best time after n evaluations, 1 <= n; exact. */
double gk_replay_expected_ns(const struct gk_replay_baseline *baseline, uint32_t n);
/* Expected fraction of the optimum, best_ns / (best time found); 0 while nothing is found. */
double gk_replay_expected_fraction(const struct gk_replay_baseline *baseline, uint32_t n);

struct gk_replay_stats { /* over the runs of one strategy */
    double mean, sd, p10, p90;
};

/* Fraction of the optimum after so many evaluations, or so much simulated time. */
enum gk_status gk_replay_at_evals(const struct gk_replay_baseline *baseline,
                                  const struct gk_replay_trace *traces, uint32_t count,
                                  uint32_t evals, struct gk_replay_stats *stats_out,
                                  struct gk_err *err);
enum gk_status gk_replay_at_time(const struct gk_replay_baseline *baseline,
                                 const struct gk_replay_trace *traces, uint32_t count,
                                 double time_ns, struct gk_replay_stats *stats_out,
                                 struct gk_err *err);
/* The methodology's score: 0 is random search's expectation, 1 the optimum; at each moment the
 * share of the way from the first to the second that the run has gone, averaged from the time of
 * one mean evaluation to cutoff_time_ns. Can be negative. The mean over the runs is the score. */
enum gk_status gk_replay_score(const struct gk_replay_baseline *baseline,
                               const struct gk_replay_trace *traces, uint32_t count,
                               struct gk_replay_stats *stats_out, struct gk_err *err);

#endif
