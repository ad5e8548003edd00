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
#include "core/record.h"
#include "daemon/histogram.h"
#include "daemon/notice.h"
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

/* How many failures there are: verdicts are counted by them. */
#define GK_CORE_ONE(name, text) +1
enum { GK_CORE_VERDICTS = 0 GK_FAILURE_MAP(GK_CORE_ONE) };
#undef GK_CORE_ONE

/* Statuses of refusals that are counted apart; the last one stands for all others. */
#define GK_CORE_REFUSALS                                                                           \
    {                                                                                              \
        GK_PROTOCOL, GK_VERSION, GK_STALE, GK_LIMIT, GK_FULL, GK_DENIED, GK_INPUT, GK_NOT_FOUND,   \
            GK_CONFLICT, GK_MISSING, GK_INTERNAL                                                   \
    }
#define GK_CORE_REFUSAL_COUNT 11

enum gk_priority_class { GK_PRIORITY_LOW, GK_PRIORITY_NORMAL, GK_PRIORITY_HIGH, GK_PRIORITIES };

/* What may be done with the disk that the store lies on. */
enum gk_core_disk {
    GK_CORE_DISK_OK,
    GK_CORE_DISK_LOW, /* no new work; results of what is out are stored */
    GK_CORE_DISK_FULL /* nothing is written: requests that read are answered, workers wait */
};

/* The admitted keys; all NULL where there are none. */
struct gk_core_keys {
    /* Reads them anew; how many are valid. On failure the old ones stay. */
    enum gk_status (*reload)(void *context, uint32_t *valid_out, struct gk_err *err);
    /* Whether the key of a peer may still be used; refreshes its roles. GK_DENIED. */
    enum gk_status (*look)(void *context, struct gk_peer *peer, struct gk_err *err);
    enum gk_status (*list)(void *context, struct gk_json **rows_out, struct gk_err *err);
    void *context;
};

struct gk_core_setup {
    struct gk_db *db; /* borrowed */
    struct gk_core_files files;
    struct gk_core_keys keys;
    int64_t epoch;
    uint64_t now_ns, wall_ms;
    bool is_private;
    const char *version; /* of the build, for `status` */
    int64_t pid;
    /* Of the core before this one in the same process: counts go on. NULL: from 0. */
    const struct gk_core_counters *counters;
};

/* Why samples were throttled, by NVML's clocks event reasons; what else is said is OTHER. */
enum gk_core_throttle {
    GK_CORE_THROTTLE_HW_SLOWDOWN,
    GK_CORE_THROTTLE_HW_THERMAL,
    GK_CORE_THROTTLE_POWER_BRAKE,
    GK_CORE_THROTTLE_SW_THERMAL,
    GK_CORE_THROTTLE_OTHER,
    GK_CORE_THROTTLES
};

/* How processes of workers ended that did not end by themselves. */
enum gk_core_child_exit {
    GK_CORE_EXECUTOR_CRASH,
    GK_CORE_EXECUTOR_TIMEOUT,
    GK_CORE_COMPILER_CRASH,
    GK_CORE_COMPILER_TIMEOUT,
    GK_CORE_COMPILER_MEMORY,
    GK_CORE_CHILD_EXITS
};

