/*
 * Inside of the daemon's core. core.c queue and dispatch; core_notice.c what the log and metrics
 * are told; core_full.c a full disk; core_job.c states, tasks, binding, ends; core_session.c
 * workers; core_keys.c keys; core_lease.c grants, results; core_search.c asks, tells; core_age.c
 * priorities; core_share.c turns of those who submit; core_fence.c devices without leases;
 * core_care.c work beside serving; core_final.c final rounds; core_stand.c those that need not be
 * held; core_spread.c one config on all GPUs
 * of a key; core_pick.c picks; core_rates.c counts and times of a job; core_load.c restart;
 * core_submit.c, core_suite.c and requests*.c the verbs of clients.
 */
#ifndef GK_DAEMON_CORE_INTERNAL_H
#define GK_DAEMON_CORE_INTERNAL_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/id_table.h"
#include "core/record.h"
#include "core/told.h"
#include "daemon/core.h"
#include "search/judge.h"
#include "search/strategy.h"

#define SECOND_NS    UINT64_C(1000000000)
#define HEARTBEAT_MS GK_HEARTBEAT_MS
#define LIVENESS     GK_LIVENESS
/* UUIDs have 40 bytes; a device without one is WORKER/DEVICE */
#define DEVICE_KEY_SIZE 96
#define CAUSE_SIZE      256
#define BACKLOG_NS      (5 * SECOND_NS) /* nobody expires for so long while messages wait unread */
/* Failures of the infrastructure, one after another, that fence a device. */
#define INFRA_IN_ROW 5
/* For leases whose worker is away, and for all of them after a start; longer than the longest way
 * back of a worker that lives. */
#define GRACE_NS       (GK_GRACE_MS * UINT64_C(1000000))
#define ATTEMPTS_MAX   3
#define KILLS_MAX      2 /* executors that a config may kill before it is quarantined */
#define BATCH_MODELLED 8 /* asks at a time where runs must not depend on timing */
#define BATCH_REAL     8 /* no fewer: arrays of so many hold either */
/* Tasks with their space and strategy in memory: some always, more of them while they are small. A
 * large fleet needs many: of one task a few batches are out at most. */
#define OPEN_TASKS_LEAST 16
#define OPEN_TASKS_MOST  32 /* some MB each, with their strategies */
#define OPEN_BYTES_MAX   (UINT64_C(48) << 20)
/* Searches of a job at once for each device: enough to fill it while one of them waits for its
 * batch. With more, all problems of a job would be searched before the first is judged, and a run
 * that is stopped would have no picks. */
#define SEARCHES_A_DEVICE 4
#define CREDIT_MAX        1024
#define SESSIONS_MAX      4096
#define DEVICES_MAX       64 /* of one worker */
#define WATCHERS_MAX      256
#define QUEUE_MAX         65536
#define LEASES_A_MESSAGE  8
#define GRANT_STEP        2     /* devices that wait for leases part by so many */
#define GRANT_EVENLY      16    /* of more devices than these leases part by more */
#define TASKS_MAX         40000 /* of one job */
#define NOTICES_MAX       GK_CORE_NOTICES
#define RETRY_NEWER_MS    60000 /* of a worker that is newer than this daemon */
#define RETRY_MANY_MS     30000 /* of a worker that found SESSIONS_MAX others */
#define RETRY_FULL_MS     5000  /* when a worker may come back to a daemon whose disk is full */
/* Finalists: a model's times are exact; a measured trial has a few samples, so more are looked at.
 */
