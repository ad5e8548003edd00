/*
 * Load for a real gktuned: the daemon as a child process, many workers in this one, other programs
 * beside it, and what was measured as a table and as JSON. A mistake of the bench itself ends the
 * program with a message (load_need); what a daemon does wrong is counted.
 */
#ifndef GK_BENCH_LOAD_H
#define GK_BENCH_LOAD_H

#include <sys/types.h>

#include "core/json.h"
#include "core/keys.h"
#include "core/link.h"

uint64_t load_now_ns(void);
void load_need(enum gk_status status, const struct gk_err *err);
void load_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- processes (load_process.c) ---- */
struct load_daemon {
    pid_t pid;
    int output; /* its stdout */
    char state[128];
    char local[256];   /* its ipc socket: for commands */
    char endpoint[64]; /* tcp with CURVE: for workers; "": they use the socket too */
    struct gk_key key; /* a pool key of workers, with the daemon's public key */
    double ready_ms;   /* from exec to the line "ready" */
};

/* Before the first start: a key for workers, admitted in the state folder, and a free port. */
void load_daemon_curve(struct load_daemon *daemon, const char *state);
/* Starts GK_BIN_DIR/gktuned over the folder and waits for its line. */
void load_daemon_start(struct load_daemon *daemon, const char *state);
void load_daemon_stop(struct load_daemon *daemon, int signal); /* and waits for its end */
/* Runs a program (argv[0] is its path) to its end; what it printed is malloc'd, its exit status
 * must be `wanted`. */
char *load_run(const char *const *argv, int wanted);
pid_t load_spawn(const char *const *argv, int *output_out); /* output_out may be NULL */
double load_resident_mb(pid_t pid);
double load_cpu_s(pid_t pid); /* user and system time so far */
void load_folder_make(char folder_out[64]);
void load_folder_remove(const char *folder);

/* ---- numbers (load_report.c) ---- */
struct load_histogram { /* of times, in steps of 10 us up to 20 s */
    uint32_t *counts;
    uint64_t count;
};
void load_histogram_init(struct load_histogram *histogram);
void load_histogram_fini(struct load_histogram *histogram);
void load_histogram_clear(struct load_histogram *histogram);
void load_histogram_add(struct load_histogram *histogram, uint64_t ns);
double load_histogram_ms(const struct load_histogram *histogram, double part); /* 0.5: median */

struct load_report;
/* The command, machine, date and what else makes a number a claim go in first. */
struct load_report *load_report_create(int argc, char **argv);
void load_report_add(struct load_report *report, const char *name, double value, const char *unit,
                     const char *goal);
void load_report_note(struct load_report *report, const char *name, const char *text);
void load_report_print(struct load_report *report, bool json); /* and destroys it */

/* ---- workers (load_workers.c) ---- */
struct load_options {
    const char *endpoint;
    uint32_t workers;
    uint32_t held_max;        /* leases that a worker holds at once */
    uint64_t run_ns;          /* a trial takes so long; 0: it is answered at once */
    bool started;             /* STARTED of both phases goes before every RESULT */
    const char *device;       /* "mock:sm_90a", or "cuda:0": it claims to be an H200 */
    const struct gk_key *key; /* for tcp; NULL */
};

struct load_counts {
    uint64_t connected;               /* workers that have a session of the newest epoch */
    uint64_t leased;                  /* workers that had a lease since they connected */
    uint64_t leases, results, passes; /* taken; sent anew; of final rounds */
    uint64_t stored, duplicate, stale, dropped, resent;
    uint64_t twice; /* a trial was leased while somebody held it alive */
    uint64_t errors, rejects, cancelled, unacknowledged;
    uint64_t held;
};

struct load_fleet;
struct load_fleet *load_fleet_create(const struct load_options *options);
void load_fleet_destroy(struct load_fleet *fleet);
/* Works for so long, or until `done` (may be NULL) says so. */
void load_fleet_run(struct load_fleet *fleet, uint64_t ns,
                    bool (*done)(struct load_fleet *fleet, void *context), void *context);
/* Nobody asks for more: what is held is answered and its ACK awaited. */
void load_fleet_drain(struct load_fleet *fleet, uint64_t ns);
struct load_counts load_fleet_counts(const struct load_fleet *fleet);
/* RESULT sent until the next LEASE is here (its ACK came before). */
struct load_histogram *load_fleet_cycles(struct load_fleet *fleet);
/* From now on a worker counts as connected when it has a session of an epoch above this one. */
void load_fleet_expect_epoch(struct load_fleet *fleet, uint64_t above);
uint64_t load_fleet_epoch(const struct load_fleet *fleet);
void load_fleet_silence(struct load_fleet *fleet, uint32_t worker); /* as dead: sends nothing */

/* ---- beanstalkd (load_beanstalk.c) ---- */
/* Cycles (put, reserve, delete) a second over so many connections, every write synced (-f 0);
 * negative: beanstalkd is not installed. */
double load_beanstalk(uint32_t connections, double seconds, struct load_histogram *cycles);

#endif
