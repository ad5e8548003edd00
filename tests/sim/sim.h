/*
 * The whole service in one process and one thread, decided by a seed: the daemon's core over the
 * production store, a disk that loses power, a wire that delays, cuts and repeats, workers that
 * crash, hang and drain, clients that keep a log of what they were promised. Time is a number.
 *
 * sim_world.c time, wire, nemesis; sim_daemon.c the daemon; sim_worker.c, sim_client.c the parties;
 * sim_points.c the store alone; sim_check.c what must hold; sim_main.c seeds and canaries;
 * sim_disk.c the disk.
 */
#ifndef GK_TESTS_SIM_H
#define GK_TESTS_SIM_H

#include "core/prng.h"
#include "daemon/core.h"
#include "tests/sim/sim_disk.h"

#define SECOND_NS       UINT64_C(1000000000)
#define MS_NS           UINT64_C(1000000)
#define SIM_WORKERS_MAX 5
#define SIM_CLIENTS_MAX 3
#define SIM_LEASES_MAX  64
#define SIM_TOKENS_MAX  8192
#define SIM_JOBS_MAX    64
#define SIM_CONNS_MAX   16384

/* A bug on purpose: the checks have to find it. */
enum canary {
    CANARY_NONE,
    CANARY_ACK_FIRST,    /* replies leave before the commit */
    CANARY_NO_SYNC,      /* the disk lies about sync */
    CANARY_STALE_TOKEN,  /* a late result passes under the current token */
    CANARY_FORGET_LEASE, /* leases are not there after a restart */
    CANARY_COUNT_TWICE,  /* a job's counter goes up once too often */
    CANARY_SEND_UNSYNCED /* replies leave after the commit and before its sync */
};

struct conn {
    bool open; /* the bytes of it arrive */
    bool is_worker;
    uint32_t party;
    uint64_t blocked_until_ns[2]; /* [1] towards the daemon */
    uint64_t held_until_ns[2];    /* a packet waits so long, and what comes behind it too */
    uint64_t last_at_ns[2];       /* order inside a connection is kept */
};

struct packet {
    uint64_t at_ns, order;
    uint32_t conn;
    bool to_daemon;
    struct gk_message message;
};

struct sim_lease {
    int64_t token, trial, task, pass;
    bool is_final, running, waits; /* waits: for the ACK of its pass */
    uint64_t done_ns;
    struct gk_json *body;
};

struct spooled {
    int64_t token, pass;
    struct gk_json *body;
};

enum worker_state { WORKER_DOWN, WORKER_UP, WORKER_HUNG };

struct sim_worker {
    const char *device;
    char spool_id[24];
    enum worker_state state;
    uint32_t conn;
    bool welcome, fenced, told_fence, quiet;
    uint64_t fenced_session; /* in which the daemon was told that the device is fenced, */
    uint32_t fenced_conn;    /* and over which connection */
    uint64_t epoch, session, seq, heard_ns, pinged_ns, hello_ns, wake_ns, back_ns, trouble_ns;
    int64_t credit_sent;
    struct sim_lease leases[SIM_LEASES_MAX];
    uint32_t lease_count;
    struct spooled spool[SIM_TOKENS_MAX / 8];
    uint32_t spool_count;
};

struct sim_client {
    uint32_t conn;
    uint64_t seq, asked_ns, next_ns;
    struct gk_json *request;        /* sent, not answered; sent again as it is after a time */
    int64_t seen[SIM_JOBS_MAX + 1]; /* of each watched job the last event that came */
};

/* What the sim knows of a token: who got it for what, what was sent, what was acknowledged. */
struct token_log {
    uint32_t worker;
    int64_t trial, task, passes_acked;
    bool is_final, sent, acked, infra, dropped, over; /* over: given back, lost, or answered */
    bool failed, is_spread;
    double time_ns;
    uint64_t granted_ns;
};

struct job_log {
    char submit_id[24];
    int64_t job; /* 0: not acknowledged yet */
    bool cancel_acked, retried;
    int64_t events_seen; /* highest event number that a watcher saw */
};

struct sim_rates { /* of 1000 a step; a seed draws them, most are 0 in most seeds */
    uint32_t kill, power, disk_death, disk_eio, disk_full, worker_crash, worker_hang, worker_drain,
        partition, disconnect, duplicate, stall, clock_jump, fence, rogue, checkpoint;
};