#define FINALISTS_MODELLED 8
#define WITHIN_MODELLED    1.05
#define FINALISTS_LEAST    4
#define FINALISTS_MOST     8
#define WITHIN_MEASURED    1.05
#define PASSES_MODELLED    3 /* samples of a model are all equal */
#define PASSES_REAL        12
#define PASSES_SUSTAINED   6 /* of 0.3 s an entry, forth and back in turn */
#define SUSTAINED_ALL      2 /* of them with all entries: forth and back */
#define ENTRIES_SUSTAINED  4 /* after that, beside default, incumbent, vendor and the twins */
#define COMPILE_S          60
#define RUN_S              120
#define RUN_MODELLED_S     600 /* an interpreter needs longer than a GPU */
#define FINAL_BUDGET_S     60
#define FINAL_SECONDS_MIN  15 /* of a small budget: room for the passes that a verdict needs */
#define SPREAD_PASSES      4  /* of one config on one GPU */
#define SPREAD_BUDGET_S    15
#define SPREAD_WAIT_NS     (120 * SECOND_NS) /* for GPUs that are busy; then those measured count */
#define SPREAD_PROBLEMS    32                /* whose spread says how far the GPUs of a key part */
#define SPREAD_MOST        0.05 /* a GPU that is farther off is ill: that is no noise */
#define ARCHS_SEEN_MS      (UINT64_C(30) * 24 * 3600 * 1000)

enum job_state {
    JOB_SUBMITTED,
    JOB_SEARCHING,
    JOB_CONFIRMING,
    JOB_PAUSED,
    JOB_DONE,
    JOB_FAILED,
    JOB_CANCELLED
};
enum task_state {
    TASK_WAITING,
    TASK_SEARCHING,
    TASK_FINAL,
    TASK_SPREAD, /* judged; its best is measured on every GPU of its key */
    TASK_JUDGED,
    TASK_DONE,
    TASK_FAILED,
    TASK_CANCELLED
};
enum trial_state { TRIAL_PROPOSED, TRIAL_LEASED, TRIAL_RECORDED, TRIAL_PARKED };

/* A trial's config as others name it. */
struct trial_words {
    char *config; /* canonical text */
    char config_id[GK_HASH_TEXT_SIZE];
    char template_name[GK_NAME_MAX];
};

/* There may be a million of them: what the index says is not kept twice. */
struct trial {
    int64_t id;
    uint32_t seq, batch;
    uint32_t index;            /* in the space; UINT32_MAX: not legal there any more */
    struct trial_words *words; /* NULL: trial_words() makes them again */
    enum trial_state state;
    int64_t attempt, token;
    bool ok;
    enum gk_failure failure;
    double time_ns, cost_ns;
    uint32_t sample_count; /* that time_ns is the median of */
    uint64_t resource_rank;
};

/* What a task needs in memory while it searches or is judged. */
struct search {
    const struct gk_catalog *catalog; /* to be released */
    const struct gk_op *op;
    struct gk_device_props props;
    struct gk_problem problem;
    struct gk_space_def def;
    struct gk_space *space;
    const struct gk_strategy_ops *ops;
    struct gk_strategy *strategy;
    struct trial *trials;
    uint32_t count, capacity;
    uint32_t told; /* trials [0, told) were told */
    uint32_t batches;
    bool used_up;   /* the strategy has no more */
    bool has_twins; /* other tasks of this problem and gpu: trials may be known already */
    double best_ns; /* of told ones; 0 while there is none */
};

struct task {
    int64_t id, problem_id;
    struct job *job;
    char *op, *canonical;
    char arch[32], gpu[64]; /* gpu "": not bound */
    enum task_state state;
    char *nvrtc;
    struct gk_json *props, *hints;
    char *default_config, *incumbent, *flags;
    int64_t strategy_version; /* 0: nothing was asked yet */
    int64_t trials, failed, attempt;
    double spent_ns;
    struct search *search;     /* NULL: closed */
    struct gk_json *round;     /* entries of the final round: [{trial config template role}] */
    uint64_t reserved_session; /* whose device is being emptied for the final round; 0: nobody's */
    uint32_t reserved_device;
    uint32_t leases; /* out now */
    /* TASK_SPREAD: GPUs that were given its config, whatever became of it, and when to wait for
     * others no longer. */
    char (*spread_keys)[DEVICE_KEY_SIZE]; /* GK_DB_SPREADS_A_TASK of them; NULL in other states */
    uint32_t spread_count;
    uint64_t spread_until_ns;
};

/* See core_share.c. */
struct share {
    char key[GK_KEY_NAME_MAX]; /* "": the local socket */
    int64_t priority;
    uint32_t jobs, leases, open_tasks;
    uint64_t waited_ns; /* spent by leases */
    bool waits, served; /* since the last look */
    uint64_t pass;      /* in which it had its turn */
    uint64_t turn;      /* number of its last lease, of all that were given */
};

