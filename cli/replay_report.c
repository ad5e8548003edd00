/* What gktune replay prints. See replay_grid.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/replay_grid.h"
#include "cli/table.h"

static const char *or_unknown(const char *text)
{
    return *text ? text : "unknown";
}

/* "12.5 s", "3.4 min", "2.1 h": simulated time. */
static void long_time(double ns, char out[32])
{
    double seconds = ns * 1e-9;
    if (seconds < 120) {
        (void)snprintf(out, 32, "%.3g s", seconds);
    } else if (seconds < 7200) {
        (void)snprintf(out, 32, "%.3g min", seconds / 60);
    } else {
        (void)snprintf(out, 32, "%.3g h", seconds / 3600);
    }
}

void replay_print_file(const struct replay_space *space, struct gk_buf *out)
{
    const struct gk_recording *recording = space->recording;
    char best[32], cost[32], cutoff[32];
    gk_time_text(recording->best_ns, best);
    long_time(recording->mean_cost_ns, cost);
    long_time(space->baseline->cutoff_time_ns, cutoff);
    gk_put_plain(space->name, false, out);
    gk_buf_puts(out, ": ");
    gk_put_plain(or_unknown(recording->kernel), false, out);
    gk_buf_puts(out, " on ");
    gk_put_plain(or_unknown(recording->device), false, out);
    gk_buf_printf(
        out,
        ": %u configs of %u parameters, %u failed; best %s, a config costs %s; scores end "
        "at %u evaluations, %s\n",
        recording->count, recording->def.trees[0].param_count,
        recording->count - recording->ok_count, best, cost, space->baseline->cutoff_evals, cutoff);
    for (int i = 0; i < GK_REPLAY_DROPS; i++) {
        const struct gk_replay_drop *drop = &recording->drops[i];
        if (drop->count) {
            gk_buf_printf(out,
                          "  dropped: %" PRIu64 " %s; the first in line %" PRIu64 " (byte %" PRIu64
                          ")\n",
                          drop->count, gk_replay_drop_text((enum gk_replay_drop_kind)i),
                          drop->first_line, drop->first_offset);
        }
    }
    for (int i = 0; i < GK_REPLAY_ODDITIES; i++) {
        if (recording->oddities[i]) {
            gk_buf_printf(out, "  odd: %s: %" PRIu64 "\n",
                          gk_replay_oddity_text((enum gk_replay_oddity)i), recording->oddities[i]);
        }
    }
}

static void stats_cell(struct gk_table *table, const struct gk_replay_stats *stats)
{
    gk_table_cell(table, "%.1f +-%.1f", 100 * stats->mean, 100 * stats->sd);
}

static enum gk_status strategy_row(const struct replay_grid *grid, uint32_t number,
                                   uint32_t strategy, bool by_time, struct gk_table *table,
                                   struct gk_err *err)
{
    const struct gk_replay_baseline *baseline = grid->spaces[number].baseline;
    const struct gk_replay_trace *traces = replay_grid_traces(grid, number, strategy);
    struct gk_replay_stats stats;
    enum gk_status status = GK_OK;
    gk_table_cell(table, "  %s", grid->strategies[strategy]->name);
    for (uint32_t i = 0; status == GK_OK && i < grid->column_count; i++) {
        uint32_t evals = replay_column_evals(grid, number, i);
        status = by_time ? gk_replay_at_time(baseline, traces, grid->seeds,
                                             replay_column_ns(grid, number, i), &stats, err)
                         : gk_replay_at_evals(baseline, traces, grid->seeds, evals, &stats, err);
        stats_cell(table, &stats);
    }
    if (status == GK_OK && !by_time && grid->score) {
        status = gk_replay_score(baseline, traces, grid->seeds, &stats, err);
        gk_table_cell(table, "%.3f +-%.3f", stats.mean, stats.sd);
    }
    return status;
}

static enum gk_status print_table(const struct replay_grid *grid, uint32_t number, bool by_time,
                                  struct gk_buf *out, struct gk_err *err)
{
    const struct gk_replay_baseline *baseline = grid->spaces[number].baseline;
    struct gk_buf head = {0};
    struct gk_table table;
    enum gk_status status = GK_OK;
    gk_buf_puts(&head, "  % of best after");
    for (uint32_t i = 0; i < grid->column_count; i++) {
        char time[32];
        long_time(replay_column_ns(grid, number, i), time);
        if (by_time) {
            gk_buf_printf(&head, "|>%s", time);
        } else {
            gk_buf_printf(&head, "|>%u evals", replay_column_evals(grid, number, i));
        }
    }
    gk_buf_puts(&head, !by_time && grid->score ? "|>score" : "");
    gk_table_init(&table, gk_buf_text(&head));
    for (uint32_t i = 0; status == GK_OK && i < grid->strategy_count; i++) {
        status = strategy_row(grid, number, i, by_time, &table, err);
    }
    gk_table_cell(&table, "  random, expected");
    for (uint32_t i = 0; i < grid->column_count; i++) {
        gk_table_cell(
            &table, "%.1f      ",
            100 * gk_replay_expected_fraction(baseline, replay_column_evals(grid, number, i)));
    }
    if (!by_time && grid->score) {
        gk_table_cell(&table, "0        ");
    }
    gk_table_render(&table, out);
    gk_table_fini(&table);
    gk_buf_fini(&head);
    return status;
}

