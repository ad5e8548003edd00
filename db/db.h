/*
 * The store: one SQLite file in WAL mode through exactly one connection.
 *
 * Everything that gktune knows durably goes through these verbs; no SQL leaves this folder. Rows go
 * in and come out as JSON objects whose members are the columns (db/README.md lists them), so that
 * a listing is what a reply carries. A write opens the transaction of the tick; gk_db_commit() ends
 * it, and nothing may be told to anybody before it returned GK_OK (gk_db_sync_apart() says more).
 * One thread.
 *
 * Errors: GK_FULL when the disk is full: the transaction is gone, the store is as before and goes
 * on reading. GK_IO after a failed read, write or fsync: the kernel may have dropped pages, so
 * nothing is retried; every later write fails too and the program has to end and recover at its
 * next start. GK_CORRUPT, GK_BUSY (another process holds the file), GK_VERSION (a newer schema, or
 * an older one that may not be migrated).
 */
#ifndef GK_DB_DB_H
#define GK_DB_DB_H

#include "core/hash.h"
#include "core/json.h"

struct gk_db;

/* Opens or makes the store; ":memory:" for tests. may_migrate false: an older schema is GK_VERSION.
 */
enum gk_status gk_db_open(const char *path, bool may_migrate, struct gk_db **db_out,
                          struct gk_err *err);
/* The same. An older schema is copied to PATH.schemaN-epochM before it is changed. must_exist: a
 * store that is gone or empty is GK_MISSING, never made anew over what was expected there. */
struct gk_db_options {
    bool may_migrate, must_exist;
};
enum gk_status gk_db_open_as(const char *path, const struct gk_db_options *options,
                             struct gk_db **db_out, struct gk_err *err);
void gk_db_close(struct gk_db *db); /* rolls back what was not committed; checkpoints */

bool gk_db_is_dirty(const struct gk_db *db);                       /* a transaction is open */
enum gk_status gk_db_commit(struct gk_db *db, struct gk_err *err); /* GK_OK without a transaction */
/* Rows inserted, changed and deleted since the store was opened, those of transactions that were
 * rolled back and of triggers included. */
uint64_t gk_db_rows_written(const struct gk_db *db);
void gk_db_rollback(struct gk_db *db);
/* Moves the WAL into the file: when idle, or when it is larger than 16 MB. */
enum gk_status gk_db_checkpoint(struct gk_db *db, bool idle, struct gk_err *err);
/* Whether the store and its log still are the files of their names. GK_IO: one was removed, moved
 * or replaced, so that no next start would find what is stored from now on; nothing is written any
 * more. Cheap: two calls of stat(). */
enum gk_status gk_db_in_place(struct gk_db *db, struct gk_err *err);
/* ---- syncing apart: what gk_db_commit() waits for most ----
 * After gk_db_sync_apart() a commit writes and does not sync. Nothing of it may be told to anybody
 * before a sync that began behind it has ended with GK_OK. begin and end belong to the thread of
 * the store, run may be called on another one; the store may be read and written meanwhile, but not
 * closed. One at a time. */
struct gk_db_sync {
    void *file;       /* of SQLite; NULL: there is none */
    int rc;           /* of SQLite */
    bool of_pages;    /* the store's own file: see gk_db_copy_log() */
    uint64_t commits; /* what of the log it covers */
};
enum gk_status gk_db_sync_apart(struct gk_db *db, struct gk_err *err);
enum gk_status gk_db_sync_begin(struct gk_db *db, struct gk_db_sync *sync_out, struct gk_err *err);
void gk_db_sync_run(struct gk_db_sync *sync);
/* GK_IO: what was committed may be lost, and the store writes nothing any more. */
enum gk_status gk_db_sync_end(struct gk_db *db, const struct gk_db_sync *sync, struct gk_err *err);
/* A checkpoint whose longest part is left to a thread. The pages of the log are copied into the
 * store's file, and *sync_out is the sync of that file. Until it has ended with GK_OK nothing may
 * be committed (writing within a transaction is fine): a commit begins to write over the log, and
 * it alone has these pages safe. *copied_out false: nothing was done, as a transaction is open, a
 * commit is not synced, or the disk is full. Under load it is time when the log has 16 MB. */
