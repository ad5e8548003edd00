/*
 * Ageing: a job that waits for its turn rises, so that a stream of more urgent ones cannot starve
 * it.
 *
 * A minute of waiting is worth one point of priority. 201 points are the most: they lift the lowest
 * priority (-100) over a job of the highest (100) that came just now, so after 3 h 21 min of
 * waiting every job is served, and nothing counts beyond any number. Each lease spends a minute of
 * what was waited for; so a job that got to the top does not push the others aside, but gets its
 * lease a minute for as long as it has to wait beside them. Jobs of one priority keep their order
 * of age, the younger with a lease a minute. All of this is among the jobs of one share:
 * core_share.c says whose turn it is among several.
 *
 * A job waits while it could use a lease and gets none: not while it is paused, while its devices
 * have never been seen, or while all it has is out. The monotonic clock counts, looked at once a
 * second; what was waited for before a restart is forgotten.
 */
#include "daemon/core_internal.h"

#define LOOK_NS     SECOND_NS
#define LOOK_MAX_NS (2 * SECOND_NS) /* time in which this process did not run is no waiting */

static bool before(const struct job *a, const struct job *b)
{
    return a->effective != b->effective ? a->effective > b->effective : a->id < b->id;
}

void jobs_sort(struct gk_core *core)
{
    for (uint32_t i = 1; i < core->job_count; i++) {
        struct job *job = core->jobs[i];
        uint32_t at = i;
        for (; at > 0 && before(job, core->jobs[at - 1]); at--) {
            core->jobs[at] = core->jobs[at - 1];
        }
        core->jobs[at] = job;
    }
}

static bool job_waits(const struct gk_core *core, struct job *job)
{
    for (uint32_t t = 0; job_runs(core, job) && t < job->task_count; t++) {
        struct task *task = &job->tasks[t];
        if ((task->state == TASK_SEARCHING && (!task->search || task_proposed(task))) ||
            (task->state == TASK_FINAL && task->leases == 0)) {
            return true;
        }
    }
    return false;
}

static void age(struct job *job)
{
    uint64_t most_ns = AGE_POINTS_MAX * AGE_POINT_NS;
    job->waited_ns = job->waited_ns < most_ns ? job->waited_ns : most_ns;
    job->effective = job->priority + (int64_t)(job->waited_ns / AGE_POINT_NS);
}

void ages_step(struct gk_core *core)
{
    uint64_t passed_ns = core->now_ns - core->aged_ns;
    if (passed_ns < LOOK_NS) {
        return;
    }
    passed_ns = passed_ns < LOOK_MAX_NS ? passed_ns : LOOK_MAX_NS;
    core->aged_ns = core->now_ns;
    for (uint32_t i = 0; i < core->job_count; i++) {
        struct job *job = core->jobs[i];
        bool waits = job_waits(core, job);
        job->ready_ns = !waits ? 0 : job->ready_ns ? job->ready_ns : core->now_ns;
        job->waited_ns += waits && !job->served ? passed_ns : 0;
        job->served = false;
        job->share->waits |= waits;
        age(job);
    }
    shares_age(core, passed_ns);
    jobs_sort(core);
}

void age_served(struct gk_core *core, struct job *job)
{
    int64_t was = job->effective;
    job->served = true;
    share_served(core, job->share);
    job->ready_ns = job->ready_ns ? core->now_ns : 0;
    job->waited_ns -= job->waited_ns < AGE_POINT_NS ? job->waited_ns : AGE_POINT_NS;
    age(job);
    if (job->effective != was) {
        jobs_sort(core);
    }
}

uint64_t oldest_ready_ns(const struct gk_core *core)
{
    uint64_t oldest = 0;
    for (uint32_t i = 0; i < core->job_count; i++) {
        uint64_t since = core->jobs[i]->ready_ns;
        if (since != 0 && core->now_ns - since > oldest) {
            oldest = core->now_ns - since;
        }
    }
    return oldest;
}