enum gk_status replay_print_space(const struct replay_grid *grid, uint32_t space,
                                  struct gk_buf *out, struct gk_err *err)
{
    enum gk_status status = print_table(grid, space, false, out, err);
    if (status == GK_OK) {
        status = print_table(grid, space, true, out, err);
    }
    gk_buf_puts(out, "\n");
    return status;
}

static enum gk_status mean_score(const struct replay_grid *grid, uint32_t strategy, double *out,
                                 struct gk_err *err)
{
    double sum = 0;
    for (uint32_t i = 0; i < grid->space_count; i++) {
        struct gk_replay_stats stats;
        enum gk_status status =
            gk_replay_score(grid->spaces[i].baseline, replay_grid_traces(grid, i, strategy),
                            grid->seeds, &stats, err);
        if (status != GK_OK) {
            return status;
        }
        sum += stats.mean;
    }
    *out = sum / grid->space_count;
    return GK_OK;
}

enum gk_status replay_print_means(const struct replay_grid *grid, struct gk_buf *out,
                                  struct gk_err *err)
{
    struct gk_table table;
    enum gk_status status = GK_OK;
    if (!grid->score) {
        return GK_OK;
    }
    gk_table_init(&table, "mean over the spaces|>score");
    for (uint32_t i = 0; status == GK_OK && i < grid->strategy_count; i++) {
        double mean = 0;
        status = mean_score(grid, i, &mean, err);
        gk_table_cell(&table, "  %s", grid->strategies[i]->name);
        gk_table_cell(&table, "%.3f", mean);
    }
    gk_table_render(&table, out);
    gk_table_fini(&table);
    return status;
}

/* ------------------------------------------------------------------ JSON */

static struct gk_json *stats_json(const struct gk_replay_stats *stats)
{
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set(json, "mean", gk_json_new_real(stats->mean));
    (void)gk_json_set(json, "sd", gk_json_new_real(stats->sd));
    (void)gk_json_set(json, "p10", gk_json_new_real(stats->p10));
    (void)gk_json_set(json, "p90", gk_json_new_real(stats->p90));
    return json;
}

static enum gk_status points_json(const struct replay_grid *grid, uint32_t space, uint32_t strategy,
                                  struct gk_json *list, struct gk_err *err)
{
    const struct gk_replay_baseline *baseline = grid->spaces[space].baseline;
    const struct gk_replay_trace *traces = replay_grid_traces(grid, space, strategy);
    for (uint32_t i = 0; i < grid->column_count; i++) {
        struct gk_replay_stats by_evals, by_time;
        double seconds = replay_column_ns(grid, space, i) * 1e-9;
        uint32_t evals = replay_column_evals(grid, space, i);
        enum gk_status status =
            gk_replay_at_evals(baseline, traces, grid->seeds, evals, &by_evals, err);
        if (status == GK_OK) {
            status = gk_replay_at_time(baseline, traces, grid->seeds, seconds * 1e9, &by_time, err);
        }
        if (status != GK_OK) {
            return status;
        }
        struct gk_json *point = gk_json_new_object();
        (void)gk_json_set_int(point, "evals", evals);
        (void)gk_json_set(point, "fraction", stats_json(&by_evals));
        (void)gk_json_set(point, "seconds", gk_json_new_real(seconds));
        (void)gk_json_set(point, "fraction_at_seconds", stats_json(&by_time));
        (void)gk_json_push(list, point);
    }
    return GK_OK;
}

static enum gk_status strategies_json(const struct replay_grid *grid, uint32_t space,
                                      struct gk_json *list, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; status == GK_OK && i < grid->strategy_count; i++) {
        struct gk_replay_stats score;
        struct gk_json *one = gk_json_new_object(), *points = gk_json_new_array();
        (void)gk_json_set_string(one, "strategy", grid->strategies[i]->name);
        (void)gk_json_set_int(one, "version", grid->strategies[i]->version);
        status = points_json(grid, space, i, points, err);
        (void)gk_json_set(one, "points", points);
        if (status == GK_OK && grid->score) {
            status = gk_replay_score(grid->spaces[space].baseline,
                                     replay_grid_traces(grid, space, i), grid->seeds, &score, err);
        }
        if (status == GK_OK && grid->score) {
            (void)gk_json_set(one, "score", stats_json(&score));
        }
        (void)gk_json_push(list, one);
    }
    return status;
}