bool gk_db_log_is_long(const struct gk_db *db);
enum gk_status gk_db_copy_log(struct gk_db *db, struct gk_db_sync *sync_out, bool *copied_out,
                              struct gk_err *err);
int64_t gk_db_schema(struct gk_db *db);

#define GK_DB_EPOCH_JUMP (INT64_C(1) << 20) /* a daemon that started every second for 12 days */

/* What is known of the store from outside of it. */
struct gk_db_past {
    int64_t epoch;    /* the highest that was ever told to anybody; 0: none is known */
    bool restored;    /* it was just made of a backup */
    uint64_t wall_ms; /* now, for the audit trail */
};

/* Raises the epoch, committed; makes the store's id at the first start. A store that was restored,
 * or is older than what is known of it, leaves its past behind (*jumped_out): the epoch goes up by
 * GK_DB_EPOCH_JUMP from the highest, no lease of it is out any more, and tokens go on where none
 * was ever given. */
enum gk_status gk_db_start_at(struct gk_db *db, const struct gk_db_past *past, int64_t *epoch_out,
                              bool *jumped_out, struct gk_err *err);
/* The same of a store without a past. */
enum gk_status gk_db_start(struct gk_db *db, int64_t *epoch_out, struct gk_err *err);
/* {epoch, next_token, store_id, schema, path} */
enum gk_status gk_db_meta(struct gk_db *db, struct gk_json **meta_out, struct gk_err *err);
/* `count` tokens from *first_out on, never given before. */
enum gk_status gk_db_take_tokens(struct gk_db *db, int64_t count, int64_t *first_out,
                                 struct gk_err *err);

/* ---- jobs, tasks, problems, events ---- */
enum gk_status gk_db_problem_put(struct gk_db *db, const char *op, const char *canonical,
                                 int64_t *problem_out, struct gk_err *err);
enum gk_status gk_db_job_insert(struct gk_db *db, const struct gk_json *job, int64_t *job_out,
                                struct gk_err *err);
enum gk_status gk_db_job_update(struct gk_db *db, int64_t job, const struct gk_json *changes,
                                struct gk_err *err);
/* Adds to the counters of job and task in the transaction that records a trial. */
enum gk_status gk_db_count(struct gk_db *db, int64_t job, int64_t task, int64_t trials,
                           int64_t failed, double spent_ns, struct gk_err *err);
/* What a job did, in which time: see rates_json() in daemon/core_rates.c. */
struct gk_db_rates {
    int64_t verified, failed, duplicates; /* configs; duplicates: answered from the store */
    int64_t cold, warm;                   /* compiled, and taken from a cache */
    int64_t told, final_told;             /* results, and passes, that came with time in kernels */
    double search_ns, final_ns;           /* wall time, and that of nothing but final rounds */
    double device_ns;                     /* search_ns times the devices that took part */
    double gpu_verify_ns, gpu_measure_ns, gpu_final_ns;
};
enum gk_status gk_db_rates_add(struct gk_db *db, int64_t job, const struct gk_db_rates *delta,
                               struct gk_err *err);
/* GK_NOT_FOUND: nothing was counted (a job of an older gktune). */
enum gk_status gk_db_rates(struct gk_db *db, int64_t job, struct gk_json **rates_out,
                           struct gk_err *err);
enum gk_status gk_db_job_get(struct gk_db *db, int64_t job, struct gk_json **job_out,
                             struct gk_err *err);
/* The job that this submit_id began or went on with, with member `submit_hash`: what
 * gk_db_submit_put() was told (absent: of a store that did not keep it yet). GK_NOT_FOUND. */
enum gk_status gk_db_job_by_submit(struct gk_db *db, const char *submit_id,
                                   struct gk_json **job_out, struct gk_err *err);
/* A submit and the job that it began or went on with: sent again it is that job, also when it has
 * ended by then. hash: of its content, as hex, so that other content is told from a resend. */
enum gk_status gk_db_submit_put(struct gk_db *db, const char *submit_id, int64_t job,
                                const char *hash, struct gk_err *err);
/* The newest job of this spec_key; GK_NOT_FOUND. */
enum gk_status gk_db_job_by_spec(struct gk_db *db, const char *spec_key, bool open_only,
                                 struct gk_json **job_out, struct gk_err *err);
enum gk_status gk_db_jobs_open(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err);
/* When the last job of no suite, and the last one of a suite, ended well, in ms of the wall clock;
 * 0: none did. */
