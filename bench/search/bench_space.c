/*
 * Speed and memory of spaces and strategies: enumeration of about a million raw points, bytes a
 * config, the cost of find, and of an ask with its tell. Prints a table, or the same as JSON lines
 * with --json.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "search/strategy.h"
#include "tests/support/sample_space.h"

#define REPEATS 5 /* the least of them is shown: the others waited for something */
#define TRIALS  5000

static bool as_json;

static uint64_t now_ns(void)
{
    struct gk_clock clock = gk_clock_real();
    return clock.monotonic_ns(clock.context);
}

static void row(const char *name, double value, const char *unit)
{
    if (as_json) {
        printf("{\"bench\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, value, unit);
    } else {
        printf("%-34s %14.6g %s\n", name, value, unit);
    }
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(now_ns() - start_ns) * 1e-9;
}

static enum gk_status bench_create(const struct gk_space_def *def, struct gk_space **space_out,
                                   struct gk_err *err)
{
    double least = 1e9, tally = 1e9;
    struct gk_space *space = NULL;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t legal, raw, start = now_ns();
        gk_space_destroy(space);
        space = NULL;
        enum gk_status status = gk_space_create(def, &space, err);
        if (status != GK_OK) {
            return status;
        }
        double took = seconds_since(start);
        least = took < least ? took : least;
        start = now_ns();
        status = gk_space_tally(def, &legal, &raw, NULL, 0, NULL, err);
        if (status != GK_OK) {
            gk_space_destroy(space);
            return status;
        }
        took = seconds_since(start);
        tally = took < tally ? took : tally;
    }
    double raw = (double)gk_space_raw_count(space), legal = gk_space_count(space);
    row("space.raw_points", raw, "points");
    row("space.legal_configs", legal, "configs");
    row("space.create", least, "s");
    row("space.create_rate", raw / least, "points/s");
    row("space.tally", tally, "s");
    row("space.bytes_per_config", (double)gk_space_bytes(space) / legal, "bytes");
    *space_out = space;
    return GK_OK;
}

static void bench_find(const struct gk_space *space)
{
    uint64_t start = now_ns();
    uint32_t count = gk_space_count(space), step = count / 50000 + 1, done = 0, sum = 0;
    for (uint32_t i = 0; i < count; i += step, done++) {
        uint8_t digits[GK_PARAMS_MAX];
        uint32_t found = 0;
        gk_space_digits(space, i, digits);
        sum += gk_space_find_digits(space, gk_space_tree_of(space, i), digits, &found);
    }
    row("space.find", seconds_since(start) * 1e9 / done, "ns");
    row("space.found", (double)sum / done, "of 1");
}

static enum gk_status bench_strategy(const struct gk_strategy_ops *ops,
                                     const struct gk_space *space, struct gk_err *err)
{
    struct gk_strategy_setup setup = {.space = space, .seed = 1, .budget_trials = TRIALS};
    struct gk_strategy *self = NULL;
    enum gk_status status = ops->create(&setup, &self, err);
    uint64_t start = now_ns();
    uint32_t done = 0;
    while (status == GK_OK && done < TRIALS) {
        uint32_t indices[16], got = 0;
        status = ops->ask(self, 16, indices, &got, err);
        for (uint32_t i = 0; i < got; i++) {
            struct gk_tell tell = {.index = indices[i],
                                   .ok = indices[i] % 3 != 0,
                                   .time_ns = 1000 + indices[i] % 1009,
                                   .cost_ns = 1};
            ops->tell(self, &tell);
        }
        done += got;
    }
    ops->destroy(self);
    if (status == GK_OK) {
        char name[64];
        snprintf(name, sizeof name, "%s.ask_and_tell", ops->name);
        row(name, seconds_since(start) * 1e9 / done, "ns");
    }
    return status;
}

int main(int argc, char **argv)
{
    static const int64_t base[3] = {4096, 4096, 4096};
    struct gk_space_def def = {0};
    struct gk_space *space = NULL;
    struct gk_err err;
    as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !as_json) {
        fprintf(stderr, "bench_space: unknown option '%s'; allowed: --json\n", argv[1]);
        return 2;
    }
    sample_space_gemm(&def, base);
    enum gk_status status = bench_create(&def, &space, &err);
    if (status == GK_OK) {
        bench_find(space);
    }
    for (uint32_t i = 0; status == GK_OK && gk_strategy_at(i); i++) {
        status = bench_strategy(gk_strategy_at(i), space, &err);
    }
    if (status != GK_OK) {
        fprintf(stderr, "bench_space: %s\n", err.text);
    }
    gk_space_destroy(space);
    sample_space_fini(&def);
    return gk_status_exit(status);
}
