/*
 * See shell.h. One tick: take what is there (bounded), step the core, one COMMIT, then send. A tick
 * that cannot be stored sends nothing; a full disk makes a new core from the store as it is, any
 * other failure ends the program, and the next start recovers.
 */
#include "daemon/shell.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <uv.h>

#include "core/clock.h"
#include "core/loop.h"
#include "core/state_dir.h"
#include "daemon/blobs.h"
#include "daemon/core.h"
#include "daemon/http.h"
#include "daemon/lock.h"

#define PIECE_BYTES        (256u << 10) /* of a file that came with a backup */
#define MESSAGES_A_TICK    256
#define IDLE_CHECKPOINT_NS UINT64_C(2000000000) /* nothing happened for so long */
#define STORE_RETRY_NS     UINT64_C(1000000000) /* between two tries while the disk is full */

struct shell {
    const struct gk_shell_options *options;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    uv_pipe_t input;
    bool input_open;
    struct gk_link *link;
    struct gk_loop_link *watch;
    struct gk_db *db;
    struct gk_blobs *blobs;
    struct gk_core *core;
    struct gk_http *http;
    struct gk_clock clock;
    int64_t epoch;
    uint64_t busy_ns, last_work_ns, looked_ns;
    bool wal_dirty, full;
    enum gk_status result;
    struct gk_err why;
};

static uint64_t now_ns(struct shell *shell)
{
    return shell->clock.monotonic_ns(shell->clock.context);
}

static uint64_t wall_ms(struct shell *shell)
{
    return shell->clock.wall_ms(shell->clock.context);
}

static void end(struct shell *shell, enum gk_status status, const struct gk_err *why)
{
    if (status != GK_OK && shell->result == GK_OK) {
        shell->result = status;
        shell->why = *why;
    }
    uv_stop(&shell->loop);
}

static enum gk_status make_core(struct shell *shell, struct gk_err *err)
{
    struct gk_core_setup setup = {.db = shell->db,
                                  .files = gk_blobs_files(shell->blobs),
                                  .epoch = shell->epoch,
                                  .now_ns = now_ns(shell),
                                  .wall_ms = wall_ms(shell),
                                  .is_private = shell->options->is_private,
                                  .version = shell->options->version,
                                  .pid = getpid()};
    return gk_core_create(&setup, &shell->core, err);
}

/* The tick cannot be stored: what the core believes is not what the store holds. */
static void store_failed(struct shell *shell, enum gk_status status, const struct gk_err *why)
{
    gk_db_rollback(shell->db);
    if (status != GK_FULL) {
        end(shell, status, why);
        return;
    }
    if (!shell->full) {
        (void)fprintf(stderr,
                      "gktuned: the disk is full: %s; nothing is lost, no new work is taken until "
                      "there is room\n",
                      why->text);
    }
    shell->full = true;
    struct gk_err err = {0};
    struct gk_core *old = shell->core;
    shell->core = NULL;
    enum gk_status made = make_core(
        shell, &err); /* workers are told that their session is gone and come back with HELLO */
    gk_core_destroy(old);
    if (made != GK_OK) {
        end(shell, made, &err);
        return;
    }
    gk_core_set_free(shell->core, 0);
}

static void flush(struct shell *shell)
{
    struct gk_peer peer;
    struct gk_message message;
    while (gk_core_take(shell->core, &peer, &message)) {
        struct gk_err err = {0};
        enum gk_status status = gk_link_send(shell->link, &peer, &message, &err);
        gk_message_fini(&message);
        if (status == GK_AGAIN || status == GK_CLOSED) {
            status = gk_core_peer_gone(shell->core, &peer, now_ns(shell), &err);
            if (status != GK_OK) {
                store_failed(shell, status, &err);
                return;
            }
        }
    }
}

static void metrics(struct shell *shell)
{
    struct gk_core_counters c = gk_core_counters(shell->core);
    struct gk_buf text = {0};
    const struct {
        const char *name, *kind;
        double value;
    } rows[] = {
        {"messages_total", "counter", (double)c.messages},
        {"malformed_total", "counter", (double)c.malformed},
        {"errors_sent_total", "counter", (double)c.errors_sent},
        {"results_total", "counter", (double)c.results},
        {"duplicate_results_total", "counter", (double)c.duplicates},
        {"stale_results_total", "counter", (double)c.stale},
        {"leases_total", "counter", (double)c.leases},
        {"leases_expired_total", "counter", (double)c.expired},
        {"trials_parked_total", "counter", (double)c.parked},
        {"picks_total", "counter", (double)c.picks},
        {"workers", "gauge", c.sessions},
        {"jobs_open", "gauge", c.open_jobs},
        {"leases_held", "gauge", c.held_leases},
        {"watchers", "gauge", c.watchers},
        {"epoch", "gauge", (double)shell->epoch},
        {"disk_full", "gauge", shell->full},
        {"busy_seconds_total", "counter", (double)shell->busy_ns / 1e9},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(rows); i++) {
        gk_buf_printf(&text, "# TYPE gktuned_%s %s\ngktuned_%s %.17g\n", rows[i].name, rows[i].kind,
                      rows[i].name, rows[i].value);
    }
    gk_http_publish(shell->http, true, gk_buf_text(&text));
    gk_buf_fini(&text);
}