enum gk_status gk_db_jobs_last_done(struct gk_db *db, uint64_t *job_ms_out, uint64_t *night_ms_out,
                                    struct gk_err *err);
enum gk_status gk_db_task_insert(struct gk_db *db, const struct gk_json *task, int64_t *task_out,
                                 struct gk_err *err);
enum gk_status gk_db_task_update(struct gk_db *db, int64_t task, const struct gk_json *changes,
                                 struct gk_err *err);
/* Tasks of a job with op and canonical problem, verdicts included, in order of their numbers. */
enum gk_status gk_db_tasks_of(struct gk_db *db, int64_t job, struct gk_json **rows_out,
                              struct gk_err *err);
/* The newest finished task of another job that asked for the same thing (equal spec_key) about this
 * task's problem, arch, gpu and NVRTC; GK_NOT_FOUND. */
enum gk_status gk_db_task_former(struct gk_db *db, int64_t job, int64_t problem, const char *arch,
                                 const char *gpu, const char *nvrtc, struct gk_json **task_out,
                                 struct gk_err *err);
/* What the judge said in a task; *verdict_out NULL: it said nothing. GK_NOT_FOUND: no task. */
enum gk_status gk_db_task_verdict(struct gk_db *db, int64_t task, struct gk_json **verdict_out,
                                  struct gk_err *err);
/* Whether there are other tasks of this problem on this arch and gpu: only these may have recorded
 * what a task is about to ask for. */
enum gk_status gk_db_task_has_twins(struct gk_db *db, int64_t task, int64_t problem,
                                    const char *arch, const char *gpu, bool *has_out,
                                    struct gk_err *err);
/* Whether a task asked for this config. */
enum gk_status gk_db_task_asked(struct gk_db *db, int64_t task, const char *config, bool *asked_out,
                                struct gk_err *err);
enum gk_status gk_db_event_add(struct gk_db *db, int64_t job, uint64_t wall_ms, const char *kind,
                               const struct gk_json *body, int64_t *event_out, struct gk_err *err);
/* The same with the body as canonical text. */
enum gk_status gk_db_event_put(struct gk_db *db, int64_t job, uint64_t wall_ms, const char *kind,
                               const char *body, int64_t *event_out, struct gk_err *err);
/* At most 500 events after `after`: [{job event kind at_ms body}]. */
enum gk_status gk_db_events(struct gk_db *db, int64_t job, int64_t after, struct gk_json **rows_out,
                            struct gk_err *err);

/* ---- trials and leases ---- */
enum gk_status gk_db_trial_insert(struct gk_db *db, const struct gk_json *trial, int64_t *trial_out,
                                  struct gk_err *err);
enum gk_status gk_db_trial_update(struct gk_db *db, int64_t trial, const struct gk_json *changes,
                                  struct gk_err *err);
/* A config asked for, as propose() writes it: nothing is made of JSON where thousands are written a
 * second. */
struct gk_db_trial {
    int64_t job, task, seq, batch, input_set, created_ms;
    const char *template_name, *template_hash, *config, *config_id;
};
enum gk_status gk_db_trial_add(struct gk_db *db, const struct gk_db_trial *trial,
                               int64_t *trial_out, struct gk_err *err);
/* What happened to a trial. Numbers of 0 are not known and leave the row as it is: no lease ended,
 * nobody ran it, no other trial's record answered it. Texts may be NULL: there is none. */
struct gk_db_outcome {
    int64_t trial, task;
    int64_t token, worker, leased_ms, reused, wall_ms;
    const char *config_id, *state, *stage, *failure, *message, *code_id;
    double time_ns, cost_ns; /* time: NAN unless it was measured */
    /* Canonical: the record without what is stored apart, and that. */
    const char *record, *samples, *environment;
};
/* Stores it, and ends the lease. */
enum gk_status gk_db_trial_done(struct gk_db *db, const struct gk_db_outcome *outcome,
                                struct gk_err *err);
/* The same for who knows the trial's number alone. Stores what happened: record without samples and
 * environment in the row, these two apart; ends the lease. */
enum gk_status gk_db_trial_record(struct gk_db *db, int64_t trial, int64_t token, uint64_t wall_ms,
                                  const char *state, const struct gk_json *record,
                                  struct gk_err *err);