struct job {
    int64_t id;
    struct share *share; /* that it counts to */
    enum job_state state;
    bool private_ok, finishing, spread, fresh;
    int64_t budget_trials; /* 0: seconds */
    double budget_ns;
    char *strategy, *policy, *bundle, *what;
    int64_t seed, priority;
    int64_t effective;  /* priority with what waiting added: the order of core->jobs */
    uint64_t waited_ns; /* spent by leases, see core_age.c */
    uint64_t ready_ns;  /* since when it waits for a lease that it could use; 0: it does not */
    bool served;        /* it got one since the last look */
    char *suite, *slot, *night;         /* of a suite; NULL: of none */
    uint64_t until_ms;                  /* wall time when asking ends; 0: never */
    struct gk_json *incumbents, *files; /* files of the bundle, as a LEASE carries them */
    char *files_text;                   /* the same as text, made once; NULL before it is needed */
    struct task *tasks;
    uint32_t task_count, done_count, cursor;
    uint64_t full_tick; /* in this tick no more tasks of its kind could be opened: */
    const char *full_arch, *full_gpu;
    uint64_t served_ns; /* when it last got a lease, or lost one; for the age of what waits */
    uint64_t mark_ns; /* end of the last stretch of its clock; 0: it does not run (core_rates.c) */
    int64_t device_keys[64]; /* devices that got a lease; of more the rest is not counted */
    uint32_t device_count;
};

struct lease {
    int64_t token, trial, attempt, worker;
    bool is_final, started;
    bool is_spread; /* of a final one: a config on one more GPU, which judges nothing */
    struct job *job;
    struct task *task;
    char device_key[DEVICE_KEY_SIZE];
    uint64_t session; /* 0: its worker is away */
    uint32_t device;
    uint64_t deadline_ns; /* UINT64_MAX: as long as the session lives */
    int64_t passes;
    uint64_t granted_ms;
};

struct session {
    bool drained; /* no new lease: an operator empties it */
    uint64_t id;
    struct gk_peer peer;
    int64_t worker;
    char nvrtc[64], host[128], boot[64]; /* as HELLO said; cut, for comparing and messages */
    bool keeps_bundle;                   /* a LEASE may leave out the files of the one before it */
    char last_bundle[GK_HASH_TEXT_SIZE]; /* whose files the last LEASE was about; "": none */
    uint64_t seq_seen;                   /* of its messages: the next one has the next number */
    uint64_t heard_ns, sent_seq, pinged_ns;
    bool quiet;
    uint32_t device_count;
    struct {
        struct gk_device_props props;
        struct gk_json *json;
        int64_t credit;
        bool ok;
        bool fenced;           /* as the store says; kept equal by core_fence.c */
        uint32_t infra_in_row; /* results that were the infrastructure's failure, in a row */
        char key[DEVICE_KEY_SIZE];
        uint32_t leases;
        bool in_final;
        int64_t last_job; /* whose trial it was given last, and which of its tasks */
        uint32_t last_task;
    } * devices; /* device_count of them, made with the session: most workers have one */
};

struct fence {
    char key[DEVICE_KEY_SIZE], origin[16], cause[CAUSE_SIZE];
    int64_t since_ms;
};

struct watcher {
    struct gk_peer peer;
    int64_t job, after;
    bool stale;
};

struct out {
    struct gk_peer peer;
    struct gk_message message;
    struct gk_buf text; /* the body as canonical text, where message.body is NULL */
};

#define PENALTIES_MAX  64 /* keys that erred lately, each from one host */
#define PENALTY_ERRORS 5  /* within a minute: then the key is suspended */

struct penalty {
    char key[GK_KEY_NAME_MAX], host[GK_PEER_HOST_SIZE];
    uint64_t since_ns, last_ns, suspended_ns; /* suspended until */
    uint32_t errors;                          /* since since_ns */
};