static void on_timer(uv_timer_t *timer);

/* The end of every tick: step, commit, send, set the clock. */
static void finish_tick(struct shell *shell)
{
    struct gk_err err = {0};
    uint64_t next = 0, now = now_ns(shell);
    enum gk_status status = gk_core_tick(shell->core, now, wall_ms(shell), &next, &err);
    if (status == GK_OK) {
        if (gk_db_is_dirty(shell->db)) {
            shell->wal_dirty = true;
            shell->last_work_ns = now;
        }
        status = gk_db_commit(shell->db, &err);
    }
    if (status == GK_OK) {
        status = gk_db_checkpoint(shell->db, false, &err);
    }
    if (status != GK_OK) {
        store_failed(shell, status, &err);
        next = now + STORE_RETRY_NS;
    } else {
        flush(shell);
    }
    if (shell->result != GK_OK) {
        return; /* the loop is ending, and there may be no core any more */
    }
    if (gk_core_wants_stop(shell->core)) {
        end(shell, GK_OK, NULL);
    }
    /* Also after a tick that was not stored: with nobody sending, only the timer sees that there is
     * room again. */
    uint64_t wait_ms = next > now ? (next - now) / 1000000 + 1 : 1;
    (void)uv_timer_start(&shell->timer, on_timer, wait_ms, 0); /* the handle is valid */
}

static void look_at_disk(struct shell *shell, uint64_t now)
{
    struct statvfs info;
    if (now - shell->looked_ns < 1000000000u && shell->looked_ns != 0) {
        return;
    }
    shell->looked_ns = now;
    if (statvfs(shell->options->state_dir, &info) == 0) {
        uint64_t bytes = (uint64_t)info.f_bavail * info.f_frsize;
        shell->full = shell->full && bytes < GK_CORE_FREE_LOW;
        gk_core_set_free(shell->core, bytes);
    }
    metrics(shell);
}

static void on_timer(uv_timer_t *timer)
{
    struct shell *shell = timer->data;
    uint64_t start = now_ns(shell);
    struct gk_err err = {0};
    look_at_disk(shell, start);
    if (shell->wal_dirty && start - shell->last_work_ns > IDLE_CHECKPOINT_NS) {
        shell->wal_dirty = false;
        enum gk_status status = gk_db_checkpoint(shell->db, true, &err);
        if (status != GK_OK) {
            store_failed(shell, status, &err);
        }
    }
    if (shell->result == GK_OK) {
        finish_tick(shell);
    }
    shell->busy_ns += now_ns(shell) - start;
}

static void on_ready(void *context)
{
    struct shell *shell = context;
    uint64_t start = now_ns(shell);
    bool any = false;
    for (int i = 0; i < MESSAGES_A_TICK; i++) {
        struct gk_peer peer;
        struct gk_message message = {0};
        struct gk_err err = {0};
        enum gk_status status = gk_link_receive(shell->link, &peer, &message, &err);
        if (status == GK_AGAIN) {
            break;
        }
        any = true;
        if (status == GK_OK) {
            status =
                gk_core_message(shell->core, &peer, &message, now_ns(shell), wall_ms(shell), &err);
            gk_message_fini(&message);
            if (status != GK_OK) {
                store_failed(shell, status, &err);
                break;
            }
        } else if (status == GK_PROTOCOL || status == GK_VERSION) {
            gk_core_malformed(shell->core, &peer, &err);
        } else {
            end(shell, status, &err);
            return;
        }
    }
    if (any && shell->result == GK_OK) {
        finish_tick(shell);
    }
    shell->busy_ns += now_ns(shell) - start;
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    end(handle->data, GK_OK, NULL);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char drain[256]; /* what a parent writes is not read: only its end counts */
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(drain, sizeof drain);
}

static void on_input(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)buf;
    if (count < 0) {
        end(stream->data, GK_OK, NULL);
    }
}

static enum gk_status uv_status(int rc, const char *doing, struct gk_err *err)
{
    return rc == 0 ? GK_OK : gk_fail(err, GK_INTERNAL, "%s: %s", doing, uv_strerror(rc));
}