/* Trials of a task in the order they were asked for, with their records: those from `from_seq` on,
 * `most` at once, since a row as JSON has ten times its bytes. */
enum gk_status gk_db_trials_of(struct gk_db *db, int64_t task, int64_t from_seq, uint32_t most,
                               struct gk_json **rows_out, struct gk_err *err);
enum gk_status gk_db_trial_get(struct gk_db *db, int64_t trial, struct gk_json **trial_out,
                               struct gk_err *err);
/* A recorded trial of the same identity (config id, problem, arch, gpu, policy, nvrtc) of another
 * task than `task` (0: of any); GK_NOT_FOUND. Writes down what it looks through. */
enum gk_status gk_db_trial_same(struct gk_db *db, int64_t task, const char *config_id,
                                int64_t problem, const char *arch, const char *gpu,
                                const char *policy, const char *nvrtc, struct gk_json **trial_out,
                                struct gk_err *err);
/* Parked trials of a task are proposed again, with all their attempts. */
enum gk_status gk_db_unpark(struct gk_db *db, int64_t task, int64_t *count_out, struct gk_err *err);
/* How often this config killed an executor on this arch (crash or timeout). */
enum gk_status gk_db_kills(struct gk_db *db, const char *config_id, const char *arch,
                           int64_t *count_out, struct gk_err *err);
/* What a token has recorded, held against a result that came later: GK_OK: this very content;
 * GK_CONFLICT: other content; GK_DENIED: of another worker; GK_NOT_FOUND: nothing. */
enum gk_status gk_db_result_look(struct gk_db *db, int64_t token, int64_t pass, int64_t worker,
                                 const struct gk_json *body, struct gk_err *err);
struct gk_db_lease {
    int64_t token, job, task, worker, device, attempt, epoch, granted_ms;
    int64_t trial;          /* 0: of a final round */
    const char *device_key; /* what a fence calls its device */
    bool is_spread;         /* of those without a trial: of a config on one more GPU */
};
enum gk_status gk_db_lease_add(struct gk_db *db, const struct gk_db_lease *lease,
                               struct gk_err *err);
enum gk_status gk_db_lease_started(struct gk_db *db, int64_t token, struct gk_err *err);
enum gk_status gk_db_lease_delete(struct gk_db *db, int64_t token, struct gk_err *err);
enum gk_status gk_db_leases(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err);

/* ---- final rounds and picks ---- */
/* environment: of the pass, NULL if the worker said nothing of it. */
enum gk_status gk_db_pass_insert(struct gk_db *db, int64_t task, int64_t token, int64_t pass,
                                 uint64_t wall_ms, const struct gk_json *samples,
                                 const struct gk_json *failed, const struct gk_json *environment,
                                 struct gk_err *err);
enum gk_status gk_db_passes_of(struct gk_db *db, int64_t token, struct gk_json **rows_out,
                               struct gk_err *err);
/* The first pass of each round of the task, which is the one that verifies: newest first. */
enum gk_status gk_db_first_passes(struct gk_db *db, int64_t task, struct gk_json **rows_out,
                                  struct gk_err *err);
/* One current row a key (problem, arch, gpu, policy): the new one replaces the old one. */
enum gk_status gk_db_pick_put(struct gk_db *db, const struct gk_json *pick, struct gk_err *err);
enum gk_status gk_db_pick_get(struct gk_db *db, int64_t problem, const char *arch, const char *gpu,
                              const char *policy, struct gk_json **pick_out, struct gk_err *err);
/* Configs picked for problems of the op: [{canonical config}], those on this gpu and arch first,
 * then those on this arch, then others; newest first. */
enum gk_status gk_db_pick_neighbours(struct gk_db *db, const char *op, const char *arch,
                                     const char *gpu, const char *policy, int64_t limit,
                                     struct gk_json **rows_out, struct gk_err *err);

/* ---- workers, devices, bundles ---- */
/* {worker key} of this spool: the key that first came with it, absent or "" for the local socket;
 * GK_NOT_FOUND. */
enum gk_status gk_db_worker_get(struct gk_db *db, const char *spool, struct gk_json **worker_out,
                                struct gk_err *err);
enum gk_status gk_db_worker_put(struct gk_db *db, const struct gk_json *hello, const char *key,
                                uint64_t wall_ms, int64_t *worker_out, struct gk_err *err);
