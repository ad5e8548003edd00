#include "worker/child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gk_child {
    uv_process_t process;
    uv_pipe_t in, out; /* the child's stdin and stdout */
    struct gk_child_events events;
    void *context;
    struct gk_pipe_reader reader;
    char why[GK_ERR_TEXT_MAX];
    char chunk[64 << 10];
    int64_t exit_status;
    int signal;
    int open_handles;
    bool exited, stream_ended, told, abandoned;
};

static void on_closed(uv_handle_t *handle)
{
    struct gk_child *child = handle->data;
    if (--child->open_handles == 0) {
        gk_pipe_reader_fini(&child->reader);
        free(child);
    }
}

static void close_one(struct gk_child *child, uv_handle_t *handle)
{
    (void)child;
    if (!uv_is_closing(handle)) {
        uv_close(handle, on_closed);
    }
}

static void close_all(struct gk_child *child)
{
    close_one(child, (uv_handle_t *)&child->process);
    close_one(child, (uv_handle_t *)&child->in);
    close_one(child, (uv_handle_t *)&child->out);
}

/* Both must have come: frames written before the death are still in the pipe when the exit is seen. */
static void finish_if_done(struct gk_child *child)
{
    if (child->exited && child->stream_ended && !child->told) {
        child->told = true;
        if (!child->abandoned) {
            child->events.ended(child->context, child, child->exit_status, child->signal, child->why);
        }
        close_all(child);
    }
}

static void on_exit_seen(uv_process_t *process, int64_t exit_status, int signal)
{
    struct gk_child *child = process->data;
    child->exit_status = exit_status;
    child->signal = signal;
    child->exited = true;
    /* whoever it started dies too: a grandchild that kept the pipe open must not keep us waiting */
    (void)kill(-process->pid, SIGKILL);
    finish_if_done(child);
}

static void end_stream(struct gk_child *child)
{
    if (!child->stream_ended) {
        child->stream_ended = true;
        (void)uv_read_stop((uv_stream_t *)&child->out);
        if (!child->exited) {
            gk_child_kill(child);
        }
        finish_if_done(child);
    }
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct gk_child *child = handle->data;
    (void)wanted;
    *buf = uv_buf_init(child->chunk, sizeof child->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct gk_child *child = stream->data;
    struct gk_err err = {0};
    if (size == 0) {
        return;
    }
    if (size < 0) {
        end_stream(child);
        return;
    }
    enum gk_status status = gk_pipe_feed(&child->reader, buf->base, (size_t)size, &err);
    while (status == GK_OK) {
        struct gk_pipe frame = {0};
        status = gk_pipe_next(&child->reader, &frame, &err);
        if (status == GK_OK && !child->abandoned) {
            child->events.frame(child->context, child, &frame);
        }
        gk_pipe_fini(&frame);
    }
    if (status != GK_AGAIN) {
        (void)snprintf(child->why, sizeof child->why, "%s", err.text);
        end_stream(child);
    }
}

static enum gk_status start(struct gk_child *child, uv_loop_t *loop, char *const *argv,
                            struct gk_err *err)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&child->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->out},
        {.flags = UV_INHERIT_FD, .data.fd = 2}};
    char **args = NULL;
    memcpy(&args, &argv, sizeof args); /* uv takes char **, and does not write */
    uv_process_options_t options = {.exit_cb = on_exit_seen, .file = argv[0], .args = args,
                                    .flags = UV_PROCESS_DETACHED, .stdio_count = 3, .stdio = stdio};
    int failed = uv_spawn(loop, &child->process, &options);
    if (failed) {
        return gk_fail(err, GK_IO, "starting %s: %s", argv[0], uv_strerror(failed));
    }
    failed = uv_read_start((uv_stream_t *)&child->out, on_alloc, on_read);
    if (failed) {
        gk_child_kill(child);
        return gk_fail(err, GK_IO, "reading from %s: %s", argv[0], uv_strerror(failed));
    }
    return GK_OK;
}

enum gk_status gk_child_spawn(uv_loop_t *loop, char *const *argv, const struct gk_child_events *events,
                              void *context, struct gk_child **child_out, struct gk_err *err)
{
    struct gk_child *child = calloc(1, sizeof *child);
    if (!child) {
        return gk_fail(err, GK_NOMEM, "out of memory for a child process");
    }
    child->events = *events;
    child->context = context;
    child->process.data = child->in.data = child->out.data = child;
    (void)uv_pipe_init(loop, &child->in, 0);
    (void)uv_pipe_init(loop, &child->out, 0);
    child->open_handles = 3;
    enum gk_status status = start(child, loop, argv, err);
    if (status != GK_OK) {
        child->abandoned = child->told = true;
        child->process.data = child;
        close_all(child); /* uv_spawn initialises the handle also when it fails */
        return status;
    }
    child->process.data = child;
    *child_out = child;
    return GK_OK;
}

struct sending {
    uv_write_t request;
    struct gk_buf bytes;
};

static void on_sent(uv_write_t *request, int status)
{
    struct sending *sending = request->data;
    (void)status; /* a child that is gone is told by its exit */
    gk_buf_fini(&sending->bytes);
    free(sending);
}

enum gk_status gk_child_send(struct gk_child *child, const struct gk_json *json, const void *payload,
                             size_t payload_size, struct gk_err *err)
{
    struct sending *sending = calloc(1, sizeof *sending);
    if (!sending) {
        return gk_fail(err, GK_NOMEM, "out of memory for a frame");
    }
    enum gk_status status = gk_pipe_encode(json, payload, payload_size, &sending->bytes, err);
    if (status == GK_OK && (child->exited || uv_is_closing((uv_handle_t *)&child->in))) {
        status = gk_fail(err, GK_CLOSED, "the child process has ended");
    }
    if (status == GK_OK) {
        uv_buf_t buf = uv_buf_init(sending->bytes.data, (unsigned)sending->bytes.size);
        sending->request.data = sending;
        int failed = uv_write(&sending->request, (uv_stream_t *)&child->in, &buf, 1, on_sent);
        if (!failed) {
            return GK_OK;
        }
        status = gk_fail(err, GK_CLOSED, "writing to a child process: %s", uv_strerror(failed));
    }
    gk_buf_fini(&sending->bytes);
    free(sending);
    return status;
}

void gk_child_kill(struct gk_child *child)
{
    if (!child->exited && child->process.pid > 0) {
        (void)kill(-child->process.pid, SIGKILL);
    }
}

void gk_child_abandon(struct gk_child *child)
{
    if (child) {
        child->abandoned = true;
        gk_child_kill(child);
    }
}

int gk_child_pid(const struct gk_child *child)
{
    return child->process.pid;
}
