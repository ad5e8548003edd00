/*
 * One tick: take what is there (bounded), step the core, one COMMIT, sync, then send. A tick that
 * cannot be stored sends nothing. A full disk makes a new core from the store as it is, which
 * writes nothing until there is room; any other failure ends the program, and the next start
 * recovers.
 *
 * A sync takes as long as a tick, and the disk does it alone. So a thread of libuv's pool waits for
 * it, while the loop takes the messages of the next tick. That tick is stepped and committed when
 * the sync is over: one commit a sync, and what the core has queued until the sync began is sent
 * when it has ended.
 *
 * The log grows with every commit. When it is long its pages are copied into the store's file, and
 * the same thread syncs that: again messages are taken meanwhile, and nothing is committed.
 */
#include "daemon/shell_internal.h"

#include <inttypes.h>

#define IDLE_CHECKPOINT_NS UINT64_C(2000000000) /* nothing happened for so long */
#define SLOW_COMMIT_S      1.0
/* A tick takes as many messages as there are workers, and so many at least: half of what a fleet
 * can send at once, a RESULT and a READY each. So one half is at work while the other waits for its
 * sync, and a disk that stands still stops the loop, as it did before there was a thread, instead
 * of filling memory. */
#define MESSAGES_LEAST 256
/* A disk that is full although it says that it has room (a quota): tried again after so long, and
 * twice as long each time. */
#define FULL_WAIT_NS      UINT64_C(1000000000)
#define FULL_WAIT_MOST_NS UINT64_C(60000000000)

static enum gk_store_error error_of(enum gk_status status)
{
    switch (status) {
    case GK_FULL:
        return GK_STORE_ERROR_FULL;
    case GK_IO:
        return GK_STORE_ERROR_IO;
    case GK_CORRUPT:
        return GK_STORE_ERROR_CORRUPT;
    case GK_BUSY:
        return GK_STORE_ERROR_BUSY;
    case GK_NOMEM:
        return GK_STORE_ERROR_MEMORY;
    default:
        return GK_STORE_ERROR_OTHER;
    }
}

/* Of a core that goes nothing is sent but that its backups and checks go with it: a client waits
 * for these for an hour. */
static void tell_abandoned(struct shell *shell)
{
    struct gk_peer peer;
    struct gk_message message;
    gk_core_abandon(shell->core, GK_FULL, "the disk of the store is full");
    while (gk_core_take(shell->core, &peer, &message)) {
        (void)gk_link_send(shell->link, &peer, &message, NULL); /* or it learns by its timeout */
        gk_message_fini(&message);
    }
}

/* What the core believes is not what the store holds: a new one. */
static bool renew_core(struct shell *shell)
{
    struct gk_err err = {0};
    struct gk_core_counters counters = gk_core_counters(shell->core);
    tell_abandoned(shell);
    gk_core_destroy(shell->core);
    shell->core = NULL;
    shell->covered = 0; /* they were of that core */
    enum gk_status status = shell_make_core(shell, &counters, &err);
    if (status != GK_OK) {
        shell_end(shell, status, &err);
    }
    return status == GK_OK;
}

/* Workers are told that their session is gone, and keep what they have until they are let in. */
static void go_full(struct shell *shell, const struct gk_err *why)
{
    uint64_t now = shell_now(shell);
    bool again = shell->full_until_ns > 0 && now < shell->full_until_ns + shell->full_wait_ns;
    shell->full_wait_ns = !again                                    ? FULL_WAIT_NS
                          : shell->full_wait_ns < FULL_WAIT_MOST_NS ? shell->full_wait_ns * 2
                                                                    : FULL_WAIT_MOST_NS;
    shell->full_until_ns = now + shell->full_wait_ns;
    shell->disk = GK_CORE_DISK_FULL;
    if (gk_log_begin(shell->options->log, GK_EVENT_STORE_FULL)) {
        gk_log_text(shell->options->log, "text", why->text);
        gk_log_text(shell->options->log, "effect",
                    "nothing is lost and nothing is written: reads go on, results stay with their "
                    "workers, everything resumes by itself when there is room");
        gk_log_int(shell->options->log, "retry_s", (int64_t)(shell->full_wait_ns / 1000000000u));
        gk_log_end(shell->options->log);
    }
    if (renew_core(shell)) {
        gk_db_rollback(shell->db); /* what loading would tidy up waits as well */
        gk_core_set_disk(shell->core, shell->disk, 0, shell->options->settings->disk_resume_bytes);
    }
}

