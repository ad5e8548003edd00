/*
 * The daemon's core with a store in memory, a catalog, a clock of our own, one scripted worker and
 * one client. Nothing here sleeps, opens a socket or reads a clock.
 */
#ifndef GK_TESTS_DAEMON_RIG_H
#define GK_TESTS_DAEMON_RIG_H

#include "daemon/core.h"

#define RIG_TOKENS_MAX 4096

struct rig_worker {
    struct gk_peer peer;
    const char *spool, *device;
    uint64_t session, seq;
    struct gk_json *leases[RIG_TOKENS_MAX]; /* taken, not answered yet */
    uint32_t lease_count;
    int64_t credit;
    uint64_t granted;      /* leases that ever came */
    bool go_on;            /* of the last ACK of a pass */
    int64_t dropped, kept; /* tokens in the last WELCOME */
    uint64_t cancelled, errors, acks_stored, acks_duplicate, acks_stale, acks_dropped;
    uint64_t acks_not_owner, acks_conflict, rejects;
    int64_t retry_after_ms;  /* of the last REJECT */
    char told[256];          /* by the last REJECT or ERROR */
    const char *host, *boot; /* that HELLO claims; NULL: the same as all others */
    int64_t version;         /* that it speaks; 0: ours */
    uint64_t left_out;       /* entries of rounds that later passes go without, once for each ACK */
    double skew;             /* its times are so many times as long; 0: as long */
};

struct rig {
    const char *store; /* ":memory:" or a file */
    bool no_care;      /* what goes on beside serving stands still */
    struct gk_db *db;
    struct gk_catalog *catalog;
    struct gk_json *bundle;
    int64_t catalogs_out; /* given and not released */
    struct gk_core *core;
    struct gk_core_keys keys; /* of the next core that is started */
    int64_t epoch;
    uint64_t now_ns, wall_ms, seq;
    struct gk_peer client;
    struct gk_json *reply;  /* the last one */
    struct gk_json *events; /* all that came */
    struct rig_worker workers[4];
    uint32_t worker_count;
    /* What a measured device does in a final round; a pass of a modelled one is the same each time.
     */
    struct {
        double noise;                          /* of each sample, relative */
        double vendor_ns;                      /* 0: the library is missing */
        double (*time_of)(const char *config); /* NULL: by the config's id */
        int64_t sustained_from;                /* the first pass of that regime; 0: none */
        bool (*carries)(const char *config);   /* its samples are marked l2_carried; NULL: none */
        bool tells_rungs; /* the first pass says that RIG_RUNGS passed; else as an older worker */
    } measured;
    /* Fails a trial when this returns true; NULL: by the config's id, about one in nine. */
    bool (*fails)(const char *config);
    const char *driver; /* what devices say of it; NULL: nothing */
    double trial_ns;    /* what a trial costs; 0: three milliseconds */
    uint64_t noise_state;
    uint64_t log_hash;           /* over all that a worker was given, in order of tokens */
    struct gk_json *record_seen; /* of the last answer to a trial */
    struct gk_json *written;     /* every message body with its type, for the schema */
};

/* `kernels` is relative to the source folder: "kernels", "tests/data/kernels/toy". */
void rig_open(struct rig *rig, const char *store, const char *kernels);
void rig_close(struct rig *rig);
/* Every message so far, one a line, for schemas/message.schema.json. */
void rig_write(const struct rig *rig, const char *path);
void rig_start_core(struct rig *rig);
/* As kill -9 and a new start: what was not committed is gone. Workers keep what they hold. */
void rig_restart(struct rig *rig);
/* Steps, commits and delivers. */
void rig_pump(struct rig *rig);
void rig_advance(struct rig *rig, uint64_t ms);

/* Connects with the device ("emu:sm_80", "mock:sm_90a", or "cuda:0": it claims to be an H200) and
 * says READY. */
struct rig_worker *rig_connect(struct rig *rig, const char *spool, const char *device,
                               int64_t credit);
void rig_props(const char *device, struct gk_device_props *props_out);
struct gk_json *rig_hello_body(const struct rig *rig, const struct rig_worker *worker);
void rig_hello(struct rig *rig, struct rig_worker *worker);
void rig_ready(struct rig *rig, struct rig_worker *worker, int64_t credit);
void rig_send(struct rig *rig, struct rig_worker *worker, enum gk_message_type type, int64_t token,
              struct gk_json *body);
void rig_started(struct rig *rig, struct rig_worker *worker, int64_t token);
/* Answers lease `at` with what the script says; for a final round with its next pass. Returns false
 * when the lease goes on (a final round with passes left). */
bool rig_answer(struct rig *rig, struct rig_worker *worker, uint32_t at);
void rig_forget(struct rig_worker *worker, uint32_t at); /* drops a lease without an answer */
/* All workers answer what they have and stay ready, until nothing moves. Returns answers given. */
uint32_t rig_work(struct rig *rig, uint32_t answers_max);

/* Sends a REQUEST (takes the body) and returns the reply's status name; the reply stays in
 * rig->reply. */
const char *rig_request(struct rig *rig, const char *verb, struct gk_json *body);
/* A submit body: problems as canonical texts, ended by NULL. */
struct gk_json *rig_submit_body(struct rig *rig, const char *submit_id, const char *arch,
                                int64_t trials, const char *const *problems);
int64_t rig_submit(struct rig *rig, const char *submit_id, const char *arch, int64_t trials,
                   const char *const *problems);
const char *rig_job_state(struct rig *rig, int64_t job); /* valid until the next request */
int64_t rig_count(struct rig *rig, const char *verb, const char *list, int64_t job);

#endif
