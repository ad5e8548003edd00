/*
 * simulate [--seed N | --seeds A..B] [--all-seeds A..B] [--events N] [--canary NAME] [--twice]
 *          [--verbose]
 *
 * simulate --points           the store alone, a fault at each operation of its disk (sim_points.c)
 *
 * --all-seeds counts instead of --seeds where GKTUNE_TEST_ALL=1 is in the environment.
 *
 * Without a canary every seed has to pass; the first that does not is printed with the one line
 * that plays it again. With one, a seed has to fail: a check that finds nothing is worse than none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "tests/sim/sim.h"

static const char *const CANARIES[] = {"none",         "ack-first",   "no-sync",      "stale-token",
                                       "forget-lease", "count-twice", "send-unsynced"};

struct plan {
    uint64_t first, last, events;
    enum canary canary;
    bool twice, verbose;
};

static int usage(const char *why)
{
    (void)fprintf(
        stderr,
        "sim: %s\nusage: simulate [--seed N | --seeds A..B] [--all-seeds A..B] [--events N]"
        " [--twice] [--verbose] [--canary "
        "ack-first|no-sync|stale-token|forget-lease|count-twice|send-unsynced]\n",
        why);
    return 2;
}

static bool number(const char *text, char **end, uint64_t *out)
{
    *out = strtoull(text, end, 10);
    return *end != text;
}

static bool read_option(struct plan *plan, const char *name, const char *value)
{
    char *end = NULL;
    if (strcmp(name, "--seed") == 0) {
        bool ok = number(value, &end, &plan->first) && !*end;
        plan->last = plan->first;
        return ok;
    }
    const char *all = getenv("GKTUNE_TEST_ALL");
    bool is_all = strcmp(name, "--all-seeds") == 0;
    if (is_all && (!all || strcmp(all, "1") != 0)) {
        return true;
    }
    if (is_all || strcmp(name, "--seeds") == 0) {
        return number(value, &end, &plan->first) && strncmp(end, "..", 2) == 0 &&
               number(end + 2, &end, &plan->last) && !*end && plan->first <= plan->last;
    }
    if (strcmp(name, "--events") == 0) {
        return number(value, &end, &plan->events) && !*end;
    }
    for (size_t i = 1; strcmp(name, "--canary") == 0 && i < GK_ARRAY_COUNT(CANARIES); i++) {
        if (strcmp(CANARIES[i], value) == 0) {
            plan->canary = (enum canary)i;
            return true;
        }
    }
    return false;
}

struct totals {
    uint64_t seeds, messages, results, faults, restarts, jobs;
};

/* False: it failed; then `red` says what. */
static bool run_seed(struct sim *sim, const struct plan *plan, uint64_t seed, struct totals *totals,
                     uint64_t *trace_out, char red[512])
{
    sim_init(sim, seed, plan->events, plan->canary, plan->verbose);
    sim_run(sim);
    *trace_out = sim->trace;
    memcpy(red, sim->red, sizeof sim->red);
    totals->seeds++;
    totals->messages += sim->messages;
    totals->results += sim->results;
    totals->faults += sim->faults;
    totals->restarts += sim->restarts;
    totals->jobs += sim->job_count;
    sim_fini(sim);
    return red[0] == '\0';
}

static int run(struct sim *sim, const struct plan *plan)
{
    struct totals totals = {0};
    char red[512];
    uint64_t trace = 0, again = 0;
    for (uint64_t seed = plan->first; seed <= plan->last; seed++) {
        bool good = run_seed(sim, plan, seed, &totals, &trace, red);
        if (good && plan->twice) {
            good = run_seed(sim, plan, seed, &totals, &again, red) && trace == again;
            if (!red[0] && trace != again) {
                (void)snprintf(red, sizeof red, "the same seed ran otherwise");
            }
        }
        if (good) {
            continue;
        }
        (void)printf("seed %" PRIu64 ": %s\nagain: simulate --seed %" PRIu64 " --events %" PRIu64
                     "%s%s --verbose\n",
                     seed, red, seed, plan->events, plan->canary ? " --canary " : "",
                     plan->canary ? CANARIES[plan->canary] : "");
        return plan->canary ? 0 : 1;
    }
    (void)printf("sim: %" PRIu64 " seeds, %" PRIu64 " jobs, %" PRIu64 " messages, %" PRIu64
                 " results, %" PRIu64 " faults, %" PRIu64 " starts of the daemon: nothing lost\n",
                 totals.seeds, totals.jobs, totals.messages, totals.results, totals.faults,
                 totals.restarts);
    if (plan->canary) {
        (void)printf("canary %s: no seed of %" PRIu64 " to %" PRIu64 " found it\n",
                     CANARIES[plan->canary], plan->first, plan->last);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {.first = 1, .last = 100, .events = 400};
    disk_register();
    if (argc == 2 && strcmp(argv[1], "--points") == 0) {
        return sim_points();
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--twice") == 0 || strcmp(argv[i], "--verbose") == 0) {
            plan.twice = plan.twice || argv[i][2] == 't';
            plan.verbose = plan.verbose || argv[i][2] == 'v';
        } else if (i + 1 >= argc || !read_option(&plan, argv[i], argv[i + 1])) {
            return usage(argv[i]);
        } else {
            i++;
        }
    }
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim) {
        return 2;
    }
    int rc = run(sim, &plan);
    free(sim);
    return rc;
}
