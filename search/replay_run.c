/* One run over a recorded space. See replay_run.h. */
#include "search/replay_run.h"

#include <stdlib.h>
#include <string.h>

#include "search/judge.h"

struct batch {
    uint32_t *indices; /* credit */
    uint32_t count;
};

struct run {
    const struct gk_recording *recording;
    const struct gk_strategy_ops *ops;
    const struct gk_replay_plan *plan;
    struct gk_strategy *strategy;
    uint8_t *asked; /* one bit a row */
    double *drawn;  /* samples of one evaluation */
    struct gk_tell *tells;
    uint32_t *indices;
    struct batch batches[GK_REPLAY_AHEAD_MAX + 1]; /* a ring of ahead + 1 */
    uint32_t next, waiting;
    bool used_up; /* the strategy has nothing more to ask */
    bool any;
    double told_best_ns;
    struct gk_replay_trace trace;
};

void gk_replay_trace_fini(struct gk_replay_trace *trace)
{
    free(trace->steps);
    memset(trace, 0, sizeof *trace);
}

/* The time that is told: recorded, or the median of samples drawn without replacement. A draw
 * depends on seed and config alone, so every strategy of a seed meets the same luck. */
static double told_time(struct run *run, uint32_t index, uint32_t *samples_out)
{
    const struct gk_replay_row *row = &run->recording->rows[index];
    const double *samples = run->recording->samples_ns + row->sample_first;
    uint32_t count = run->plan->samples;
    *samples_out = row->sample_count;
    if (!count || !row->sample_count) {
        return row->time_ns;
    }
    struct gk_prng prng;
    gk_prng_init(&prng, run->plan->seed, (UINT64_C(1) << 40) + index);
    count = count < row->sample_count ? count : row->sample_count;
    *samples_out = count;
    memcpy(run->drawn, samples, row->sample_count * sizeof samples[0]);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = i + (uint32_t)gk_prng_below(&prng, row->sample_count - i);
        double kept = run->drawn[i];
        run->drawn[i] = run->drawn[other];
        run->drawn[other] = kept;
    }
    return gk_median(run->drawn, count);
}

static enum gk_status add_step(struct gk_replay_trace *trace, double best_ns, struct gk_err *err)
{
    if (trace->count == trace->capacity) {
        uint32_t capacity = trace->capacity * 2 + 16;
        struct gk_replay_step *steps = realloc(trace->steps, capacity * sizeof steps[0]);
        if (!steps) {
            return gk_fail(err, GK_NOMEM, "no memory for a curve");
        }
        trace->steps = steps;
        trace->capacity = capacity;
    }
    trace->steps[trace->count++] =
        (struct gk_replay_step){trace->evals, trace->elapsed_ns, best_ns};
    return GK_OK;
}

static enum gk_status evaluate(struct run *run, uint32_t index, struct gk_tell *tell_out,
                               struct gk_err *err)
{
    const struct gk_recording *recording = run->recording;
    const struct gk_replay_row *row = &recording->rows[index];
    struct gk_tell tell = {
        .index = index, .ok = row->outcome == GK_REPLAY_OK, .cost_ns = gk_replay_cost_ns(row)};
    enum gk_status status = GK_OK;
    tell.time_ns = tell.ok ? told_time(run, index, &tell.samples) : 0;
    run->trace.evals++;
    run->trace.elapsed_ns += tell.cost_ns;
    run->trace.failed += !tell.ok;
    if (tell.ok && (!run->any || tell.time_ns < run->told_best_ns)) {
        run->any = true;
        run->told_best_ns = tell.time_ns;
        status = add_step(&run->trace, row->time_ns, err);
    }
    *tell_out = tell;
    return status;
}

static enum gk_status check_ask(struct run *run, uint32_t index, struct gk_err *err)
{
    if (index >= run->recording->count) {
        return gk_fail(err, GK_INTERNAL, "strategy %s asked for config %u of %u", run->ops->name,
                       index, run->recording->count);
    }
    if (run->asked[index / 8] >> index % 8 & 1) {
        return gk_fail(err, GK_INTERNAL, "strategy %s asked twice for config %u", run->ops->name,
                       index);
    }
    run->asked[index / 8] = (uint8_t)(run->asked[index / 8] | 1u << index % 8);
    return GK_OK;
}

