/*
 * The daemon's core: what to do next, without sockets, files, clocks or threads.
 *
 * The shell hands in messages and the time; the core writes through db.h into the transaction of
 * the tick and queues messages. The shell commits and only then takes the queue and sends. Any
 * status but GK_OK from gk_core_message() or gk_core_tick() is a failure of the store: the shell
 * rolls back, throws the core away and either makes a new one from the store (GK_FULL) or ends the
 * program. What a peer did wrong is answered with an ERROR message and is GK_OK here. Tests and
 * simulation drive it with a scripted worker and their own time.
 */
#ifndef GK_DAEMON_CORE_H
#define GK_DAEMON_CORE_H

#include "core/link.h"
#include "db/db.h"
#include "kernels/catalog.h"

/* Files by hash and catalogs out of them: blobs.c, or a test's own. */
struct gk_core_files {
    bool (*has)(void *context, const struct gk_hash *hash);
    /* One piece of a blob; pieces come in order. Stored when the last one made the hash right. */
    enum gk_status (*put)(void *context, const struct gk_hash *hash, int64_t offset, int64_t size,
                          const void *bytes, size_t count, struct gk_err *err);
    /* Up to 256 KiB from offset; *size_out is the whole size; bytes_out is malloc'd. */
    enum gk_status (*get)(void *context, const struct gk_hash *hash, int64_t offset,
                          char **bytes_out, size_t *count_out, int64_t *size_out,
                          struct gk_err *err);
    /* The catalog of a bundle whose blobs are all there; it lives until it was released as often as
     * it was given. */
    enum gk_status (*catalog)(void *context, const struct gk_json *files, const char *bundle_id,
                              const struct gk_catalog **catalog_out, struct gk_err *err);
    void (*release)(void *context, const struct gk_catalog *catalog); /* NULL: nothing to do */
    void *context;
};

struct gk_core_setup {
    struct gk_db *db; /* borrowed */
    struct gk_core_files files;
    int64_t epoch;
    uint64_t now_ns, wall_ms;
    bool is_private;
    const char *version; /* of the build, for `status` */
    int64_t pid;
};

struct gk_core_counters {
    uint64_t forbidden; /* a role was lacking */
    uint64_t messages, malformed, errors_sent, results, duplicates, stale, leases, expired, parked,
        picks;
    uint32_t sessions, open_jobs, held_leases, watchers;
};

struct gk_core;

/* Reads open jobs and leases; every persisted lease gets one fresh grace period. */
enum gk_status gk_core_create(const struct gk_core_setup *setup, struct gk_core **core_out,
                              struct gk_err *err);
void gk_core_destroy(struct gk_core *core);

/* One message of a peer. The message stays the caller's. */
enum gk_status gk_core_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, uint64_t now_ns, uint64_t wall_ms,
                               struct gk_err *err);
/* A message that did not decode: counted and answered. */
void gk_core_malformed(struct gk_core *core, const struct gk_peer *peer, const struct gk_err *why);
/* A peer that cannot be sent to any more. */
enum gk_status gk_core_peer_gone(struct gk_core *core, const struct gk_peer *peer, uint64_t now_ns,
                                 struct gk_err *err);
/* Expires, asks, leases, judges; *next_ns_out is when it wants to be called again at the latest. */
enum gk_status gk_core_tick(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                            uint64_t *next_ns_out, struct gk_err *err);
/* The next message to send, after the commit; false when there is none. The caller owns the
 * message. */
bool gk_core_take(struct gk_core *core, struct gk_peer *peer_out, struct gk_message *message_out);
/* Says BYE to every worker, for an orderly end. */
void gk_core_say_bye(struct gk_core *core);

/* Free bytes where the store lies: below the low-water mark new work is refused. */
void gk_core_set_free(struct gk_core *core, uint64_t bytes);
bool gk_core_wants_stop(const struct gk_core *core); /* a `stop` request was answered */
struct gk_core_counters gk_core_counters(const struct gk_core *core);

#define GK_CORE_FREE_LOW (UINT64_C(64) << 20) /* bytes kept for results of leases that are out */

#endif
