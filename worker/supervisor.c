/* Start and end of the worker's main process: see supervisor.h. */
#include "worker/supervisor.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/code_cache.h"
#include "worker/cuda/gpu_lock.h"
#include "worker/cuda/nvml.h"
#include "worker/device.h"
#include "worker/gpu_list.h"
#include "worker/worker_state.h"

#define CACHE_BYTES_MAX (UINT64_C(4) << 30)
#define AGAIN_MS        2000
#define HELD_MS         5000 /* of a GPU or spool: as long as the next command waits for a store */
#define HELD_AGAIN_MS   50
#define BEAT_MS         500 /* how often silence is looked at; PINGs go out at the heartbeat */

void worker_log(struct worker *worker, enum gk_worker_event event, const char *format, ...)
{
    char text[GK_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    worker->options->log(worker->options->context, event, text);
}

void worker_end(struct worker *worker, enum gk_status status, const char *reason)
{
    if (worker->ending) {
        return;
    }
    for (struct lease *lease = worker->leases; lease; lease = lease->next) {
        if (lease->state != LEASE_WAIT_ACK) {
            session_release(worker, lease->token, reason);
        }
    }
    struct gk_json *body = gk_json_new_object();
    if (body && gk_json_set_string(body, "reason", reason)) {
        session_send(worker, GK_MSG_BYE, 0, body);
    } else {
        gk_json_free(body);
    }
    worker->ending = true;
    worker->result = status == GK_OK ? GK_OK : gk_fail(&worker->err, status, "%s", reason);
    uv_stop(&worker->loop);
}

/* One kill is one child's. A sandbox says of a child of its own that was killed that it exited with
 * 128 and the signal. What the counter knows beyond that was somebody else's: a child that ended in
 * another way takes it off. */
bool worker_memory_kill(struct worker *worker, int64_t exit_status, int signal_number,
                        char about_out[96])
{
    int64_t kills = gk_memory_group_kills(&worker->memory), was = worker->memory_kills;
    bool killed = signal_number == SIGKILL || exit_status == 128 + SIGKILL;
    bool for_memory = killed && was >= 0 && kills > was;
    worker->memory_kills = for_memory ? was + 1 : kills;
    about_out[0] = '\0';
    if (for_memory) {
        struct gk_buf text = {0};
        gk_memory_group_tell(&worker->memory, &text);
        if (text.size > 0) {
            (void)snprintf(about_out, 96, " (%.90s)", gk_buf_text(&text));
        }
        gk_buf_fini(&text);
    }
    return for_memory;
}

/* ------------------------------------------------------------------ events */

static void on_heartbeat(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    session_beat(worker);
    drain_check(worker);
    if (worker->options->beat) {
        worker->options->beat(worker->options->context, worker->welcome);
    }
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        gk_gpu_lock_tend(worker->benches[i].lock);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct worker *worker = handle->data;
    /* A scheduler signals every process of a job, and the script around us passes it on: what comes
     * twice within a moment was said once. */
    bool again = worker->draining && uv_now(&worker->loop) - worker->drain_begun_ms >= AGAIN_MS;
    bool at_once = number == SIGINT || worker->options->is_private || again;
    if (number == SIGUSR1) {
        drain_begin(worker, "SIGUSR1", true);
    } else if (at_once) {
        worker_end(worker, GK_OK, number == SIGTERM ? "SIGTERM" : "SIGINT");
    } else {
        drain_begin(worker, "SIGTERM", false);
    }
}

static void on_parent_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char nothing[256]; /* what the parent writes is not read */
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(nothing, sizeof nothing);
}

static void on_parent_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
    struct worker *worker = stream->data;
    (void)buf;
    if (size < 0) {
        worker_end(worker, GK_OK, "the parent closed");
    }
}

/* ------------------------------------------------------------------ start */