struct gk_core {
    struct gk_db *db;
    struct gk_core_files files;
    struct gk_core_keys keys;
    struct penalty penalties[PENALTIES_MAX];
    uint32_t penalty_count;
    int64_t epoch, pid;
    char version[64], store_id[40]; /* store_id: whose epochs and tokens these are */
    bool is_private, stopping;
    uint64_t now_ns, wall_ms;
    enum gk_core_disk disk;
    uint64_t free_bytes, resume_bytes; /* for messages */
    uint64_t settled_ns; /* workers that were here before are back by then, or will not come */
    struct job **jobs;   /* open ones, priority first, then age */
    uint32_t job_count, job_capacity;
    struct session **sessions;
    uint32_t session_count;
    struct gk_table sessions_by_id, sessions_by_peer; /* by a hash of the peer's bytes */
    struct lease *leases;
    uint32_t lease_count, lease_capacity;
    struct gk_table lease_places; /* by token: place + 1 */
    struct gk_told told;          /* the record at hand: kept for its memory */
    struct gk_buf event_text;     /* the event at hand, as well */
    struct watcher watchers[WATCHERS_MAX];
    uint32_t watcher_count;
    bool new_events;
    struct out *queue;
    uint32_t queue_head, queue_count, queue_capacity;
    struct gk_core_counters counters;
    struct gk_notice notices[NOTICES_MAX];
    struct gk_notice notice_scratch; /* where one more is written when the ring is full */
    uint32_t notice_head, notice_count;
    struct fence *fences;
    uint32_t fence_count;
    int64_t drain_ms; /* since when no new work is taken; 0: it is */
    char drain_reason[CAUSE_SIZE];
    int64_t dead_letters;
    bool any_pardons;
    uint64_t aged_ns;      /* when ageing was last looked at */
    uint64_t backlog_ns;   /* since when messages wait unread; 0: none do */
    struct care *care;     /* what goes on beside serving: core_care.c */
    uint32_t spread_tasks; /* in TASK_SPREAD */
    struct share **shares;
    uint32_t share_count;
    uint64_t share_pass, share_turns;
    uint32_t open_tasks;
    uint64_t open_bytes; /* of their spaces */
    uint64_t tick;
    bool finals_maybe;   /* a task waits for its final round */
    uint32_t grant_from; /* the session that is served first: it was left waiting the last time */
    /* The kind of device that there was no trial for, in this tick. */
    struct {
        uint64_t tick;
        char arch[32], gpu[64], nvrtc[64];
    } starved;
    uint64_t seq; /* of messages to peers without a session */
};

/* ---- core.c ---- */
/* Queues a message; takes the body. A full queue drops it: the peer asks again or comes back with
 * HELLO. */
void core_send(struct gk_core *core, const struct gk_peer *peer, enum gk_message_type type,
               uint64_t session, uint64_t token, uint64_t reply_to, struct gk_json *body);
/* The same with the body as canonical text, which it takes (and empties). */
void core_send_text(struct gk_core *core, const struct gk_peer *peer, enum gk_message_type type,
                    uint64_t session, uint64_t token, struct gk_buf *text);
void core_send_session(struct gk_core *core, struct session *session, enum gk_message_type type,
                       uint64_t token, struct gk_json *body);
