/*
 * Draining: what the worker does between "end" and its end. No lease is taken any more, those that
 * do not run go back at once and count against nobody, the trial that runs runs to its end within
 * its deadlines, its result is spooled and sent, and BYE is said.
 *
 * A scheduler asks for it by SIGTERM; SIGUSR1, or the end of a time limit, asks for it too and says
 * that the worker shall come again, which its exit status tells whoever started it.
 */
#include "worker/worker_state.h"

#define ACK_WAIT_MS                                                                                \
    5000 /* for the daemon to store the last results: the spool holds them anyway                  \
          */

static void release_queued(struct worker *worker, const char *reason)
{
    struct lease *lease = worker->leases;
    while (lease) {
        struct lease *next = lease->next;
        if (lease->state <= LEASE_READY) {
            session_release(worker, lease->token, reason);
            lease_drop(worker, lease);
        }
        lease = next;
    }
}

static void count_result(void *context, int64_t token, int64_t pass, const struct gk_json *body)
{
    (void)token;
    (void)pass;
    (void)body;
    ++*(uint32_t *)context;
}

static bool all_stored(struct worker *worker)
{
    uint32_t left = 0, damaged = 0;
    return gk_spool_each(worker->spool, count_result, &left, &damaged, NULL) == GK_OK && left == 0;
}

void drain_check(struct worker *worker)
{
    uint64_t now_ms = uv_now(&worker->loop);
    if (worker->options->drain_at_ms > 0 && !worker->draining &&
        now_ms - worker->begun_ms >= worker->options->drain_at_ms) {
        drain_begin(worker, "its time limit is near", true);
        return; /* which has looked */
    }
    if (!worker->draining || worker->ending) {
        return;
    }
    if (worker->drain_end_ms > 0 && now_ms >= worker->drain_end_ms) {
        worker_log(worker, GK_WORKER_DRAIN, "draining took too long: what runs is given back");
        worker_end(worker, GK_OK, "draining took too long");
        return;
    }
    if (worker->leases) {
        worker->idle_ms = 0;
        return;
    }
    worker->idle_ms = worker->idle_ms > 0 ? worker->idle_ms : now_ms;
    if (!worker->welcome || all_stored(worker) || now_ms - worker->idle_ms >= ACK_WAIT_MS) {
        worker_end(worker, GK_OK, worker->drain_reason);
    }
}

void drain_begin(struct worker *worker, const char *reason, bool again)
{
    if (worker->draining || worker->ending) {
        return;
    }
    worker->draining = true;
    worker->drain_begun_ms = uv_now(&worker->loop);
    worker->drain_reason = reason;
    if (worker->options->again) {
        *worker->options->again = again;
    }
    uint64_t limit_ms = worker->options->drain_limit_ms;
    worker->drain_end_ms = limit_ms > 0 ? uv_now(&worker->loop) + limit_ms : 0;
    uint32_t before = worker->lease_count;
    session_credit(worker); /* none, from now on: nothing comes while the rest goes back */
    release_queued(worker, reason);
    worker_log(worker, GK_WORKER_DRAIN, "draining: %s; %u leases given back, %u run to their end",
               reason, before - worker->lease_count, worker->lease_count);
    drain_check(worker);
}
