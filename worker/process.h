/*
 * A child process in the supervisor's loop: frames out, frames in, a deadline that ends in SIGKILL.
 * A process that sleeps inside of a driver does not die of it: then nobody waits for it any longer.
 */
#ifndef GK_WORKER_PROCESS_H
#define GK_WORKER_PROCESS_H

#include <uv.h>

#include "worker/child_frame.h"

struct gk_process;

#define GK_PROCESS_STUCK        INT64_MIN /* as an exit status: it was killed and has not ended */
#define GK_PROCESS_KILL_WAIT_MS 10000     /* what a kernel takes to free a GPU is part of it */

struct gk_process_events {
    /* An answer. The JSON is lent. May send the next request or kill the process. */
    void (*frame)(void *context, const struct gk_json *json);
    /* It ended, for whatever reason; the process is gone when this returns. `late`: the deadline
     * had passed. `signal_number`: 0 if it exited by itself, and with GK_PROCESS_STUCK, when it may
     * hold yet whatever it held. */
    void (*ended)(void *context, bool late, int64_t exit_status, int signal_number);
    void *context;
    uint64_t kill_wait_ms; /* between SIGKILL and GK_PROCESS_STUCK; 0: GK_PROCESS_KILL_WAIT_MS */
};

/* argv[0] is the program's path. The environment is the caller's list (NULL: inherited). */
enum gk_status gk_process_start(uv_loop_t *loop, char *const *argv, char *const *environment,
                                const struct gk_process_events *events,
                                struct gk_process **process_out, struct gk_err *err);
enum gk_status gk_process_send(struct gk_process *process, const struct gk_json *json,
                               struct gk_err *err);
/* Kills it when no answer came by then; 0 stops the clock. */
void gk_process_deadline(struct gk_process *process, uint64_t ms);
/* SIGKILL now; `ended` follows. */
void gk_process_kill(struct gk_process *process);
/* SIGKILL and no further events: the owner has forgotten it. The loop does, too, when it has ended
 * or is stuck. */
void gk_process_abandon(struct gk_process *process);

#endif