void tick_store_failed(struct shell *shell, enum gk_status status, const struct gk_err *why)
{
    shell->stats.store_errors[error_of(status)]++;
    gk_db_rollback(shell->db);
    if (status == GK_FULL) {
        go_full(shell, why);
        return;
    }
    if (gk_log_begin(shell->options->log, GK_EVENT_STORE_ERROR)) {
        gk_log_text(shell->options->log, "code", gk_status_name(status));
        gk_log_text(shell->options->log, "text", why->text);
        gk_log_text(shell->options->log, "effect",
                    "the program ends at once: nothing of this tick was acknowledged, and the "
                    "next start recovers");
        gk_log_end(shell->options->log);
    }
    shell_end(shell, status, why);
}

/* An answer that does not fit a message: said, or whoever asked would wait until it gives up. */
static void tell_too_long(struct shell *shell, const struct gk_peer *peer,
                          const struct gk_message *message, const struct gk_err *why)
{
    struct gk_message reply = *message;
    reply.body = gk_json_new_object();
    if (message->type == GK_MSG_REPLY &&
        gk_json_set_string(reply.body, "status", gk_status_name(GK_LIMIT)) &&
        gk_json_set_string(reply.body, "text", why->text)) {
        (void)gk_link_send(shell->link, peer, &reply, NULL); /* else it waits, as before */
    }
    gk_message_fini(&reply);
}

/* Sends the first `count` of what waits. */
static void flush(struct shell *shell, uint32_t count)
{
    struct gk_peer peer;
    struct gk_message message;
    for (; count > 0 && gk_core_take_text(shell->core, &peer, &message, &shell->body); count--) {
        struct gk_err err = {0};
        const char *name = gk_message_name(message.type);
        enum gk_status status = gk_link_send_text(shell->link, &peer, &message, shell->body.data,
                                                  shell->body.size, &err);
        if (status == GK_OK) {
            continue;
        }
        shell->stats.send_again += status == GK_AGAIN;
        shell->stats.send_closed += status == GK_CLOSED;
        if (gk_log_begin(shell->options->log, GK_EVENT_SEND_FAILED)) {
            gk_log_text(shell->options->log, "message", name);
            gk_log_text(shell->options->log, "key", peer.key[0] ? peer.key : NULL);
            gk_log_text(shell->options->log, "from", peer.host[0] ? peer.host : NULL);
            gk_log_text(shell->options->log, "text", err.text);
            gk_log_end(shell->options->log);
        }
        if (status == GK_LIMIT) {
            tell_too_long(shell, &peer, &message, &err);
        }
        if (status == GK_AGAIN || status == GK_CLOSED) {
            status = gk_core_peer_gone(shell->core, &peer, shell_now(shell), &err);
            if (status != GK_OK) {
                tick_store_failed(shell, status, &err);
                return;
            }
        }
    }
}

static enum gk_status commit(struct shell *shell, uint64_t now, struct gk_err *err)
{
    if (!gk_db_is_dirty(shell->db)) {
        return GK_OK;
    }
    shell->wal_dirty = true;
    shell->last_work_ns = now;
    shell->commit_ns =
        shell->unsynced ? shell->commit_ns : shell->clock.monotonic_ns(shell->clock.context);
    enum gk_status status = gk_db_commit(shell->db, err);
    uint64_t rows = gk_db_rows_written(shell->db);
    shell->stats.commits++;
    if (status == GK_OK) { /* what was rolled back is no batch */
        shell->unsynced = true;
        gk_histogram_observe_count(&shell->stats.batch_rows, rows - shell->rows_before);
    }
    shell->rows_before = rows;
    return status;
}

/* ------------------------------------------------------------------ syncing */

static void on_work(uv_work_t *work)
{
    struct shell *shell = work->data;
    gk_db_sync_run(&shell->sync);
    uv_sem_post(&shell->sync_done);
}

static void tell_sync(struct shell *shell)
{
    uint64_t end = shell->clock.monotonic_ns(shell->clock.context);
    double took_s = (double)(end - shell->synced_from_ns) / 1e9;
    if (!shell->sync.of_pages) {
        gk_histogram_observe(&shell->stats.commit_s, took_s);
    }
    if (took_s > SLOW_COMMIT_S && gk_log_begin(shell->options->log, GK_EVENT_STORE_SLOW)) {
        gk_log_real(shell->options->log, "seconds", took_s);
        gk_log_text(shell->options->log, "text",
                    shell->sync.of_pages ? "a checkpoint's fsync took this long"
                                         : "a commit with its fsync took this long");
        gk_log_end(shell->options->log);
    }
}

/* The sync has ended: what waited for it goes. */
static void end_sync(struct shell *shell)
{
    struct gk_err err = {0};
    uv_sem_wait(&shell->sync_done);
    shell->sync_open = false;
    tell_sync(shell);
    enum gk_status status = gk_db_sync_end(shell->db, &shell->sync, &err);
    uint32_t covered = shell->covered;
    shell->covered = 0;
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
    } else if (shell->core) {
        flush(shell, covered);
    }
}