enum gk_status gk_db_worker_seen(struct gk_db *db, int64_t worker, uint64_t wall_ms,
                                 const char *state, struct gk_err *err);
enum gk_status gk_db_device_put(struct gk_db *db, int64_t worker, const struct gk_json *props,
                                const char *nvrtc, uint64_t wall_ms, struct gk_err *err);
/* [{arch gpu props nvrtc}] seen since `since_ms`, one row a pair. */
enum gk_status gk_db_archs(struct gk_db *db, uint64_t since_ms, struct gk_json **rows_out,
                           struct gk_err *err);
/* Properties of the device that a task was bound to, else of the newest device of this arch and
 * gpu; GK_NOT_FOUND. */
enum gk_status gk_db_device_of(struct gk_db *db, int64_t task, const char *arch, const char *gpu,
                               struct gk_json **props_out, struct gk_err *err);
enum gk_status gk_db_bundle_put(struct gk_db *db, const char *id, const struct gk_json *files,
                                const struct gk_json *templates, uint64_t wall_ms,
                                struct gk_err *err);
enum gk_status gk_db_bundle_get(struct gk_db *db, const char *id, struct gk_json **bundle_out,
                                struct gk_err *err);
/* The hash that the newest bundle has for this template; GK_NOT_FOUND. */
enum gk_status gk_db_template_hash(struct gk_db *db, const char *op, const char *template_name,
                                   char hash_out[GK_HASH_TEXT_SIZE], struct gk_err *err);

/* ---- the spread of a config over the GPUs of one key ---- */

#define GK_DB_SPREADS_A_TASK 16

/* A row of `spreads` with the members task job trial problem op arch gpu policy template config
 * config_id device_key worker time_ns? passes regime reason? at_ms. GK_LIMIT: the task has
 * GK_DB_SPREADS_A_TASK. */
enum gk_status gk_db_spread_put(struct gk_db *db, const struct gk_json *row, struct gk_err *err);
/* Rows of a task: [{device_key time_ns? ...}]. */
enum gk_status gk_db_spreads_of(struct gk_db *db, int64_t task, struct gk_json **rows_out,
                                struct gk_err *err);
/* How far the GPUs of a key stand apart in this op: the median, over the newest `most` problems and
 * regimes with times of two GPUs at least, of half the distance between the slowest and the fastest
 * as a part of their middle. 0: nothing is known. */
enum gk_status gk_db_spread_half(struct gk_db *db, const char *op, const char *arch,
                                 const char *gpu, const char *policy, int64_t most,
                                 double *half_out, struct gk_err *err);
/* {spreads: rows with the problem's text and the worker's host, next?}; rows of a task stand
 * together. op NULL: all. */
enum gk_status gk_db_list_spreads(struct gk_db *db, const char *op, int64_t cursor,
                                  struct gk_json **page_out, struct gk_err *err);

/* ---- listings: objects {<name>: rows, next?} of one page ---- */
enum gk_status gk_db_list_jobs(struct gk_db *db, int64_t cursor, const char *state,
                               struct gk_json **page_out, struct gk_err *err);
enum gk_status gk_db_list_trials(struct gk_db *db, int64_t job, bool failed_only, int64_t cursor,
                                 struct gk_json **page_out, struct gk_err *err);
/* Recorded trials, each once however often it was reused: what they cost, resources of the first
 * kernel, all samples. */
enum gk_status gk_db_list_measured(struct gk_db *db, int64_t job, int64_t cursor,
                                   struct gk_json **page_out, struct gk_err *err);
enum gk_status gk_db_list_tasks(struct gk_db *db, int64_t job, int64_t cursor,
                                struct gk_json **page_out, struct gk_err *err);
/* Every filter may be NULL (job: 0). */
enum gk_status gk_db_list_picks(struct gk_db *db, const char *op, const char *arch, const char *gpu,
                                int64_t job, int64_t cursor, struct gk_json **page_out,
                                struct gk_err *err);
enum gk_status gk_db_list_workers(struct gk_db *db, int64_t cursor, struct gk_json **page_out,
                                  struct gk_err *err);

