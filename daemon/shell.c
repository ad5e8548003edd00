/*
 * See shell.h. Start, loop, end; what happens within is in shell_tick.c, shell_beat.c and
 * shell_tell.c.
 */
#include "daemon/shell_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/state_dir.h"
#include "daemon/epoch_file.h"
#include "daemon/lock.h"

#define PIECE_BYTES (256u << 10) /* of a file that came with a backup */

uint64_t shell_now(struct shell *shell)
{
    return shell->clock.monotonic_ns(shell->clock.context) - shell->skipped_ns;
}

uint64_t shell_wall(struct shell *shell)
{
    return shell->clock.wall_ms(shell->clock.context);
}

void shell_end(struct shell *shell, enum gk_status status, const struct gk_err *why)
{
    if (status != GK_OK && shell->result == GK_OK) {
        shell->result = status;
        shell->why = *why;
    }
    shell->ending = true;
    uv_stop(&shell->loop);
}

void shell_turn(struct shell *shell)
{
    uint64_t now = shell->clock.monotonic_ns(shell->clock.context), away = now - shell->turned_ns;
    shell->stats.turns++;
    shell->turned_ns = now;
    if (away <= STALL_NS) {
        return;
    }
    shell->skipped_ns += away - STALL_NS;
    shell->stats.stalls++;
    if (gk_log_begin(shell->options->log, GK_EVENT_LOOP_STALL)) {
        gk_log_real(shell->options->log, "seconds", (double)away / 1e9);
        gk_log_text(shell->options->log, "text",
                    "the loop was away; nothing expires because of it");
        gk_log_end(shell->options->log);
    }
}

enum gk_status shell_make_core(struct shell *shell, const struct gk_core_counters *counters,
                               struct gk_err *err)
{
    struct gk_core_setup setup = {.db = shell->db,
                                  .files = gk_blobs_files(shell->blobs),
                                  .keys = gk_gate_keys(&shell->gate),
                                  .epoch = shell->epoch,
                                  .now_ns = shell_now(shell),
                                  .wall_ms = shell_wall(shell),
                                  .is_private = shell->options->is_private,
                                  .version = shell->options->version,
                                  .pid = getpid(),
                                  .counters = counters};
    return gk_core_create(&setup, &shell->core, err);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct shell *shell = handle->data;
    switch (number) {
    case SIGHUP:
        tell_reload(shell);
        break;
    case SIGUSR1:
        tell_level(shell);
        break;
    default:
        gk_log_say(shell->options->log, GK_EVENT_STOP, "signal %d", number);
        shell_end(shell, GK_OK, NULL);
        break;
    }
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
        shell_end(stream->data, GK_OK, NULL);
    }
}

static enum gk_status uv_status(int rc, const char *doing, struct gk_err *err)
{
    return rc == 0 ? GK_OK : gk_fail(err, GK_INTERNAL, "%s: %s", doing, uv_strerror(rc));
}