static bool is_met(const struct run *run)
{
    const struct gk_replay_trace *trace = &run->trace;
    if (!run->plan->samples && run->any && run->told_best_ns <= run->recording->best_ns) {
        return true; /* the rest of the curve is flat */
    }
    return trace->evals >= run->plan->evals && trace->elapsed_ns >= run->plan->time_ns;
}

/* Asks until `ahead` batches wait behind the one that runs next. */
static enum gk_status ask_ahead(struct run *run, struct gk_err *err)
{
    uint32_t credit = run->plan->credit, most = run->plan->ahead + 1;
    while (!run->used_up && run->waiting < most) {
        struct batch *batch = &run->batches[(run->next + run->waiting) % most];
        enum gk_status status =
            run->ops->ask(run->strategy, credit, batch->indices, &batch->count, err);
        if (status == GK_END || (status == GK_OK && !batch->count)) {
            run->used_up = true;
            return GK_OK;
        }
        for (uint32_t i = 0; status == GK_OK && i < batch->count; i++) {
            status = check_ask(run, batch->indices[i], err);
        }
        if (status != GK_OK) {
            return status;
        }
        run->waiting++;
    }
    return GK_OK;
}

/* Measures the batch that waits longest, then tells it. */
static enum gk_status run_batch(struct run *run, struct gk_err *err)
{
    struct batch *batch = &run->batches[run->next];
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; status == GK_OK && i < batch->count; i++) {
        status = evaluate(run, batch->indices[i], &run->tells[i], err);
    }
    for (uint32_t i = 0; status == GK_OK && i < batch->count; i++) {
        run->ops->tell(run->strategy, &run->tells[i]);
    }
    run->next = (run->next + 1) % (run->plan->ahead + 1);
    run->waiting--;
    return status;
}

static enum gk_status run_init(struct run *run, struct gk_err *err)
{
    const struct gk_replay_plan *plan = run->plan;
    struct gk_strategy_setup setup = {.space = run->recording->space,
                                      .seed = plan->seed,
                                      .budget_trials = plan->evals,
                                      .budget_ns = plan->budget_ns,
                                      .hints = plan->hints,
                                      .hint_count = plan->hint_count};
    if (!plan->credit || plan->credit > GK_REPLAY_CREDIT_MAX || plan->ahead > GK_REPLAY_AHEAD_MAX) {
        return gk_fail(err, GK_INPUT, "credit %u, %u ahead: allowed are 1 to %u and 0 to %u",
                       plan->credit, plan->ahead, GK_REPLAY_CREDIT_MAX, GK_REPLAY_AHEAD_MAX);
    }
    run->asked = calloc(run->recording->count / 8 + 1, 1);
    run->drawn = calloc(GK_REPLAY_SAMPLES_MAX, sizeof run->drawn[0]);
    run->tells = calloc(plan->credit, sizeof run->tells[0]);
    run->indices = calloc((size_t)(plan->ahead + 1) * plan->credit, sizeof run->indices[0]);
    if (!run->asked || !run->drawn || !run->tells || !run->indices) {
        return gk_fail(err, GK_NOMEM, "no memory for a run");
    }
    for (uint32_t i = 0; i <= plan->ahead; i++) {
        run->batches[i].indices = run->indices + (size_t)i * plan->credit;
    }
    return run->ops->create(&setup, &run->strategy, err);
}

enum gk_status gk_replay_run(const struct gk_recording *recording,
                             const struct gk_strategy_ops *ops, const struct gk_replay_plan *plan,
                             struct gk_replay_trace *trace_out, struct gk_err *err)
{
    struct run run = {.recording = recording, .ops = ops, .plan = plan};
    enum gk_status status = run_init(&run, err);
    while (status == GK_OK && !is_met(&run)) {
        status = ask_ahead(&run, err);
        if (status != GK_OK || !run.waiting) {
            break;
        }
        status = run_batch(&run, err);
    }
    if (run.strategy) {
        ops->destroy(run.strategy);
    }
    free(run.asked);
    free(run.drawn);
    free(run.tells);
    free(run.indices);
    if (status != GK_OK) {
        gk_replay_trace_fini(&run.trace);
        return status;
    }
    *trace_out = run.trace;
    return GK_OK;
}