static void count_busy(struct shell *shell, uint64_t start)
{
    shell->stats.busy_s += (double)(shell_now(shell) - start) / 1e9;
}

static void on_after_work(uv_work_t *work, int canceled)
{
    struct shell *shell = work->data;
    (void)canceled; /* nobody cancels it */
    shell->syncing = false;
    if (shell->ending) {
        return; /* nobody looks at it any more, but for tick_last() */
    }
    shell_turn(shell);
    uint64_t start = shell_now(shell);
    if (shell->sync_open) {
        end_sync(shell);
    }
    if (shell->result == GK_OK) {
        tick_finish(shell);
    }
    count_busy(shell, start);
}

static void start_thread(struct shell *shell)
{
    shell->syncing = true;
    (void)uv_queue_work(&shell->loop, &shell->sync_work, on_work,
                        on_after_work); /* fails without a callback alone */
}

/* Whether the sync of what is committed may begin: by a thread, or here. */
static bool begin_sync(struct shell *shell)
{
    struct gk_err err = {0};
    enum gk_status status = gk_db_sync_begin(shell->db, &shell->sync, &err);
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
        return false;
    }
    shell->synced_from_ns = shell->commit_ns;
    shell->unsynced = false;
    shell->sync_open = true;
    shell->covered = gk_core_waiting(shell->core);
    return true;
}

/* What is queued may go when what is committed is synced; at once if all of it is. */
static void send_when_synced(struct shell *shell)
{
    if (shell->syncing) {
        return; /* its end brings the next tick */
    }
    if (!shell->unsynced) {
        flush(shell, UINT32_MAX);
    } else if (begin_sync(shell)) {
        start_thread(shell);
    }
}

/* The log is long. What it says last is synced here, since no message may be taken before its
 * pages are copied: that would open a transaction. */
static void send_and_copy(struct shell *shell)
{
    struct gk_err err = {0};
    bool copied = false;
    if (shell->syncing || !begin_sync(shell)) {
        return;
    }
    on_work(&shell->sync_work);
    end_sync(shell);
    if (shell->result != GK_OK || !shell->core) {
        return;
    }
    uint64_t begin = shell->clock.monotonic_ns(shell->clock.context);
    enum gk_status status = gk_db_copy_log(shell->db, &shell->sync, &copied, &err);
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
    } else if (copied) {
        shell->synced_from_ns = begin;
        shell->sync_open = true;
        start_thread(shell);
    }
}

void tick_leave_full(struct shell *shell)
{
    struct gk_err err = {0};
    if (shell->sync_open) {
        end_sync(shell); /* of pages: nothing may be committed before */
    }
    if (shell->result != GK_OK || !renew_core(shell)) {
        return;
    }
    gk_core_set_disk(shell->core, shell->disk, shell->free_bytes,
                     shell->options->settings->disk_resume_bytes);
    enum gk_status status = gk_db_commit(shell->db, &err);
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
        return;
    }
    shell->unsynced = true;
    if (gk_log_begin(shell->options->log, GK_EVENT_STORE_BACK)) {
        gk_log_int(shell->options->log, "free_bytes", (int64_t)shell->free_bytes);
        gk_log_text(shell->options->log, "text",
                    "there is room again: workers may come back with their results");
        gk_log_end(shell->options->log);
    }
}

/* A step of what goes on beside serving, if its turn has come: half of the time at most. Returns
 * whether another one waits. */
static bool take_care(struct shell *shell)
{
    struct gk_err err = {0};
    uint64_t begin = shell_now(shell);
    if (!gk_core_has_care(shell->core)) {
        return false;
    }
    if (begin < shell->care_after_ns || (shell->sync_open && shell->sync.of_pages)) {
        return true;
    }
    enum gk_status status = gk_core_care(shell->core, begin, shell_wall(shell), &err);
    if (status == GK_OK) {
        status = commit(shell, begin, &err);
    }
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
        return false;
    }
    send_when_synced(shell);
    uint64_t end = shell_now(shell);
    shell->care_after_ns = end + (end - begin);
    return shell->core && gk_core_has_care(shell->core);
}