static enum gk_status find_compiler(struct worker *worker, struct gk_err *err)
{
    struct gk_compiler *compiler = NULL;
    bool needed = false;
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        needed = needed || !worker->benches[i].is_mock;
    }
    enum gk_status status = gk_compiler_open(&worker->options->places, &compiler, err);
    if (status != GK_OK) {
        return needed ? status : GK_OK; /* mock devices compile nothing */
    }
    (void)snprintf(worker->nvrtc_version, sizeof worker->nvrtc_version, "%s",
                   gk_compiler_version(compiler));
    (void)snprintf(worker->nvrtc_path, sizeof worker->nvrtc_path, "%s", gk_compiler_path(compiler));
    gk_compiler_close(compiler);
    worker->sandboxed =
        needed && worker->options->bwrap &&
        gk_sandbox_works(worker->options->bwrap, worker->options->program, worker->nvrtc_path);
    bool remote = strncmp(worker->options->endpoint, "tcp://", 6) == 0;
    if (needed && !worker->sandboxed && remote && !worker->options->allow_unsandboxed) {
        return gk_fail(err, GK_DENIED,
                       "no sandbox: %s. Over tcp sources come from other hosts, and one could read "
                       "the files of this user: install bubblewrap, allow user namespaces, or say "
                       "--allow-unsandboxed (gktune doctor tells more)",
                       worker->options->bwrap ? "bubblewrap does not work here"
                                              : "bubblewrap (bwrap) was not found");
    }
    if (needed && !worker->sandboxed) {
        worker_log(worker, GK_WORKER_SANDBOX,
                   "compile processes run without a sandbox (bubblewrap is absent or does not "
                   "work here): a source can read the files of this user");
    }
    return GK_OK;
}

/* What ages a result and is no part of what the device is. */
static void ask_nvml(struct bench *bench)
{
    struct gk_nvml *nvml = NULL;
    struct gk_nvml_about about;
    if (bench->props.uuid[0] && gk_nvml_open(gk_device_places()->nvml, bench->props.uuid, &nvml,
                                             NULL) == GK_OK) { /* without NVML less is known */
        gk_nvml_about(nvml, &about);
        (void)snprintf(bench->driver, sizeof bench->driver, "%s", about.driver);
        (void)snprintf(bench->vbios, sizeof bench->vbios, "%s", about.vbios);
        gk_nvml_close(nvml);
    }
}

/* A command that was killed leaves a worker that ends when its executors have, and holds GPU and
 * spool until then. The next command's worker waits for it; whoever starts one by hand is told at
 * once. */
static bool held_yet(struct worker *worker, enum gk_status status)
{
    uv_update_time(&worker->loop);
    if (status != GK_BUSY || !worker->options->is_private ||
        uv_now(&worker->loop) - worker->begun_ms >= HELD_MS) {
        return false;
    }
    uv_sleep(HELD_AGAIN_MS);
    return true;
}

static enum gk_status open_benches(struct worker *worker, struct gk_err *err)
{
    for (uint32_t i = 0; i < worker->options->device_count; i++) {
        struct bench *bench = &worker->benches[i];
        const char *name = worker->options->devices[i];
        /* No device is opened here: a context in this process would take memory of the GPU and die
         * with nothing that a candidate does. */
        enum gk_status status = gk_gpu_describe(name, &bench->props, err);
        if (status == GK_OK && bench->props.uuid[0]) {
            do {
                status = gk_gpu_lock_take(bench->props.uuid, &bench->lock, err);
            } while (held_yet(worker, status));
        }
        if (status != GK_OK) {
            return status;
        }
        ask_nvml(bench);
        bench->worker = worker;
        bench->index = i;
        bench->is_mock = strncmp(name, "mock", 4) == 0;
        bench->credit_sent = -1;
        /* On a host with fewer cores than devices some go without: theirs are shared anyway. */
        bench->seat = worker->seats && !bench->is_mock ? gk_seat_take(worker->seats) : GK_SEAT_NONE;
        worker->bench_count++;
    }
    return GK_OK;
}

static enum gk_status start_handles(struct worker *worker, struct gk_err *err)
{
    uv_loop_t *loop = &worker->loop;
    int rc = 0;
    worker->heartbeat.data = worker->reconnect.data = worker->terminate.data =
        worker->interrupt.data = worker->come_again.data = worker->parent.data =
            worker->seat_again.data = worker;
    (void)uv_timer_init(loop, &worker->heartbeat);
    (void)uv_timer_init(loop, &worker->reconnect);
    (void)uv_timer_init(loop, &worker->seat_again);
    (void)uv_signal_init(loop, &worker->terminate);
    (void)uv_signal_init(loop, &worker->interrupt);
    (void)uv_signal_init(loop, &worker->come_again);
    (void)uv_pipe_init(loop, &worker->parent, 0);
    (void)uv_timer_start(&worker->heartbeat, on_heartbeat, BEAT_MS, BEAT_MS);
    rc = uv_signal_start(&worker->terminate, on_signal, SIGTERM);
    rc = rc ? rc : uv_signal_start(&worker->interrupt, on_signal, SIGINT);
    rc = rc ? rc : uv_signal_start(&worker->come_again, on_signal, SIGUSR1);
    if (rc == 0 && worker->options->is_private) {
        rc = uv_pipe_open(&worker->parent, 0);
        rc = rc ? rc
                : uv_read_start((uv_stream_t *)&worker->parent, on_parent_alloc, on_parent_read);
        if (rc != 0) {
            return gk_fail(err, GK_USAGE, "--private: standard input is no pipe: %s",
                           uv_strerror(rc));
        }
    }
    return rc == 0 ? GK_OK : gk_fail(err, GK_IO, "signals: %s", uv_strerror(rc));
}

