/*
 * A gk_link inside a libuv loop: see loop.h for the trap and the cure.
 *
 * Turn of a loop: timers, idle, prepare, wait for descriptors, check, close callbacks. The prepare
 * handle looks at ZMQ_EVENTS as the last thing before the wait, after every send that a timer or
 * another callback made; if something can be received the idle handle is started, which makes the
 * wait zero. The check handle, first thing after the wait, delivers.
 */
#include "core/loop.h"

#include <stdlib.h>
#include <zmq.h>

struct gk_loop_link {
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_poll_t poll, monitor; /* monitor: of a connected link alone */
    struct gk_link *link;
    gk_loop_ready_cb ready;
    void *context;
    unsigned open_handles; /* freed when the last one is closed */
};

static bool has_something(void *socket)
{
    int events = 0;
    size_t size = sizeof events;
    if (zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) != 0) {
        return false; /* EINTR or a context that ends: the next turn asks again */
    }
    return (events & ZMQ_POLLIN) != 0;
}

static bool can_receive(struct gk_loop_link *watch)
{
    void *monitor = gk_link_monitor(watch->link);
    return has_something(gk_link_socket(watch->link)) || (monitor && has_something(monitor));
}

static void on_idle(uv_idle_t *handle)
{
    (void)handle; /* its being active is what counts */
}

static void on_prepare(uv_prepare_t *handle)
{
    struct gk_loop_link *watch = handle->data;
    if (can_receive(watch)) {
        (void)uv_idle_start(&watch->idle, on_idle); /* fails only without a callback */
    } else {
        (void)uv_idle_stop(&watch->idle);
    }
}

static void on_check(uv_check_t *handle)
{
    struct gk_loop_link *watch = handle->data;
    (void)uv_idle_stop(&watch->idle);
    if (can_receive(watch)) {
        watch->ready(watch->context);
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    (void)handle; /* it woke the loop; on_check does the rest */
    (void)status;
    (void)events;
}

static void on_closed(uv_handle_t *handle)
{
    struct gk_loop_link *watch = handle->data;
    if (--watch->open_handles == 0) {
        free(watch);
    }
}

static enum gk_status watch_socket(uv_loop_t *loop, struct gk_loop_link *watch, uv_poll_t *poll,
                                   void *socket, struct gk_err *err)
{
    uv_os_sock_t fd = -1;
    size_t size = sizeof fd;
    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) != 0) {
        return gk_fail(err, GK_INTERNAL, "descriptor of a link: %s", zmq_strerror(zmq_errno()));
    }
    int rc = uv_poll_init_socket(loop, poll, fd);
    if (rc == 0) {
        poll->data = watch;
        watch->open_handles++;
        rc = uv_poll_start(poll, UV_READABLE, on_poll);
    }
    return rc == 0 ? GK_OK
                   : gk_fail(err, GK_IO, "cannot watch a link's descriptor: %s", uv_strerror(rc));
}

enum gk_status gk_loop_watch(uv_loop_t *loop, struct gk_link *link, gk_loop_ready_cb ready,
                             void *context, struct gk_loop_link **watch_out, struct gk_err *err)
{
    struct gk_loop_link *watch = calloc(1, sizeof *watch);
    if (!watch) {
        return gk_fail(err, GK_NOMEM, "out of memory for a watched link");
    }
    watch->link = link;
    watch->ready = ready;
    watch->context = context;
    /* These three cannot fail. */
    (void)uv_prepare_init(loop, &watch->prepare);
    (void)uv_check_init(loop, &watch->check);
    (void)uv_idle_init(loop, &watch->idle);
    watch->prepare.data = watch->check.data = watch->idle.data = watch;
    watch->open_handles = 3;
    enum gk_status status = watch_socket(loop, watch, &watch->poll, gk_link_socket(link), err);
    if (status == GK_OK && gk_link_monitor(link)) {
        status = watch_socket(loop, watch, &watch->monitor, gk_link_monitor(link), err);
    }
    if (status != GK_OK) {
        gk_loop_unwatch(watch);
        return status;
    }
    (void)uv_prepare_start(&watch->prepare, on_prepare);
    (void)uv_check_start(&watch->check, on_check);
    *watch_out = watch;
    return GK_OK;
}

void gk_loop_unwatch(struct gk_loop_link *watch)
{
    if (!watch) {
        return;
    }
    uv_handle_t *const handles[] = {(uv_handle_t *)&watch->poll, (uv_handle_t *)&watch->monitor,
                                    (uv_handle_t *)&watch->prepare, (uv_handle_t *)&watch->check,
                                    (uv_handle_t *)&watch->idle};
    for (size_t i = 0; i < GK_ARRAY_COUNT(handles); i++) {
        if (handles[i]->data) { /* it was made */
            uv_close(handles[i], on_closed);
        }
    }
}