struct sim {
    uint64_t seed;
    enum canary canary;
    bool verbose;
    struct gk_prng prng;
    struct sim_rates rates;
    uint64_t now_ns, wall_ms, order, events, events_max;
    bool healing;

    /* the daemon */
    struct gk_catalog *catalog;
    struct gk_json *bundle;
    struct gk_db *db;
    struct gk_core *core;
    int64_t epoch, epoch_seen;
    bool up, full, power_next;
    uint64_t boot_ns; /* when the daemon's own clock was 0 */
    uint64_t timer_ns, start_ns, full_until_ns, stalled_until_ns, restarts;
    /* Syncing beside the loop, as the shell does it: seeds that are even. */
    bool apart, syncing;
    uint32_t covered; /* messages that wait for the sync */
    uint64_t sync_end_ns;
    struct gk_db_sync sync;
    uint64_t stalled_from_ns; /* the daemon's loop is, or was, held up since then; 0: it was not */

    /* the wire */
    struct packet *queue;
    uint32_t queue_count, queue_capacity;
    struct conn *conns;
    uint32_t conn_count;

    struct sim_worker workers[SIM_WORKERS_MAX];
    uint32_t worker_count;
    struct sim_client clients[SIM_CLIENTS_MAX];
    uint32_t client_count;
    struct token_log *tokens;
    int64_t token_max;
    struct job_log jobs[SIM_JOBS_MAX];
    uint32_t job_count, jobs_max;
    uint64_t trace; /* hash of all that happened: equal for equal seeds */
    uint64_t results, faults, messages;
    char red[512]; /* what was violated; "": nothing yet */
};

/* ---- sim_world.c ---- */
uint64_t sim_below(struct sim *sim, uint64_t bound);
bool sim_chance(struct sim *sim, uint32_t of_1000);
void sim_red(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_say(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint32_t sim_connect(struct sim *sim, bool is_worker, uint32_t party);
void sim_disconnect(struct sim *sim, uint32_t conn);
/* Takes the body. */
void sim_send(struct sim *sim, uint32_t conn, bool to_daemon, struct gk_message *message);
void sim_run(struct sim *sim);
void sim_init(struct sim *sim, uint64_t seed, uint64_t events, enum canary canary, bool verbose);
void sim_fini(struct sim *sim);

/* ---- sim_daemon.c ---- */
void daemon_start(struct sim *sim);
/* power_lost: what was not synced is lost or torn. */
void daemon_kill(struct sim *sim, bool power_lost);
/* All messages that are there, then the tick, the commit, the sync, the sending: as
 * daemon/shell_tick.c. */
void daemon_turn(struct sim *sim, struct packet *packets, uint32_t count);

/* ---- sim_worker.c ---- */
void worker_step(struct sim *sim, uint32_t index);
void worker_message(struct sim *sim, uint32_t index, const struct gk_message *message);
void worker_crash(struct sim *sim, uint32_t index, uint64_t back_ns);
void worker_drain(struct sim *sim, uint32_t index);
void worker_fence(struct sim *sim, uint32_t index, bool fenced);
void worker_rogue(struct sim *sim, uint32_t index);
void worker_forget(struct sim_worker *worker, uint32_t at);
struct sim_lease *worker_lease(struct sim_worker *worker, int64_t token);

/* ---- sim_client.c ---- */
void client_step(struct sim *sim, uint32_t index);
void client_message(struct sim *sim, uint32_t index, const struct gk_message *message);

/* ---- sim_check.c ---- */
void check_open(struct sim *sim);   /* after each opening of the store */
void check_commit(struct sim *sim); /* after each commit */
void check_promises(struct sim *sim);
/* Of a message as it arrives at the daemon, and as it leaves it. */
void check_in(struct sim *sim, uint32_t conn, const struct gk_message *message);
void check_out(struct sim *sim, uint32_t conn, const struct gk_message *message);
void check_end(struct sim *sim);
int64_t check_open_jobs(struct sim *sim);
void check_grant(struct sim *sim, uint32_t worker, const struct gk_json *lease, uint64_t epoch);
/* For canaries. */
void check_miscount(struct sim *sim);
void check_forget_leases(struct sim *sim);

/* ---- sim_points.c ---- */
/* Every operation of the disk under the store alone; the exit status. */
int sim_points(void);

#endif