static enum gk_status start(struct worker *worker, struct gk_err *err)
{
    const struct gk_worker_options *options = worker->options;
    char folder[4096];
    enum gk_status status =
        options->shares_cores ? gk_seats_create("gktune-core", &worker->seats, err) : GK_OK;
    if (status == GK_OK) {
        status = open_benches(worker, err);
    }
    if (status == GK_OK) {
        do {
            status = gk_spool_open(options->spool, &worker->spool, err);
        } while (held_yet(worker, status));
    }
    if (status == GK_OK) {
        status = find_compiler(worker, err);
    }
    if (status == GK_OK) {
        (void)snprintf(folder, sizeof folder, "%s/code", options->spool);
        status = gk_code_prune(folder, CACHE_BYTES_MAX, err);
    }
    if (status != GK_OK) {
        return status;
    }
    worker->slot_count =
        options->compile_processes < POOL_MAX ? options->compile_processes : POOL_MAX;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        worker->slots[i].worker = worker;
        worker->slots[i].seat = GK_SEAT_NONE;
    }
    worker->tasks_end = &worker->tasks;
    status = start_handles(worker, err);
    return status == GK_OK ? session_connect(worker, err) : status;
}

/* ------------------------------------------------------------------ end */

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void close_own(struct worker *worker)
{
    uv_handle_t *const handles[] = {
        (uv_handle_t *)&worker->heartbeat,  (uv_handle_t *)&worker->reconnect,
        (uv_handle_t *)&worker->terminate,  (uv_handle_t *)&worker->interrupt,
        (uv_handle_t *)&worker->come_again, (uv_handle_t *)&worker->parent,
        (uv_handle_t *)&worker->seat_again};
    for (size_t i = 0; i < GK_ARRAY_COUNT(handles); i++) {
        if (handles[i]->loop) { /* initialised */
            close_handle(handles[i], NULL);
        }
    }
}

static void stop(struct worker *worker)
{
    worker->ending = true;
    while (worker->leases) {
        struct lease *lease = worker->leases;
        struct bench *bench = &worker->benches[lease->device];
        bench->lease = bench->lease == lease ? NULL : bench->lease;
        lease_drop(worker, lease);
    }
    benches_stop(worker);
    pool_stop(worker);
    bundles_destroy(worker);
    session_close(worker);
    close_own(worker);
    (void)uv_run(&worker->loop,
                 UV_RUN_DEFAULT); /* until every child is reaped and every handle closed */
    (void)uv_loop_close(&worker->loop);
    gk_spool_close(worker->spool);
    for (uint32_t i = 0; i < worker->options->device_count; i++) {
        gk_gpu_lock_free(worker->benches[i].lock);
    }
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        (void)gk_seat_give(worker->benches[i].seat);
    }
    gk_seats_destroy(worker->seats);
}

enum gk_status gk_worker_run(const struct gk_worker_options *options, struct gk_err *err)
{
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker || uv_loop_init(&worker->loop) != 0) {
        free(worker);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    worker->options = options;
    worker->begun_ms = uv_now(&worker->loop);
    gk_memory_group_find("/proc/self/cgroup", "/sys/fs/cgroup", &worker->memory);
    worker->memory_kills = gk_memory_group_kills(&worker->memory);
    (void)signal(SIGPIPE, SIG_IGN); /* a child may die between two writes: the exit event says so */
    enum gk_status status = start(worker, err);
    if (status == GK_OK) {
        (void)uv_run(&worker->loop, UV_RUN_DEFAULT);
        status = worker->result;
        if (err && status != GK_OK) {
            *err = worker->err;
        }
    }
    stop(worker);
    free(worker);
    return status;
}