/* ---- operators ---- */
struct gk_db_audit { /* NULL of who, target, reason: ""; of outcome: "done" */
    const char *who, *what, *target, *reason, *outcome;
};
/* A line of the audit trail, chained to the one before it, in the transaction of the tick. */
enum gk_status gk_db_audit_add(struct gk_db *db, uint64_t wall_ms, const struct gk_db_audit *audit,
                               struct gk_err *err);
enum gk_status gk_db_list_audit(struct gk_db *db, int64_t cursor, struct gk_json **page_out,
                                struct gk_err *err);
/* Walks the whole chain: what does not fit is pushed onto problems. */
enum gk_status gk_db_audit_verify(struct gk_db *db, int64_t *lines_out, struct gk_json *problems,
                                  struct gk_err *err);

struct gk_db_fence {
    const char *device; /* its key: UUID, or WORKER/DEVICE where there is none */
    const char *origin; /* "operator", or "daemon" and "worker": a self-test may lift these */
    const char *cause, *who;
};
enum gk_status gk_db_fence_put(struct gk_db *db, const struct gk_db_fence *fence, uint64_t wall_ms,
                               struct gk_err *err);
enum gk_status gk_db_fence_drop(struct gk_db *db, const char *device, struct gk_err *err);
enum gk_status gk_db_fences(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err);
/* {worker device arch gpu uuid?} of a device that was here; GK_NOT_FOUND. */
enum gk_status gk_db_device_at(struct gk_db *db, int64_t worker, const char *device,
                               struct gk_json **row_out, struct gk_err *err);
enum gk_status gk_db_device_by_uuid(struct gk_db *db, const char *uuid, struct gk_json **row_out,
                                    struct gk_err *err);
/* The daemon takes no new work: kept over restarts. get: {since_ms reason}, {} when it takes some.
 */
enum gk_status gk_db_drain_put(struct gk_db *db, bool on, uint64_t wall_ms, const char *reason,
                               struct gk_err *err);
enum gk_status gk_db_drain_get(struct gk_db *db, struct gk_json **drain_out, struct gk_err *err);
enum gk_status gk_db_worker_drain(struct gk_db *db, int64_t worker, bool on, uint64_t wall_ms,
                                  const char *reason, struct gk_err *err);
enum gk_status gk_db_worker_row(struct gk_db *db, int64_t worker, struct gk_json **row_out,
                                struct gk_err *err);

/* A dead letter of a trial: kind "parked" (it used up its attempts) or "quarantined" (its config
 * killed executors on this arch). One is open at a time for each trial, or config and arch. */
enum gk_status gk_db_dead_put(struct gk_db *db, const char *kind, int64_t trial, const char *arch,
                              const char *cause, uint64_t wall_ms, struct gk_err *err);
enum gk_status gk_db_dead_get(struct gk_db *db, int64_t dead, struct gk_json **row_out,
                              struct gk_err *err);
/* state: "retried" or "forgotten". */
enum gk_status gk_db_dead_settle(struct gk_db *db, int64_t dead, const char *state,
                                 uint64_t wall_ms, struct gk_err *err);
/* The open ones of a task's parked trials, which are tried again. */
enum gk_status gk_db_dead_settle_task(struct gk_db *db, int64_t task, uint64_t wall_ms,
                                      struct gk_err *err);
enum gk_status gk_db_dead_count(struct gk_db *db, int64_t *count_out, struct gk_err *err);
enum gk_status gk_db_list_dead(struct gk_db *db, int64_t cursor, bool settled_too,
                               struct gk_json **page_out, struct gk_err *err);
enum gk_status gk_db_dead_expire(struct gk_db *db, uint64_t before_ms, int64_t *count_out,
                                 struct gk_err *err);
/* What this config did on this arch so far does not count against it any more. */
enum gk_status gk_db_pardon(struct gk_db *db, const char *config_id, const char *arch,
                            struct gk_err *err);
enum gk_status gk_db_any_pardons(struct gk_db *db, bool *any_out, struct gk_err *err);
enum gk_status gk_db_pardoned(struct gk_db *db, const char *config_id, const char *arch,
                              bool *pardoned_out, struct gk_err *err);
/* A parked trial is proposed again, with all its attempts. */
enum gk_status gk_db_unpark_trial(struct gk_db *db, int64_t trial, struct gk_err *err);

/* ---- care: each in bounded steps, between which the store is read and written as ever ---- */