static enum gk_status start_handles(struct shell *shell, struct gk_err *err)
{
    static const int numbers[SHELL_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    enum gk_status status = uv_status(uv_timer_init(&shell->loop, &shell->timer), "timer", err);
    shell->timer.data = shell;
    if (status == GK_OK) {
        status = uv_status(uv_timer_init(&shell->loop, &shell->beat), "timer", err);
        shell->beat.data = shell;
    }
    for (size_t i = 0; status == GK_OK && i < SHELL_SIGNALS; i++) {
        status = uv_status(uv_signal_init(&shell->loop, &shell->signals[i]), "signal", err);
        shell->signals[i].data = shell;
        /* Ctrl-C of the command's terminal, or its end, reaches a private daemon too: its parent
         * decides when it ends. */
        bool of_terminal = numbers[i] == SIGINT || numbers[i] == SIGHUP;
        if (status == GK_OK && !(shell->options->is_private && of_terminal)) {
            status = uv_status(uv_signal_start(&shell->signals[i], on_signal, numbers[i]), "signal",
                               err);
        }
    }
    if (status == GK_OK && shell->options->is_private) {
        (void)signal(SIGINT, SIG_IGN); /* known signals */
        (void)signal(SIGHUP, SIG_IGN);
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
        status = gk_loop_watch(&shell->loop, shell->link, tick_on_ready, shell, &shell->watch, err);
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

static bool holds_files(const char *path)
{
    DIR *folder = opendir(path);
    bool any = false;
    for (const struct dirent *entry; folder && !any && (entry = readdir(folder));) {
        any = entry->d_name[0] != '.';
    }
    if (folder) {
        (void)closedir(folder); /* it was only read */
    }
    return any;
}

/* A store that is gone while its files are there was lost or moved (a disk that is not mounted, a
 * half copy): an empty one in its place would look like a day on which nothing was ever tuned. */
static enum gk_status expect_store(const struct shell *shell, struct gk_err *err)
{
    struct stat info;
    if (lstat(shell->store, &info) == 0 || errno != ENOENT) {
        return GK_OK; /* opening it says what is wrong */
    }
    char *wal = gk_asprintf("%s-wal", shell->store);
    char *blobs = gk_asprintf("%s/blobs", shell->options->state_dir);
    enum gk_status status = wal && blobs ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && lstat(wal, &info) == 0 && info.st_size > 0) {
        status = gk_fail(err, GK_CORRUPT,
                         "%s is missing and its write-ahead log is there: put the store back, or "
                         "restore a backup into another state folder (gktune db restore)",
                         shell->store);
    } else if (status == GK_OK && holds_files(blobs)) {
        status = gk_fail(err, GK_CORRUPT,
                         "%s is missing and %s holds its files: put the store back, or restore a "
                         "backup (gktune db restore); to begin anew remove the folder's content",
                         shell->store, blobs);
    }
    free(wal);
    free(blobs);
    return status;
}

/* The epoch is told to nobody before it stands beside the store as well. */
static enum gk_status open_store(struct shell *shell, struct gk_err *err)
{
    const struct gk_shell_options *options = shell->options;
    struct gk_db_options open = {.may_migrate = options->settings->migrate};
    struct gk_db_past past = {0};
    bool jumped = false;
    shell->store = gk_asprintf("%s/%s", options->state_dir, GK_STATE_STORE);
    enum gk_status status = shell->store
                                ? gk_epoch_read(options->state_dir, &past, &open.must_exist, err)
                                : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK && !open.must_exist) {
        status = expect_store(shell, err); /* a folder that an older gktune left */
    }
    if (status == GK_OK) {
        status = gk_db_open_as(shell->store, &open, &shell->db, err);
    }
    past.wall_ms = shell_wall(shell);
    if (status == GK_OK) {
        status = gk_db_start_at(shell->db, &past, &shell->epoch, &jumped, err);
    }
    if (status == GK_OK) {
        status = gk_epoch_write(options->state_dir, shell->epoch, err);
    }
    if (status == GK_OK && jumped && gk_log_begin(options->log, GK_EVENT_STORE_RESTORED)) {
        gk_log_int(options->log, "epoch", shell->epoch);
        gk_log_text(options->log, "text",
                    "the store comes from a backup: every lease that was out is void");
        gk_log_end(options->log);
    }
    return status;
}

static enum gk_status start(struct shell *shell, struct gk_err *err)
{
    const struct gk_shell_options *options = shell->options;
    enum gk_status status = open_store(shell, err);
    if (status == GK_OK) {
        status = gk_blobs_create(options->state_dir, &shell->blobs, err);
    }
    if (status == GK_OK) {
        status = gk_db_files_out(shell->db, take_file, shell->blobs, err);
    }
    if (status == GK_OK) {
        status = shell_make_core(shell, NULL, err);
    }
    if (status == GK_OK) {
        status = gk_db_commit(shell->db, err); /* leases of ended jobs may be gone */
    }
    if (status == GK_OK) {
        status = gk_db_sync_apart(shell->db, err);
    }
    if (status == GK_OK && options->settings->http) {
        status = gk_http_start(options->settings->http, options->version, &shell->clock,
                               &shell->http, err);
    }
    if (status == GK_OK) {
        status = gk_gate_open(&shell->gate, options->state_dir, options->listen,
                              options->listen_count, err);
        shell->link = shell->gate.link;
    }
    if (status == GK_OK) {
        const char *endpoints[GK_LINK_ENDPOINTS_MAX];
        uint32_t count = 0;
        while (count < GK_LINK_ENDPOINTS_MAX && gk_link_endpoint_at(shell->link, count)) {
            endpoints[count] = gk_link_endpoint_at(shell->link, count);
            count++;
        }
        status = gk_lock_write(options->lock_fd, getpid(), endpoints, count, shell->epoch, err);
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
    (void)gk_notify_send(shell->options->notify, "STOPPING=1"); /* nobody may listen */
    if (shell->core && shell->link && shell->result == GK_OK) {
        gk_core_say_bye(shell->core);
        tick_last(shell);
    }
    if (shell->watch) {
        gk_loop_unwatch(shell->watch);
    }
    uv_walk(&shell->loop, close_one, NULL);
    while (uv_run(&shell->loop, UV_RUN_DEFAULT) != 0) {
        /* runs the close callbacks, waits for a sync; uv_stop() may have come once more */
    }
    (void)uv_loop_close(&shell->loop); /* no handle is left */
    gk_http_stop(shell->http);
    gk_gate_close(&shell->gate);
    gk_buf_fini(&shell->body);
    gk_core_destroy(shell->core);
    gk_blobs_destroy(shell->blobs);
    if (shell->db && shell->result == GK_OK) {
        (void)gk_db_checkpoint(shell->db, true,
                               NULL); /* recovered from the WAL at the next start otherwise */
    }
    gk_db_close(shell->db);
    uv_sem_destroy(&shell->sync_done);
    free(shell->store);
}

enum gk_status gk_shell_run(const struct gk_shell_options *options, struct gk_err *err)
{
    struct shell *shell = calloc(1, sizeof *shell);
    if (!shell || uv_loop_init(&shell->loop) != 0) {
        free(shell);
        return gk_fail(err, GK_NOMEM, "out of memory for the loop");
    }
    GK_ASSERT(uv_sem_init(&shell->sync_done, 0) == 0); /* fails for a bad value alone */
    shell->sync_work.data = shell;
    shell->options = options;
    shell->clock = gk_clock_real();
    shell->free_bytes = UINT64_MAX;
    shell->turned_ns = shell->clock.monotonic_ns(shell->clock.context);
    shell->result = start(shell, &shell->why);
    shell->turned_ns = shell->clock.monotonic_ns(shell->clock.context); /* recovery is no stall */
    if (shell->result == GK_OK) {
        beat_start(shell);
        beat_look(shell);
        tick_finish(shell);
    }
    if (shell->result == GK_OK) {
        tell_start(shell);
        beat_ready(shell);
        if (printf("ready %s\n", gk_link_endpoint(shell->link)) < 0 || fflush(stdout) != 0) {
            shell_end(shell, GK_CLOSED,
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
