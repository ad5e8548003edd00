/*
 * What a strategy costs the daemon in a large search: over a space of 1,000,000 legal configs,
 * after 10,000 tells, how long an ask for 32 takes; how long the 10,000 take when a job is resumed;
 * how much memory a legal config needs. Prints a table, or the same as JSON lines with --json.
 * --tells N, --ask N and --strategy NAME change what is measured.
 */
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "search/strategy.h"
#include "tests/support/sample_space.h"

#define ASKS      50 /* timed, each followed by its tells */
#define ASK_MAX   1024
#define ASK_GOAL  10e-3 /* seconds, for 32 configs */
#define BYTE_GOAL 200.0

static bool as_json;
static uint32_t tells = 10000, ask = 32;

static double now_s(void)
{
    struct gk_clock clock = gk_clock_real();
    return (double)clock.monotonic_ns(clock.context) * 1e-9;
}

/* What the processor itself was busy for: on a machine that others use too the clock on the wall
 * counts their time as well. */
static double busy_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* fails for no process of its own */
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Bytes that the heap holds: strategies tell nobody what they keep. */
static double heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd);
}

static void row(const char *strategy, const char *what, double value, const char *unit)
{
    if (as_json) {
        printf("{\"bench\":\"%s.%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", strategy, what, value,
               unit);
    } else {
        printf("%-16s %-26s %12.6g %s\n", strategy, what, value, unit);
    }
}

/* Seven parameters and one rule: 2,000,000 points, every second of them legal. */
static void make_space(struct gk_space_def *def)
{
    static const int64_t base[3] = {1, 1, 1};
    static const struct sample_param params[] = {{"A", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"B", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"C", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"D", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"E", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"F", "1 2 3 4 5 6 7 8 9 10"},
                                                 {"G", "0 1"},
                                                 {NULL, NULL}};
    static const struct sample_rule rules[] = {{"parity", "(A + B + C) % 2 == G", true, NULL},
                                               {NULL, NULL, false, NULL}};
    sample_space_add(def, "million", base, params, rules);
}

/* A valley with ripples; one config of eleven fails. */
static struct gk_tell outcome(const struct gk_space *space, uint32_t index)
{
    uint8_t digits[GK_PARAMS_MAX];
    double time = 1e5;
    gk_space_digits(space, index, digits);
    for (uint32_t i = 0; i < 6; i++) {
        double off = digits[i] - (2.0 + i);
        time += 2e3 * off * off + 3e3 * sin(3.0 * digits[i] + i);
    }
    struct gk_tell tell = {.index = index,
                           .ok = (index * 2654435761u >> 16) % 11 != 0,
                           .time_ns = time,
                           .cost_ns = 1e9 + 1e8 * digits[0]};
    tell.time_ns = tell.ok ? tell.time_ns : 0;
    return tell;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Asks for `n` configs `times` times and tells each batch; seconds of each ask in asked_out, by the
 * wall, and in busy_out, of the processor; both may be NULL. */
static enum gk_status go_on(const struct gk_strategy_ops *ops, struct gk_strategy *self,
                            const struct gk_space *space, uint32_t n, uint32_t times,
                            double *asked_out, double *busy_out, struct gk_err *err)
{
    static uint32_t indices[ASK_MAX];
    for (uint32_t i = 0; i < times; i++) {
        uint32_t count = 0;
        double start = now_s(), busy = busy_s();
        enum gk_status status = ops->ask(self, n, indices, &count, err);
        if (asked_out) {
            asked_out[i] = now_s() - start;
            busy_out[i] = busy_s() - busy;
        }
        if (status != GK_OK) {
            return status;
        }
        for (uint32_t k = 0; k < count; k++) {
            struct gk_tell tell = outcome(space, indices[k]);
            ops->tell(self, &tell);
        }
    }
    return GK_OK;
}

static enum gk_status bench(const struct gk_strategy_ops *ops, const struct gk_space *space,
                            struct gk_err *err)
{
    struct gk_strategy_setup setup = {
        .space = space, .seed = 1, .budget_trials = tells + (uint64_t)ASKS * ask};
    struct gk_strategy *self = NULL;
    double asked[ASKS], busy[ASKS], before = heap_bytes(), start = now_s();
    enum gk_status status = ops->create(&setup, &self, err);
    if (status == GK_OK) {
        status = go_on(ops, self, space, ask, (tells + ask - 1) / ask, NULL, NULL, err);
    }
    double rebuilt = now_s() - start;
    if (status == GK_OK) {
        status = go_on(ops, self, space, ask, ASKS, asked, busy, err);
    }
    if (status == GK_OK) {
        double bytes =
            (heap_bytes() - before + (double)gk_space_bytes(space)) / gk_space_count(space);
        qsort(asked, ASKS, sizeof asked[0], compare_doubles);
        qsort(busy, ASKS, sizeof busy[0], compare_doubles);
        row(ops->name, "create, asks and tells", rebuilt, "s");
        row(ops->name, "ask, median", asked[ASKS / 2] * 1e3, "ms");
        row(ops->name, "ask, slowest of 50", asked[ASKS - 1] * 1e3, "ms");
        row(ops->name, "processor, median", busy[ASKS / 2] * 1e3, "ms");
        row(ops->name, "processor, slowest of 50", busy[ASKS - 1] * 1e3, "ms");
        row(ops->name, "bytes a config with space", bytes, "bytes");
        if (asked[ASKS / 2] > ASK_GOAL || bytes > BYTE_GOAL) {
            fprintf(stderr, "%s: over the goal of %g ms or %g bytes\n", ops->name, ASK_GOAL * 1e3,
                    BYTE_GOAL);
        }
    }
    ops->destroy(self);
    return status;
}

static bool read_options(int argc, char **argv, const char **strategy)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--json") == 0) {
            as_json = true;
        } else if (strcmp(argv[i], "--strategy") == 0 && gk_strategy_find(value)) {
            *strategy = argv[++i];
        } else if (strcmp(argv[i], "--tells") == 0 && strtoul(value, NULL, 10) > 0) {
            tells = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--ask") == 0 && strtoul(value, NULL, 10) > 0 &&
                   strtoul(value, NULL, 10) <= ASK_MAX) {
            ask = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else {
            fprintf(
                stderr,
                "bench_ask: '%s'; allowed: --json, --strategy NAME, --tells N, --ask N (at most "
                "%d)\n",
                argv[i], ASK_MAX);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err = {0};
    const char *only = NULL;
    if (!read_options(argc, argv, &only)) {
        return 2;
    }
    make_space(&def);
    enum gk_status status = gk_space_create(&def, &space, &err);
    if (status == GK_OK) {
        row("space", "legal configs", gk_space_count(space), "configs");
        row("space", "bytes a config", (double)gk_space_bytes(space) / gk_space_count(space),
            "bytes");
        row("bench", "tells before", tells, "tells");
        row("bench", "asked at once", ask, "configs");
    }
    for (uint32_t i = 0; status == GK_OK && gk_strategy_at(i); i++) {
        if (!only || strcmp(gk_strategy_at(i)->name, only) == 0) {
            status = bench(gk_strategy_at(i), space, &err);
        }
    }
    if (status != GK_OK) {
        fprintf(stderr, "bench_ask: %s\n", err.text);
    }
    gk_space_destroy(space);
    sample_space_fini(&def);
    return gk_status_exit(status);
}
