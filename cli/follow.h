/*
 * Following a job to its end: events as they come, a look at its counters about once a second, and
 * a tick for whoever has children to look after. Survives a daemon that is replaced: it watches
 * again, after the last event seen.
 */
#ifndef GK_CLI_FOLLOW_H
#define GK_CLI_FOLLOW_H

#include "cli/client.h"
#include "cli/progress.h"

#define GK_FOLLOW_BESTS 64 /* problems at a time: the daemon works on a few */

struct gk_follow {
    struct gk_client *client;
    int64_t job;
    int64_t after_event;          /* the last one seen; -1 or 0: from the start */
    int64_t budget_trials;        /* of one task, for the total; 0: unknown */
    struct gk_progress *progress; /* NULL: none */
    /* Each may be NULL. */
    enum gk_status (*on_event)(void *context, const struct gk_json *event, struct gk_err *err);
    /* At least four times a second. GK_END stops following without an error. */
    enum gk_status (*on_tick)(void *context, struct gk_err *err);
    void *context;
    struct gk_progress_state state; /* as last seen */
    /* Best times so far, by task; of a task that shares a place with an earlier one, the later. */
    struct {
        int64_t task;
        double ns;
    } bests[GK_FOLLOW_BESTS];
    double best_ns; /* of the task that recorded last; 0: none has */
};

/* Takes the time of a "recorded" event; other events change nothing. The store knows a task's best
 * when its search has ended, which is when nobody waits for it any more. */
void gk_follow_recorded(struct gk_follow *follow, const struct gk_json *event);

/* Returns when the job has ended (GK_OK), on_tick said GK_END (GK_END), or something failed. */
enum gk_status gk_follow(struct gk_follow *follow, struct gk_err *err);

#endif
