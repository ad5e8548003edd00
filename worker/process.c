/* A child process in a loop: see process.h. */
#include "worker/process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define READ_SIZE 65536

struct gk_process {
    uv_process_t process;
    uv_pipe_t in, out;   /* the child's 0 and 1 */
    uv_timer_t deadline; /* for an answer; once it was killed, for its end */
    struct gk_frame_reader reader;
    struct gk_process_events events;
    char buffer[READ_SIZE];
    int open_handles;
    uint64_t kill_wait_ms;
    bool late, killed, ended;
    int64_t exit_status;
    int signal_number;
};

struct sending {
    uv_write_t request;
    char *bytes;
};

static void on_closed(uv_handle_t *handle)
{
    struct gk_process *process = handle->data;
    if (--process->open_handles == 0) {
        gk_frame_reader_fini(&process->reader);
        free(process);
    }
}

static void close_all(struct gk_process *process)
{
    uv_handle_t *const handles[] = {(uv_handle_t *)&process->process, (uv_handle_t *)&process->in,
                                    (uv_handle_t *)&process->out,
                                    (uv_handle_t *)&process->deadline};
    for (size_t i = 0; i < GK_ARRAY_COUNT(handles); i++) {
        if (!uv_is_closing(handles[i])) {
            uv_close(handles[i], on_closed);
        }
    }
}

/* The child leads a process group of its own, and all of the group goes with it. bubblewrap's inner
 * process would else wait for ever, our pipes in its hands, when its outer one is killed before
 * they have spoken: only then would it die with its parent. */
static void kill_group(const struct gk_process *process)
{
    (void)kill(-process->process.pid, SIGKILL); /* ESRCH: nobody is left */
}

static void finish(struct gk_process *process, int64_t exit_status, int signal_number)
{
    struct gk_process_events events = process->events;
    bool late = process->late;
    process->ended = true;
    close_all(process);
    if (events.ended) {
        events.ended(events.context, late, exit_status, signal_number);
    }
}

static void on_exit_event(uv_process_t *handle, int64_t exit_status, int signal_number)
{
    struct gk_process *process = handle->data;
    kill_group(process); /* whoever killed the child may have killed it alone */
    finish(process, exit_status, signal_number);
}

static void on_stuck(uv_timer_t *timer)
{
    finish(timer->data, GK_PROCESS_STUCK, 0);
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct gk_process *process = handle->data;
    (void)suggested;
    *buf = uv_buf_init(process->buffer, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct gk_process *process = stream->data;
    if (size <= 0) {
        if (size < 0) {
            (void)uv_read_stop(stream); /* the exit event follows */
        }
        return;
    }
    enum gk_status status = gk_frame_feed(&process->reader, buf->base, (size_t)size, NULL);
    while (status == GK_OK && !process->ended && !process->killed) { /* what it says then is void */
        struct gk_json *json = NULL;
        status = gk_frame_next(&process->reader, &json, NULL);
        if (status == GK_OK && process->events.frame) {
            process->events.frame(process->events.context, json);
        }
        gk_json_free(json);
    }
    if (status != GK_AGAIN && status != GK_OK) {
        gk_process_kill(process); /* it does not speak frames: not a process that can be used */
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct gk_process *process = timer->data;
    process->late = true;
    gk_process_kill(process);
}

enum gk_status gk_process_start(uv_loop_t *loop, char *const *argv, char *const *environment,
                                const struct gk_process_events *events,
                                struct gk_process **process_out, struct gk_err *err)
{
    struct gk_process *process = calloc(1, sizeof *process);
    if (!process) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&process->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&process->out},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    char *argv_copy[64] = {NULL};
    for (size_t i = 0; argv[i] && i + 1 < GK_ARRAY_COUNT(argv_copy); i++) {
        argv_copy[i] = argv[i];
    }
    uv_process_options_t options = {
        .exit_cb = on_exit_event,
        .flags = UV_PROCESS_DETACHED,
        .file = argv[0],
        .args = argv_copy,
        .env = (char **)environment,
        .stdio = stdio,
        .stdio_count = 3,
    };
    process->events = *events;
    process->kill_wait_ms = events->kill_wait_ms ? events->kill_wait_ms : GK_PROCESS_KILL_WAIT_MS;
    process->process.data = process->in.data = process->out.data = process->deadline.data = process;
    process->open_handles = 4;
    (void)uv_pipe_init(loop, &process->in, 0);
    (void)uv_pipe_init(loop, &process->out, 0);
    (void)uv_timer_init(loop, &process->deadline);
    int rc = uv_spawn(loop, &process->process, &options);
    if (rc != 0) {
        close_all(process); /* uv_spawn initialises its handle also when it fails */
        return gk_fail(err, GK_IO, "cannot start %s: %s", argv[0], uv_strerror(rc));
    }
    rc = uv_read_start((uv_stream_t *)&process->out, on_allocate, on_read);
    if (rc != 0) {
        gk_process_abandon(process);
        return gk_fail(err, GK_IO, "cannot read from %s: %s", argv[0], uv_strerror(rc));
    }
    *process_out = process;
    return GK_OK;
}

static void on_written(uv_write_t *request, int status)
{
    struct sending *sending = (struct sending *)request;
    if (status < 0 && status != UV_ECANCELED) {
        /* Most often the child has ended, and its exit event is on its way. One that lives would
         * wait for ever for a request that its owner believes sent. */
        gk_process_kill(request->handle->data);
    }
    free(sending->bytes);
    free(sending);
}

enum gk_status gk_process_send(struct gk_process *process, const struct gk_json *json,
                               struct gk_err *err)
{
    struct sending *sending = calloc(1, sizeof *sending);
    size_t size = 0;
    if (!sending) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_frame_pack(json, &sending->bytes, &size, err);
    if (status == GK_OK) {
        uv_buf_t buf = uv_buf_init(sending->bytes, (unsigned)size);
        int rc = uv_write(&sending->request, (uv_stream_t *)&process->in, &buf, 1, on_written);
        if (rc == 0) {
            return GK_OK;
        }
        status = gk_fail(err, GK_IO, "sending to a child: %s", uv_strerror(rc));
    }
    free(sending->bytes);
    free(sending);
    return status;
}

void gk_process_deadline(struct gk_process *process, uint64_t ms)
{
    if (process->killed) {
        return; /* the timer waits for its end now */
    }
    if (ms == 0) {
        (void)uv_timer_stop(&process->deadline);
    } else {
        (void)uv_timer_start(&process->deadline, on_deadline, ms,
                             0); /* fails only without a callback */
    }
}

void gk_process_kill(struct gk_process *process)
{
    if (process->ended) {
        return;
    }
    kill_group(process); /* gone already: the exit event is on its way */
    if (!process->killed) {
        process->killed = true;
        (void)uv_timer_start(&process->deadline, on_stuck, process->kill_wait_ms,
                             0); /* fails only without a callback */
    }
}

void gk_process_abandon(struct gk_process *process)
{
    if (process) {
        memset(&process->events, 0, sizeof process->events);
        gk_process_kill(process);
    }
}