static struct gk_json *file_json(const struct replay_space *space)
{
    const struct gk_recording *recording = space->recording;
    struct gk_json *json = gk_json_new_object(), *drops = gk_json_new_array(),
                   *odd = gk_json_new_array(), *outcomes = gk_json_new_object();
    (void)gk_json_set_string(json, "file", space->path);
    (void)gk_json_set_string(json, "format", recording->format == GK_REPLAY_T4 ? "t4" : "kt");
    (void)gk_json_set_string(json, "device", recording->device);
    (void)gk_json_set_string(json, "kernel", recording->kernel);
    (void)gk_json_set_int(json, "configs", recording->count);
    (void)gk_json_set_int(json, "parameters", recording->def.trees[0].param_count);
    for (int i = 0; i < GK_REPLAY_OUTCOMES; i++) {
        (void)gk_json_set_int(outcomes, gk_replay_outcome_word((enum gk_replay_outcome)i),
                              recording->outcomes[i]);
    }
    (void)gk_json_set(json, "outcomes", outcomes);
    (void)gk_json_set(json, "best_ns", gk_json_new_real(recording->best_ns));
    (void)gk_json_set(json, "median_ns", gk_json_new_real(space->baseline->median_ns));
    (void)gk_json_set(json, "mean_cost_ns", gk_json_new_real(recording->mean_cost_ns));
    (void)gk_json_set_int(json, "cutoff_evals", space->baseline->cutoff_evals);
    (void)gk_json_set(json, "cutoff_ns", gk_json_new_real(space->baseline->cutoff_time_ns));
    for (int i = 0; i < GK_REPLAY_DROPS; i++) {
        if (recording->drops[i].count) {
            struct gk_json *one = gk_json_new_object();
            (void)gk_json_set_string(one, "what", gk_replay_drop_text((enum gk_replay_drop_kind)i));
            (void)gk_json_set_int(one, "count", (int64_t)recording->drops[i].count);
            (void)gk_json_set_int(one, "line", (int64_t)recording->drops[i].first_line);
            (void)gk_json_set_int(one, "offset", (int64_t)recording->drops[i].first_offset);
            (void)gk_json_push(drops, one);
        }
    }
    for (int i = 0; i < GK_REPLAY_ODDITIES; i++) {
        if (recording->oddities[i]) {
            struct gk_json *one = gk_json_new_object();
            (void)gk_json_set_string(one, "what", gk_replay_oddity_text((enum gk_replay_oddity)i));
            (void)gk_json_set_int(one, "count", (int64_t)recording->oddities[i]);
            (void)gk_json_push(odd, one);
        }
    }
    (void)gk_json_set(json, "dropped", drops);
    (void)gk_json_set(json, "odd", odd);
    return json;
}

enum gk_status replay_json(const struct replay_grid *grid, struct gk_json **json_out,
                           struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object(), *spaces = gk_json_new_array(),
                   *means = gk_json_new_array();
    enum gk_status status = GK_OK;
    (void)gk_json_set_int(json, "seeds", grid->seeds);
    (void)gk_json_set_int(json, "seed", (int64_t)grid->seed);
    (void)gk_json_set_int(json, "evals", grid->evals);
    (void)gk_json_set(json, "budget_seconds", gk_json_new_real(grid->budget_ns * 1e-9));
    (void)gk_json_set_int(json, "credit", grid->credit);
    (void)gk_json_set_int(json, "ahead", grid->ahead);
    (void)gk_json_set_int(json, "samples", grid->samples);
    for (uint32_t i = 0; status == GK_OK && i < grid->space_count; i++) {
        const struct gk_replay_baseline *baseline = grid->spaces[i].baseline;
        struct gk_json *one = file_json(&grid->spaces[i]), *strategies = gk_json_new_array(),
                       *expected = gk_json_new_array();
        for (uint32_t k = 0; k < grid->column_count; k++) {
            (void)gk_json_push(expected, gk_json_new_real(gk_replay_expected_fraction(
                                             baseline, replay_column_evals(grid, i, k))));
        }
        (void)gk_json_set(one, "random_expected", expected);
        status = strategies_json(grid, i, strategies, err);
        (void)gk_json_set(one, "strategies", strategies);
        (void)gk_json_push(spaces, one);
    }
    (void)gk_json_set(json, "spaces", spaces);
    for (uint32_t i = 0; status == GK_OK && grid->score && i < grid->strategy_count; i++) {
        double mean = 0;
        struct gk_json *one = gk_json_new_object();
        status = mean_score(grid, i, &mean, err);
        (void)gk_json_set_string(one, "strategy", grid->strategies[i]->name);
        (void)gk_json_set(one, "score", gk_json_new_real(mean));
        (void)gk_json_push(means, one);
    }
    (void)gk_json_set(json, "means", means);
    if (status != GK_OK) {
        gk_json_free(json);
        return status;
    }
    *json_out = json;
    return GK_OK;
}