void tick_finish(struct shell *shell)
{
    struct gk_err err = {0};
    uint64_t next = 0, now = shell_now(shell);
    shell->taken = 0;
    enum gk_status status = gk_core_tick(shell->core, now, shell_wall(shell), &next, &err);
    if (status == GK_OK) {
        status = commit(shell, now, &err);
    }
    if (status != GK_OK) {
        tick_store_failed(shell, status, &err);
        next = now + FULL_WAIT_NS;
    } else if (shell->unsynced && gk_db_log_is_long(shell->db)) {
        send_and_copy(shell);
    } else {
        send_when_synced(shell);
    }
    if (shell->result != GK_OK || !shell->core) {
        return; /* the loop is ending, and there may be no core any more */
    }
    tell_notices(shell);
    if (gk_core_wants_stop(shell->core)) {
        shell_end(shell, GK_OK, NULL);
    }
    if (status == GK_OK && take_care(shell)) {
        next = now; /* there is more */
    }
    if (shell->result != GK_OK || !shell->core) {
        return;
    }
    /* Also after a tick that was not stored: with nobody sending, only the timer sees that there is
     * room again. */
    uint64_t wait_ms = next > now ? (next - now) / 1000000 + 1 : 1;
    (void)uv_timer_start(&shell->timer, tick_on_timer, wait_ms, 0); /* the handle is valid */
}

void tick_last(struct shell *shell)
{
    struct gk_err err = {0};
    struct gk_db_sync sync = {0};
    if (shell->sync_open) {
        end_sync(shell); /* waits for it */
    }
    if (shell->result == GK_OK && gk_db_commit(shell->db, &err) == GK_OK &&
        gk_db_sync_begin(shell->db, &sync, &err) == GK_OK) {
        gk_db_sync_run(&sync);
        if (gk_db_sync_end(shell->db, &sync, &err) != GK_OK) {
            return; /* nothing of it is told; the next start recovers */
        }
        flush(shell, UINT32_MAX);
        (void)gk_db_commit(shell->db, NULL); /* at worst a worker's last_seen is missing */
        tell_notices(shell);
    }
}

static uint32_t messages_most(const struct shell *shell)
{
    uint32_t workers = gk_core_sessions(shell->core);
    return workers > MESSAGES_LEAST ? workers : MESSAGES_LEAST;
}

/* Takes what is there, so much a tick. Returns whether something was. */
static bool take_messages(struct shell *shell)
{
    bool any = false, drained = false;
    if (shell->result != GK_OK) {
        return false; /* the loop is ending, and there may be no core any more */
    }
    uint32_t most = messages_most(shell);
    while (shell->taken < most && shell->result == GK_OK) {
        struct gk_peer peer;
        struct gk_message message = {0};
        struct gk_err err = {0};
        enum gk_status status =
            gk_link_receive_text(shell->link, &peer, &message, &shell->body, &err);
        if (status == GK_AGAIN) {
            drained = true;
            break;
        }
        any = true;
        shell->taken++;
        if (status == GK_OK) {
            status =
                gk_core_message_text(shell->core, &peer, &message, gk_buf_text(&shell->body),
                                     shell->body.size, shell_now(shell), shell_wall(shell), &err);
            if (status != GK_OK) {
                tick_store_failed(shell, status, &err);
                break;
            }
        } else if (status == GK_DENIED) {
            continue; /* of a key that is revoked: counted by the link */
        } else if (status == GK_PROTOCOL || status == GK_VERSION) {
            struct gk_err why = err;
            status = gk_core_malformed(shell->core, &peer, &why, shell_now(shell), &err);
            if (status != GK_OK) {
                tick_store_failed(shell, status, &err);
                break;
            }
        } else {
            shell_end(shell, status, &err);
            return any;
        }
    }
    if (shell->core) {
        gk_core_set_backlog(shell->core, !drained);
    }
    return any;
}

/* While a sync lasts messages are taken and not stepped. */
static bool is_held_up(struct shell *shell)
{
    if (shell->sync_open && shell->taken >= messages_most(shell)) {
        uv_sem_wait(&shell->sync_done);
        uv_sem_post(&shell->sync_done); /* for end_sync(), which comes with the next turn */
    }
    return shell->syncing;
}

void tick_on_timer(uv_timer_t *timer)
{
    struct shell *shell = timer->data;
    struct gk_err err = {0};
    shell_turn(shell);
    uint64_t start = shell_now(shell);
    if (shell->wal_dirty && !shell->syncing && start - shell->last_work_ns > IDLE_CHECKPOINT_NS) {
        shell->wal_dirty = false;
        enum gk_status status = gk_db_checkpoint(shell->db, true, &err);
        if (status != GK_OK) {
            tick_store_failed(shell, status, &err);
        }
    }
    if (shell->result == GK_OK) {
        (void)take_messages(shell); /* before anybody is called silent */
    }
    if (shell->result == GK_OK && !is_held_up(shell)) { /* else the end of the sync steps */
        tick_finish(shell);
    }
    count_busy(shell, start);
}

void tick_on_ready(void *context)
{
    struct shell *shell = context;
    shell_turn(shell);
    uint64_t start = shell_now(shell);
    bool any = take_messages(shell);
    if (any && shell->result == GK_OK && !is_held_up(shell)) {
        tick_finish(shell);
    }
    count_busy(shell, start);
}