void core_error(struct gk_core *core, const struct gk_peer *peer, uint64_t reply_to, uint64_t token,
                enum gk_status status, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Appends an event to the job's log; takes the body (may be NULL). */
enum gk_status core_event(struct gk_core *core, int64_t job, const char *kind, struct gk_json *body,
                          struct gk_err *err);
/* The same with the body as canonical text, which stays the caller's. */
enum gk_status core_event_text(struct gk_core *core, int64_t job, const char *kind,
                               const struct gk_buf *text, struct gk_err *err);
bool peer_equal(const struct gk_peer *a, const struct gk_peer *b);
/* Whether it is the store that failed, and with it the daemon; all else is the request's. */
bool is_store_failure(enum gk_status status);
/* GK_DENIED, counted, unless the peer has one of `roles`. what: a verb or a message. */
enum gk_status role_need(struct gk_core *core, const struct gk_peer *peer, uint8_t roles,
                         const char *what, struct gk_err *err);

/* ---- core_notice.c ---- */
/* Queues a notice; never NULL. The caller fills in what it concerns. */
struct gk_notice *core_notice(struct gk_core *core, enum gk_event event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void notice_name(struct gk_notice *notice, const char *name);
/* Whose doing it is: key and address; the local socket has neither. */
void notice_peer(struct gk_notice *notice, const struct gk_peer *peer);
void notice_lease(struct gk_notice *notice, const struct lease *lease);
/* A record that is about to be stored. */
void count_record(struct gk_core *core, const struct gk_record *record);
/* A result that says that a process was ended, or ended badly; others count nothing. */
void count_child_exit(struct gk_core *core, enum gk_failure failure);
/* Samples that conditions of a pass, or of a trial (as text), say were left out. */
void count_dropped(struct gk_core *core, const struct gk_json *environment);
void count_conditions(struct gk_core *core, const struct gk_buf *environment);
void count_refusal(struct gk_core *core, enum gk_status status);

/* ---- core_full.c ---- */
/* While the disk is full: what only reads is answered, everything else is told to wait. */
enum gk_status full_message(struct gk_core *core, const struct gk_peer *peer,
                            const struct gk_message *message, struct gk_err *err);

/* ---- core_job.c ---- */
const char *job_state_name(enum job_state state);
bool job_state_from(const char *name, enum job_state *out);
bool task_state_from(const char *name, enum task_state *out);
enum gk_status job_move(struct gk_core *core, struct job *job, enum job_state to,
                        struct gk_err *err);
enum gk_status task_move(struct gk_core *core, struct task *task, enum task_state to,
                         const char *reason, struct gk_err *err);
struct job *job_find(struct gk_core *core, int64_t id);
enum gk_status job_add(struct gk_core *core, struct job *job, struct gk_err *err);
void job_remove(struct gk_core *core, struct job *job);
void job_free(struct gk_core *core, struct job *job);
bool job_runs(const struct gk_core *core, const struct job *job); /* may it have leases now? */
enum gk_status job_bind(struct gk_core *core, struct job *job, struct gk_err *err);
/* Ends leases of a job: CANCEL to the workers. */
enum gk_status job_drop_leases(struct gk_core *core, struct job *job, struct gk_err *err);
/* Frees the job. reason: "" if none was given. */
enum gk_status job_cancel(struct gk_core *core, struct job *job, const char *reason,
                          struct gk_err *err);
/* When every task has ended: picks, counts, done or failed. */
enum gk_status job_step(struct gk_core *core, struct job *job, struct gk_err *err);

/* ---- core_load.c ---- */
struct job *job_from_row(const struct gk_json *row, struct gk_err *err);
enum gk_status job_load(struct gk_core *core, const struct gk_json *row, struct gk_err *err);
enum gk_status core_load(struct gk_core *core, struct gk_err *err);

/* ---- core_session.c ---- */
/* retry_after_ms 0: the worker is to end. */
void session_reject(struct gk_core *core, const struct gk_peer *peer, enum gk_status status,
                    const char *text, int64_t retry_after_ms);
struct session *session_find(struct gk_core *core, uint64_t id);
struct session *session_of(struct gk_core *core, const struct gk_peer *peer);
enum gk_status session_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, struct gk_err *err);
/* The session of a message of a peer that has it; NULL. Its word counts as a heartbeat. */
struct session *session_hears(struct gk_core *core, const struct gk_peer *peer,
                              const struct gk_message *message);
/* Takes a READY that is as workers write it; false: it is to be read as any message is. */
bool session_ready_text(struct session *session, const char *body, size_t size);
/* why: it was not the worker that said so; NULL: it said BYE. */
enum gk_status session_end(struct gk_core *core, struct session *session, const char *why,
                           struct gk_err *err);
enum gk_status sessions_step(struct gk_core *core, struct gk_err *err);
/* Ends the sessions of this key on this host, each with a REJECT. */
enum gk_status sessions_end_of(struct gk_core *core, const struct gk_peer *peer, int64_t retry_ms,
                               const char *text, struct gk_err *err);

/* ---- core_keys.c ---- */
/* After repeated errors a key is of no use for a while, from the host that sent them. */
bool key_is_suspended(struct gk_core *core, const struct gk_peer *peer);
/* Counts what no honest peer sends; the fifth in a minute suspends the key there. */
enum gk_status key_erred(struct gk_core *core, const struct gk_peer *peer, const char *what,
                         struct gk_err *err);
enum gk_status request_keys(struct gk_core *core, const struct gk_peer *peer,
                            const struct gk_json *body, struct gk_json *reply, struct gk_err *err);

/* ---- core_lease.c ---- */
struct lease *lease_find(struct gk_core *core, int64_t token);
struct lease *lease_add(struct gk_core *core, const struct lease *lease, struct gk_err *err);
/* CANCEL to the worker that has it, if there is one; the lease itself is the caller's. */
void lease_cancel(struct gk_core *core, const struct lease *lease);
/* Forgets it here (not in the store) and gives its place on the device back. */
void lease_remove(struct gk_core *core, struct lease *lease);
/* Whether a device is what the task was bound to: arch, gpu, compiler. */
bool device_fits(const struct session *session, uint32_t device, const struct task *task);
/* How many of those are connected and not fenced. */
uint32_t devices_for(const struct gk_core *core, const struct task *task);
/* The lease is over without a result. counts: it was the config's turn and it is gone. */
enum gk_status lease_lost(struct gk_core *core, struct lease *lease, bool counts, const char *why,
                          struct gk_err *err);
enum gk_status leases_step(struct gk_core *core, struct gk_err *err); /* expiry */
enum gk_status leases_grant(struct gk_core *core, struct gk_err *err);
enum gk_status lease_result(struct gk_core *core, struct session *session,
                            const struct gk_message *message, struct gk_err *err);
/* A trial's RESULT read from its text. False: nothing was done, parse it and take the way above. */
bool lease_result_text(struct gk_core *core, struct session *session,
                       const struct gk_message *message, const char *body, size_t size,
                       enum gk_status *status_out, struct gk_err *err);
struct gk_json *ack_body(int64_t token, int64_t pass, const char *status);

/* ---- core_share.c ---- */
#define PRIORITY_MAX   100 /* and as far below 0 */
#define AGE_POINT_NS   (60 * SECOND_NS)
#define AGE_POINTS_MAX (2 * PRIORITY_MAX + 1) /* from the lowest priority over the highest */
#define KEY_JOBS_MAX   1000 /* open ones of a key that is not an administrator's */
/* The job begins, or ends, to count to the share of this key and its priority. */
enum gk_status share_join(struct gk_core *core, struct job *job, const char *key,
                          struct gk_err *err);
void share_leave(struct gk_core *core, struct job *job);
uint32_t share_jobs(const struct gk_core *core, const char *key); /* open ones of the key */
/* The share whose turn it is, of those that had none in this pass; NULL: all had. */
struct share *share_next(struct gk_core *core, uint64_t pass);
void shares_age(struct gk_core *core, uint64_t passed_ns); /* once a second, by ages_step() */
void share_served(struct gk_core *core, struct share *share);
/* Of the share's key no search is open. */
bool share_has_none_open(const struct gk_core *core, const struct share *share);

/* ---- core_age.c ---- */
/* Waiting jobs rise; keeps core->jobs in order. Once a second. */
void ages_step(struct gk_core *core);
/* The job got a lease: a piece of its waiting is spent. */
void age_served(struct gk_core *core, struct job *job);
void jobs_sort(struct gk_core *core);
uint64_t oldest_ready_ns(const struct gk_core *core); /* how long; 0: nobody waits */

/* ---- core_fence.c ---- */
enum gk_status operators_load(struct gk_core *core, struct gk_err *err);
/* What a device is known by, whoever runs it: its UUID, or WORKER/DEVICE. */
void device_key(int64_t worker, const char *device, const char *uuid,
                char key_out[DEVICE_KEY_SIZE]);
const struct fence *fence_find(const struct gk_core *core, const char *key);
/* Fills keys and fences of the session's devices, and whether its worker is drained. */
enum gk_status session_mark(struct gk_core *core, struct session *session, struct gk_err *err);
/* No lease goes to the device from now on, and those that are out are over; in the store and in
 * the audit trail. */
enum gk_status fence_device(struct gk_core *core, const char *key, const char *origin,
                            const char *cause, const char *who, struct gk_err *err);
enum gk_status unfence_device(struct gk_core *core, const char *key, const char *reason,
                              const char *who, struct gk_err *err);
/* The workers that have the device: one that fenced it itself asks for no lease until it hears. */
void tell_unfenced(struct gk_core *core, const char *key, const char *reason);
enum gk_status device_message(struct gk_core *core, struct session *session,
                              const struct gk_message *message, struct gk_err *err);
/* The task whose device was being emptied may go elsewhere. device UINT32_MAX: all of them. */
void reservations_drop(struct gk_core *core, uint64_t session, uint32_t device);
/* A line of the audit trail. target: "job 3", "device GPU-..". reason may be NULL. */
enum gk_status core_audit(struct gk_core *core, const char *who, const char *what,
                          const char *target, const char *reason, const char *outcome,
                          struct gk_err *err);
/* A trial or config that will not be tried again unless somebody says so. */
enum gk_status dead_letter(struct gk_core *core, const struct task *task, const char *kind,
                           int64_t trial, const char *cause, struct gk_err *err);

/* ---- core_care.c ---- */
void care_free(struct gk_core *core);
/* What is under way and waiting is answered with this status. */
void care_abandon(struct gk_core *core, enum gk_status status, const char *text);

/* ---- core_search.c ---- */
enum gk_status task_open(struct gk_core *core, struct task *task, struct gk_err *err);
void task_close(struct gk_core *core, struct task *task);
void catalog_release(struct gk_core *core, const struct gk_catalog *catalog); /* may be NULL */
/* Tells what is recorded, asks what comes next, or moves the task to its final round. */
enum gk_status task_step(struct gk_core *core, struct task *task, struct gk_err *err);
struct trial *task_trial(struct task *task, int64_t id);
struct trial *task_proposed(struct task *task); /* the next one to lease; NULL */
/* Index of a config's text in the space; UINT32_MAX: not legal there. */
uint32_t search_index(const struct search *search, const char *text);
/* The trial's, kept with it; NULL: out of memory. */
const struct trial_words *trial_words(const struct search *search, struct trial *trial);
enum gk_status trial_recorded(struct gk_core *core, struct task *task, struct trial *trial,
                              const struct lease *lease, const char *state,
                              const struct gk_json *json, int64_t reused, struct gk_err *err);
/* The same with what core->told holds. */
enum gk_status trial_told(struct gk_core *core, struct task *task, struct trial *trial,
                          const struct lease *lease, const char *state, int64_t reused,
                          struct gk_err *err);
uint64_t record_rank(const struct gk_record *record);

/* ---- core_suite.c ---- */
/* What ages a row and is no part of its identity: driver, VBIOS, highest clock of two devices. */
bool same_context(const struct gk_json *then, const struct gk_json *now);

/* ---- core_stand.c ---- */
/* Whether the store knows what the task's round would say: all that would be compared was compared
 * in the round that the pick of today comes from, under the same driver. Never of a night, and not
 * where somebody asked for a fresh round or for the spread. */
enum gk_status final_stands(struct gk_core *core, const struct task *task, bool *stands_out,
                            struct gk_err *err);

/* ---- core_final.c ---- */
enum gk_status final_begin(struct gk_core *core, struct task *task, struct gk_err *err);
struct gk_json *final_lease_configs(const struct task *task);
enum gk_status final_pass(struct gk_core *core, struct session *session, struct lease *lease,
                          const struct gk_message *message, struct gk_err *err);
/* What the judge needs to know of the entries of a round, or of a verdict. */
void round_entries(const struct gk_json *round, struct gk_round_entry *entries);
/* The passes that count, as samples of the entries: see core_final.c. Returns how many. */
uint32_t round_passes(const struct gk_json *round, const struct gk_json *passes,
                      struct gk_round_entry *entries);
/* Why an entry was dropped; trial INT64_MIN: the first that was. */
const char *round_failure(const struct gk_json *passes, int64_t trial);
/* What a worker said of an entry in the i-th of the passes; NULL: nothing. */
const struct gk_json *pass_sample(const struct gk_json *passes, size_t i, int64_t trial);
const char *pass_regime(const struct gk_json *pass); /* "" if its worker said none */

/* ---- core_spread.c ---- */
/* The task's round is judged: to TASK_SPREAD with `best`, its fastest entry, if the job asked for
 * it and there is another GPU of its key; else to TASK_JUDGED. */
enum gk_status spread_begin(struct gk_core *core, struct task *task, const struct gk_json *best,
                            struct gk_err *err);
/* A task whose config this device has not been given yet; NULL. */
struct task *spread_for(struct gk_core *core, const struct session *session, uint32_t device);
/* The device has the task's config now. */
enum gk_status spread_note(struct task *task, const char *key, struct gk_err *err);
/* After each pass of a lease that is_spread. *done_out: the GPU's time is stored. */
enum gk_status spread_pass(struct gk_core *core, const struct lease *lease, bool last,
                           bool measured, bool *done_out, struct gk_err *err);
/* It is over without a time; the task stays as it is. */
enum gk_status spread_lost(struct gk_core *core, const struct lease *lease, const char *why,
                           struct gk_err *err);
/* Tasks that wait for no GPU any more are judged. */
enum gk_status spreads_step(struct gk_core *core, struct gk_err *err);
/* After a restart. */
enum gk_status spread_load(struct gk_core *core, struct task *task, struct gk_err *err);

/* ---- core_pick.c ---- */
enum gk_status final_picks(struct gk_core *core, struct job *job, uint32_t *picked_out,
                           struct gk_err *err);

/* ---- core_rates.c ---- */
void rates_granted(const struct gk_core *core, struct job *job, int64_t worker, uint32_t device);
/* A result of a lease that is still out: takes the time since the one before. gpu_ns: in kernels of
 * a pass, -1 if it is not told. */
enum gk_status rates_clock(struct gk_core *core, const struct lease *lease, double gpu_ns,
                           struct gk_err *err);
enum gk_status rates_recorded(struct gk_core *core, const struct job *job,
                              const struct gk_record *record, bool ok, bool reused,
                              struct gk_err *err);
/* {verified failed duplicates cold warm search_s final_s verified_per_s? gpu_busy? ...};
 * GK_NOT_FOUND when nothing was counted. */
enum gk_status rates_json(struct gk_core *core, int64_t job, struct gk_json **json_out,
                          struct gk_err *err);
/* Ranges of clock, power, temperature over the passes of a regime; NULL when out of memory. */
struct gk_json *round_conditions(const struct gk_json *passes, const char *regime);

/* ---- requests.c, core_submit.c ---- */
enum gk_status request_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, struct gk_err *err);
/* Whether a request is answered while nothing can be written: what only looks, and `stop`. */
bool request_only_looks(const struct gk_json *body);
/* A piece of a blob, base64 since a JSON body carries text only; NULL: err says why. */
struct gk_json *blob_piece(struct gk_core *core, const char *hex, int64_t offset,
                           struct gk_err *err);
/* Fills reply (an object with nothing in it yet). A status other than GK_OK is the reply's status,
 * unless it is one of the store (see is_store_failure). */
enum gk_status request_submit(struct gk_core *core, const struct gk_peer *peer,
                              const struct gk_json *body, struct gk_json *reply,
                              struct gk_err *err);
enum gk_status watchers_step(struct gk_core *core, struct gk_err *err);

/* ---- core_suite.c ---- */
enum gk_status request_submit_suite(struct gk_core *core, const struct gk_peer *peer,
                                    const struct gk_json *body, struct gk_json *reply,
                                    struct gk_err *err);
bool job_out_of_time(const struct gk_core *core, const struct job *job);
/* Ends a task that was not measured: no_worker, out_of_time, fenced, stopped or lost, and the
 * reason in words. */
enum gk_status task_unrun(struct gk_core *core, struct task *task, const char *code,
                          const char *reason, struct gk_err *err);
/* Who tries a job again wants it to ask again: its time and its wish to finish are forgotten. */
enum gk_status job_time_again(struct gk_core *core, struct job *job, struct gk_err *err);
/* Ends what the time of a job does not suffice for. */
enum gk_status until_step(struct gk_core *core, struct job *job, struct gk_err *err);

#endif