struct gk_core_counters {
    uint64_t forbidden;      /* a role was lacking */
    uint64_t not_owner;      /* results for what another worker holds */
    uint64_t conflicts;      /* the same result again, with other content */
    uint64_t suspended;      /* keys, after repeated errors */
    uint64_t replayed;       /* messages that came a second time */
    uint64_t gaps;           /* messages of a session were lost on their way */
    uint64_t sessions_begun; /* in this process: no number of one is used twice */
    uint64_t messages, malformed, errors_sent, results, duplicates, stale, leases, expired, parked,
        picks;
    uint64_t expired_silent;                  /* of expired: its worker was gone */
    uint64_t verdicts[GK_CORE_VERDICTS];      /* records stored, by failure; NONE: verified */
    uint64_t refusals[GK_CORE_REFUSAL_COUNT]; /* ERROR and REPLY that are not OK */
    uint64_t workers_came, workers_lost, workers_rejected, devices_fenced_total;
    uint64_t jobs_done, jobs_failed, jobs_cancelled, queue_dropped, notices_lost, backups;
    uint64_t backup_wall_ms;                   /* of the last backup; 0: none */
    uint64_t job_done_ms, night_done_ms;       /* the last job without and with a suite that
                                                     * ended well; 0: none in this store */
    uint64_t throttled[GK_CORE_THROTTLES];     /* samples, by reason */
    uint64_t shared;                           /* samples beside another process */
    uint64_t child_exits[GK_CORE_CHILD_EXITS]; /* as results tell of them */
    uint64_t damaged;                          /* trials that the scrub found damaged */
    struct gk_histogram compile_s, verify_s, measure_s;
    uint32_t sessions, open_jobs, held_leases, watchers;
    /* As they are now. */
    uint32_t workers_quiet, devices_ok, devices_fenced, jobs_submitted, jobs_searching,
        jobs_confirming, jobs_paused;
    uint32_t dead_letters;                /* trials and configs that wait for an operator */
    uint32_t fences;                      /* devices that get no lease, connected or not */
    uint32_t draining;                    /* 1: no new work is taken */
    uint32_t drained_workers;             /* connected ones that an operator empties */
    uint64_t trials_ready, trials_leased; /* of the searches in memory */
    /* How long the job that was let wait longest has had nothing out, though it might have. */
    double oldest_ready_s[GK_PRIORITIES];
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
/* The same with the body as text (body[size] is a NUL; message->body is not looked at): what comes
 * most often is read where it lies. A body that does not parse is GK_OK, counted and answered. */
enum gk_status gk_core_message_text(struct gk_core *core, const struct gk_peer *peer,
                                    const struct gk_message *message, const char *body, size_t size,
                                    uint64_t now_ns, uint64_t wall_ms, struct gk_err *err);
/* A message that did not decode: counted and answered. */
enum gk_status gk_core_malformed(struct gk_core *core, const struct gk_peer *peer,
                                 const struct gk_err *why, uint64_t now_ns, struct gk_err *err);
/* Reads the admitted keys anew and ends what a revoked one had. GK_INPUT: the file is bad and the
 * old ones stay; anything else is a failure of the store. */
enum gk_status gk_core_reload_keys(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                                   uint32_t *valid_out, struct gk_err *err);
/* A peer that cannot be sent to any more. */
enum gk_status gk_core_peer_gone(struct gk_core *core, const struct gk_peer *peer, uint64_t now_ns,
                                 struct gk_err *err);
/* Expires, asks, leases, judges; *next_ns_out is when it wants to be called again at the latest. */
enum gk_status gk_core_tick(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                            uint64_t *next_ns_out, struct gk_err *err);
/* The next message to send, after the commit; false when there is none. The caller owns the
 * message. */
bool gk_core_take(struct gk_core *core, struct gk_peer *peer_out, struct gk_message *message_out);
/* How many there are. */
uint32_t gk_core_waiting(const struct gk_core *core);
uint32_t gk_core_sessions(const struct gk_core *core); /* workers that are connected */
/* gk_core_take() with the body as canonical text: reset first, message_out->body is NULL. */
bool gk_core_take_text(struct gk_core *core, struct gk_peer *peer_out,
                       struct gk_message *message_out, struct gk_buf *body);
/* Whether messages are left unread: nobody is called silent meanwhile. Before each tick. */
void gk_core_set_backlog(struct gk_core *core, bool more);
/* Work beside serving (backups, checks, pruning, the scrub), a bounded step a call. Between two
 * ticks, with no transaction open; what it wrote is committed and what it queued is sent as after a
 * tick. has_care: there is some to do now. */
bool gk_core_has_care(const struct gk_core *core);
enum gk_status gk_core_care(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                            struct gk_err *err);
/* Forgets what was queued and answers what has_care() speaks of with this status: for a core that
 * is thrown away. */
void gk_core_abandon(struct gk_core *core, enum gk_status status, const char *text);
/* Says BYE to every worker, for an orderly end. */
void gk_core_say_bye(struct gk_core *core);

/* The next notice, after the commit; false when there is none. Bounded: what happens in one tick
 * beyond GK_CORE_NOTICES is counted. */
bool gk_core_take_notice(struct gk_core *core, struct gk_notice *notice_out);
#define GK_CORE_NOTICES 256

/* What the shell found of the disk; free_bytes and resume_bytes are for messages. */
void gk_core_set_disk(struct gk_core *core, enum gk_core_disk disk, uint64_t free_bytes,
                      uint64_t resume_bytes);
bool gk_core_wants_stop(const struct gk_core *core); /* a `stop` request was answered */
struct gk_core_counters gk_core_counters(const struct gk_core *core);

#endif
