/*
 * Shares: whoever submits much does not push others aside.
 *
 * A share is all open jobs of one key at one priority (of the local socket, which has no keys, the
 * jobs of everybody). A device that is free takes from the share whose turn it is: by priority with
 * what waiting added, and among equals from the one with the fewest leases out, then from the one
 * that had none for longest. So two keys of one priority have half of the devices each, however
 * many jobs they have; and within a share jobs have their turns by age (core_age.c). What waiting
 * adds is counted for the share as it is for a job: a minute a point, spent by leases; thousands of
 * jobs of one key wait no more than one does.
 *
 * Searches that are open at a time are few. A key that has none may open one where others have
 * taken all the places, as long as there is memory for it.
 */
#include "daemon/core_internal.h"

#include <stdio.h>

static int64_t score_of(const struct share *share)
{
    return share->priority + (int64_t)(share->waited_ns / AGE_POINT_NS);
}

enum gk_status share_join(struct gk_core *core, struct job *job, const char *key,
                          struct gk_err *err)
{
    for (uint32_t i = 0; i < core->share_count && !job->share; i++) {
        struct share *share = core->shares[i];
        if (share->priority == job->priority && strcmp(share->key, key) == 0) {
            job->share = share;
        }
    }
    if (!job->share) {
        struct share **shares =
            realloc(core->shares, (core->share_count + 1) * sizeof(struct share *));
        core->shares = shares ? shares : core->shares;
        struct share *share = shares ? calloc(1, sizeof *share) : NULL;
        if (!share) {
            return gk_fail(err, GK_NOMEM, "out of memory for a share");
        }
        share->priority = job->priority;
        (void)snprintf(share->key, sizeof share->key, "%s", key);
        core->shares[core->share_count++] = share;
        job->share = share;
    }
    job->share->jobs++;
    return GK_OK;
}

void share_leave(struct gk_core *core, struct job *job)
{
    struct share *share = job->share;
    job->share = NULL;
    if (!share || --share->jobs > 0) {
        return;
    }
    for (uint32_t i = 0; i < core->share_count; i++) {
        if (core->shares[i] == share) {
            core->shares[i] = core->shares[--core->share_count];
        }
    }
    free(share);
}

uint32_t share_jobs(const struct gk_core *core, const char *key)
{
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < core->share_count; i++) {
        jobs += strcmp(core->shares[i]->key, key) == 0 ? core->shares[i]->jobs : 0;
    }
    return jobs;
}

struct share *share_next(struct gk_core *core, uint64_t pass)
{
    struct share *best = NULL;
    for (uint32_t i = 0; i < core->share_count; i++) {
        struct share *share = core->shares[i];
        if (share->pass == pass) {
            continue;
        }
        int64_t ahead = best ? score_of(share) - score_of(best) : 1;
        if (ahead > 0 || (ahead == 0 && share->leases < best->leases) ||
            (ahead == 0 && share->leases == best->leases && share->turn < best->turn)) {
            best = share;
        }
    }
    if (best) {
        best->pass = pass;
    }
    return best;
}

void shares_age(struct gk_core *core, uint64_t passed_ns)
{
    const uint64_t most_ns = AGE_POINTS_MAX * AGE_POINT_NS;
    for (uint32_t i = 0; i < core->share_count; i++) {
        struct share *share = core->shares[i];
        share->waited_ns += share->waits && !share->served ? passed_ns : 0;
        share->waited_ns = share->waited_ns < most_ns ? share->waited_ns : most_ns;
        share->waits = share->served = false;
    }
}

void share_served(struct gk_core *core, struct share *share)
{
    share->served = true;
    share->turn = ++core->share_turns;
    share->waited_ns -= share->waited_ns < AGE_POINT_NS ? share->waited_ns : AGE_POINT_NS;
}

bool share_has_none_open(const struct gk_core *core, const struct share *share)
{
    for (uint32_t i = 0; i < core->share_count; i++) {
        if (core->shares[i]->open_tasks > 0 && strcmp(core->shares[i]->key, share->key) == 0) {
            return false;
        }
    }
    return true;
}