static enum gk_status start_handles(struct shell *shell, struct gk_err *err)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    enum gk_status status = uv_status(uv_timer_init(&shell->loop, &shell->timer), "timer", err);
    shell->timer.data = shell;
    for (size_t i = 0; status == GK_OK && i < GK_ARRAY_COUNT(numbers); i++) {
        status = uv_status(uv_signal_init(&shell->loop, &shell->signals[i]), "signal", err);
        shell->signals[i].data = shell;
        /* Ctrl-C of the command's terminal reaches a private daemon too: its parent decides when it
         * ends. */
        if (status == GK_OK && !(shell->options->is_private && numbers[i] == SIGINT)) {
            status = uv_status(uv_signal_start(&shell->signals[i], on_signal, numbers[i]), "signal",
                               err);
        }
    }
    if (status == GK_OK && shell->options->is_private) {
        (void)signal(SIGINT, SIG_IGN); /* a known signal */
        status = uv_status(uv_pipe_init(&shell->loop, &shell->input, 0), "stdin", err);
        shell->input.data = shell;
        shell->input_open = status == GK_OK;
        if (status == GK_OK) {
            status = uv_status(uv_pipe_open(&shell->input, STDIN_FILENO),
                               "--private needs a pipe on stdin", err);
        }
        if (status == GK_OK) {
            status = uv_status(uv_read_start((uv_stream_t *)&shell->input, on_alloc, on_input),
                               "stdin", err);
        }
    }
    if (status == GK_OK) {
        status = gk_loop_watch(&shell->loop, shell->link, on_ready, shell, &shell->watch, err);
    }
    return status;
}

/* A file that came with a backup. */
static enum gk_status take_file(void *context, const void *bytes, size_t size, struct gk_err *err)
{
    struct gk_core_files files = gk_blobs_files(context);
    struct gk_hash hash = gk_hash_bytes(bytes, size);
    enum gk_status status = GK_OK;
    size_t at = 0;
    do {
        size_t piece = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        status = files.put(files.context, &hash, (int64_t)at, (int64_t)size,
                           (const char *)bytes + at, piece, err);
        at += piece;
    } while (status == GK_OK && at < size);
    return status;
}

static enum gk_status start(struct shell *shell, struct gk_err *err)
{
    const struct gk_shell_options *options = shell->options;
    char *store = gk_asprintf("%s/%s", options->state_dir, GK_STATE_STORE);
    enum gk_status status = store ? gk_db_open(store, options->may_migrate, &shell->db, err)
                                  : gk_fail(err, GK_NOMEM, "out of memory");
    free(store);
    if (status == GK_OK) {
        status = gk_db_start(shell->db, &shell->epoch, err);
    }
    if (status == GK_OK) {
        status = gk_blobs_create(options->state_dir, &shell->blobs, err);
    }
    if (status == GK_OK) {
        status = gk_db_files_out(shell->db, take_file, shell->blobs, err);
    }
    if (status == GK_OK) {
        status = make_core(shell, err);
    }
    if (status == GK_OK) {
        status = gk_db_commit(shell->db, err); /* leases of ended jobs may be gone */
    }
    if (status == GK_OK && options->http) {
        status = gk_http_start(options->http, &shell->http, err);
    }
    if (status == GK_OK) {
        status = gk_link_bind(options->endpoint, &shell->link, err);
    }
    if (status == GK_OK) {
        status = gk_lock_write(options->lock_fd, getpid(), gk_link_endpoint(shell->link),
                               shell->epoch, err);
    }
    return status == GK_OK ? start_handles(shell, err) : status;
}

static void close_one(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void stop(struct shell *shell)
{
    if (shell->core && shell->link && shell->result == GK_OK) {
        gk_core_say_bye(shell->core);
        if (gk_db_commit(shell->db, &shell->why) == GK_OK) {
            flush(shell);
            (void)gk_db_commit(shell->db, NULL); /* at worst a worker's last_seen is missing */
        }
    }
    if (shell->watch) {
        gk_loop_unwatch(shell->watch);
    }
    uv_walk(&shell->loop, close_one, NULL);
    (void)uv_run(&shell->loop, UV_RUN_DEFAULT); /* runs the close callbacks */
    (void)uv_loop_close(&shell->loop);          /* no handle is left */
    gk_http_stop(shell->http);
    gk_link_destroy(shell->link);
    gk_core_destroy(shell->core);
    gk_blobs_destroy(shell->blobs);
    if (shell->db && shell->result == GK_OK) {
        (void)gk_db_checkpoint(shell->db, true,
                               NULL); /* recovered from the WAL at the next start otherwise */
    }
    gk_db_close(shell->db);
}

enum gk_status gk_shell_run(const struct gk_shell_options *options, struct gk_err *err)
{
    struct shell *shell = calloc(1, sizeof *shell);
    if (!shell || uv_loop_init(&shell->loop) != 0) {
        free(shell);
        return gk_fail(err, GK_NOMEM, "out of memory for the loop");
    }
    shell->options = options;
    shell->clock = gk_clock_real();
    shell->result = start(shell, &shell->why);
    if (shell->result == GK_OK) {
        look_at_disk(shell, now_ns(shell));
        finish_tick(shell);
        if (printf("ready %s\n", gk_link_endpoint(shell->link)) < 0 || fflush(stdout) != 0) {
            end(shell, GK_CLOSED,
                &(struct gk_err){.status = GK_CLOSED, .text = "nobody reads our stdout"});
        }
    }
    if (shell->result == GK_OK) {
        (void)uv_run(&shell->loop,
                     UV_RUN_DEFAULT); /* ends by uv_stop: handles are left on purpose */
    }
    stop(shell);
    enum gk_status status = shell->result;
    if (status != GK_OK) {
        status = gk_fail(err, status, "%s", shell->why.text);
    }
    free(shell);
    return status;
}
