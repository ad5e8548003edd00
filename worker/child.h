/*
 * A child process in a libuv loop, speaking frames over its stdin and stdout.
 *
 * It is the leader of a session of its own, so that a kill takes what it started along. Nothing here waits:
 * frames and the end arrive as callbacks, deadlines are the caller's. stderr is the worker's.
 */
#ifndef GK_WORKER_CHILD_H
#define GK_WORKER_CHILD_H

#include <uv.h>

#include "worker/pipe_frame.h"

struct gk_child;

struct gk_child_events {
    /* One frame; json and payload are lent for the call. */
    void (*frame)(void *context, struct gk_child *child, const struct gk_pipe *frame);
    /* The process ended (or its stream was malformed: then it was killed first, and why says so). Called exactly
     * once, after the last frame; the child is freed after the call. */
    void (*ended)(void *context, struct gk_child *child, int64_t exit_status, int signal,
                  const char *why);
};

/* argv: NULL-terminated, argv[0] a path. GK_IO names the program. */
enum gk_status gk_child_spawn(uv_loop_t *loop, char *const *argv, const struct gk_child_events *events,
                              void *context, struct gk_child **child_out, struct gk_err *err);
/* Queues a frame. Never blocks; an error means that the child is ending. */
enum gk_status gk_child_send(struct gk_child *child, const struct gk_json *json, const void *payload,
                             size_t payload_size, struct gk_err *err);
/* SIGKILL to the whole group; `ended` follows. */
void gk_child_kill(struct gk_child *child);
/* No callback any more; killed if still running. For owners that go away before it does. */
void gk_child_abandon(struct gk_child *child);
int gk_child_pid(const struct gk_child *child);

#endif