/* Integrity, foreign keys, row hashes, counters, what tables must agree on, the audit trail: report
 * {ok, problems:[text], trials_checked, audit_lines}. */
struct gk_db_check;
enum gk_status gk_db_check_begin(struct gk_db *db, struct gk_db_check **check_out,
                                 struct gk_err *err);
enum gk_status gk_db_check_step(struct gk_db_check *check, bool *done_out, struct gk_err *err);
enum gk_status gk_db_check_report(const struct gk_db_check *check, struct gk_json **report_out,
                                  struct gk_err *err);
void gk_db_check_end(struct gk_db_check *check);
enum gk_status gk_db_check(struct gk_db *db, struct gk_json **report_out, struct gk_err *err);

enum gk_status gk_db_trial_last(struct gk_db *db, int64_t *trial_out, struct gk_err *err); /* 0 */
/* Looks at the hashes of up to rows_max recorded trials behind *cursor, which wraps to 0. Damaged
 * ones answer nobody from then on (state `damaged`); *damaged_out lists them. */
enum gk_status gk_db_scrub_step(struct gk_db *db, int64_t rows_max, int64_t *cursor,
                                struct gk_json **damaged_out, struct gk_err *err);

/* A copy by the backup interface on the same handle; the target must not exist, and appears under
 * its name when it is whole and durable. no_samples: without samples and passes, and packed: some
 * 140 bytes a trial; opening it makes a whole store of it. A step outside of a transaction goes on;
 * one inside does nothing. finish() only after a step said done; it and end() free the backup. What
 * fails there is the target's: the store goes on. */
struct gk_db_backup;
enum gk_status gk_db_backup_begin(struct gk_db *db, const char *path, bool no_samples,
                                  struct gk_db_backup **backup_out, struct gk_err *err);
enum gk_status gk_db_backup_step(struct gk_db_backup *backup, bool *done_out, struct gk_err *err);
/* Puts a file into a backup whose steps are done, so that an export needs nothing else. */
enum gk_status gk_db_backup_file(struct gk_db_backup *backup, const void *bytes, size_t size,
                                 struct gk_err *err);
enum gk_status gk_db_backup_finish(struct gk_db_backup *backup, struct gk_err *err);
/* When the last backup was whole, so that its age is known after a restart too. 0: there was none.
 */
enum gk_status gk_db_backup_note(struct gk_db *db, uint64_t wall_ms, struct gk_err *err);
enum gk_status gk_db_backup_last(struct gk_db *db, uint64_t *wall_ms_out, struct gk_err *err);
void gk_db_backup_end(struct gk_db_backup *backup); /* gives it up; may be NULL */
enum gk_status gk_db_backup(struct gk_db *db, const char *path, bool no_samples,
                            struct gk_err *err);
/* Hashes of the files that picks and open jobs stand on: [{hash}]. */
enum gk_status gk_db_files_needed(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err);
/* Hands out the files that came with a backup, once: each is gone from the store when `put` has
 * taken it. Before anything else is done with the store. */
enum gk_status gk_db_files_out(struct gk_db *db,
                               enum gk_status (*put)(void *context, const void *bytes, size_t size,
                                                     struct gk_err *err),
                               void *context, struct gk_err *err);
/* Makes a store of a backup: checks it and copies it to path, which must not exist. No handle is
 * open. */
enum gk_status gk_db_restore(const char *backup, const char *path, struct gk_err *err);

/* Deletes trials, samples and passes of jobs that ended before before_ms, never what a pick came
 * from, and dead letters that are 90 days old. dry_run: only counts. */
struct gk_db_prune {
    uint64_t before_ms, now_ms;
    bool dry_run, in_job;
    int64_t job; /* at hand */
    int64_t trials, passes, letters, bytes;
};
enum gk_status gk_db_prune_step(struct gk_db *db, struct gk_db_prune *prune, bool *done_out,
                                struct gk_err *err);
/* {dry_run trials_deleted passes_deleted letters_deleted bytes}; bytes: about, of rows and
 * samples. The file keeps its size: what is free in it is used again. */
enum gk_status gk_db_prune_report(const struct gk_db_prune *prune, struct gk_json **report_out,
                                  struct gk_err *err);
enum gk_status gk_db_prune(struct gk_db *db, uint64_t before_ms, struct gk_json **report_out,
                           struct gk_err *err);

#endif
