/*
 * A gk_link inside a libuv loop, written once.
 *
 * ZMQ_FD is edge-triggered and a zmq_send may eat the edge, so a poll handle alone loses wake-ups
 * (measured: 20 of 21 messages stuck). Here a prepare and a check handle re-read ZMQ_EVENTS on
 * every turn of the loop, an idle handle keeps the loop turning while events remain, and the poll
 * handle on the descriptor only wakes it.
 */
#ifndef GK_CORE_LOOP_H
#define GK_CORE_LOOP_H

#include <uv.h>

#include "core/link.h"

struct gk_loop_link;

/* Called on the loop's thread when the link may have something to receive. It should receive until
 * GK_AGAIN or its own bound; if it stops early it is called again. It may send. It must not destroy
 * the watcher. Of a connected link it is called for connections as well, until somebody has asked
 * gk_link_connections(). */
typedef void (*gk_loop_ready_cb)(void *context);

enum gk_status gk_loop_watch(uv_loop_t *loop, struct gk_link *link, gk_loop_ready_cb ready,
                             void *context, struct gk_loop_link **watch_out, struct gk_err *err);
/* Closes the handles; memory is freed when the loop has run their close callbacks. */
void gk_loop_unwatch(struct gk_loop_link *watch);

#endif
