/*
 * The worker of a `run`: started when the daemon has none for a wanted device, started again when
 * it dies.
 */
#ifndef GK_CLI_CREW_H
#define GK_CLI_CREW_H

#include "cli/client.h"
#include "cli/progress.h"
#include "cli/request.h"

struct gk_crew {
    struct gk_cli *cli;
    struct gk_client *client;
    const struct gk_request *request;
    struct gk_progress *progress;
    struct gk_child worker;
    const char *devices[GK_DEVICES_MAX]; /* those that ours serves */
    uint32_t device_count;
    uint32_t generation;   /* of the client, when the worker was started */
    uint32_t deaths;       /* since there was progress */
    int64_t done_at_death; /* trials done when it died last */
    uint64_t restart_ms;   /* not before this time */
};

/* Looks which devices have a worker already, and starts ours for the rest. */
enum gk_status gk_crew_start(struct gk_crew *crew, struct gk_cli *cli, struct gk_client *client,
                             const struct gk_request *request, struct gk_progress *progress,
                             struct gk_err *err);
/* *ready_out: every device that ours serves is connected to the daemon. Waits up to 100 ms for
 * that; an error when the worker ended instead, with its last words. */
enum gk_status gk_crew_ready(struct gk_crew *crew, bool *ready_out, struct gk_err *err);
/* Restarts a dead worker; done is the number of trials done so far. GK_INTERNAL when it dies again
 * and again without any progress. */
enum gk_status gk_crew_tick(struct gk_crew *crew, int64_t done, struct gk_err *err);
void gk_crew_stop(struct gk_crew *crew);

#endif
