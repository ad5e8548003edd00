/*
 * The worker's main process: speaks the protocol, keeps the compile processes and one executor a
 * device busy.
 *
 * One thread, one libuv loop. Nothing hostile runs here: sources are read and hashed, never
 * compiled or executed.
 */
#ifndef GK_WORKER_SUPERVISOR_H
#define GK_WORKER_SUPERVISOR_H

#include "core/keys.h"
#include "worker/compiler.h"

#define GK_WORKER_DEVICES_MAX 16

struct gk_worker_options {
    const char *endpoint;
    const struct gk_key *key; /* with the daemon's public one, for tcp; NULL: ipc */
    /* Over tcp sources are strangers': without a sandbox that works nothing is compiled, unless
     * this is said. */
    bool allow_unsandboxed;
    const char *spool;
    const char *devices[GK_WORKER_DEVICES_MAX]; /* "emu:sm_80", "mock" */
    uint32_t device_count;
    uint32_t compile_processes; /* 1 to 256 */
    bool is_private;            /* standard input is a pipe whose end is ours */
    const char *program;        /* path of gktune-worker itself, for the children */
    const char *bwrap;          /* NULL: no sandbox is to be tried */
    const char *build;          /* version text for HELLO */
    const char *job;            /* of the scheduler that started this, "slurm:12_3"; NULL: none */
    uint64_t drain_at_ms;       /* after the start: it drains, and is to come again; 0: never */
    uint64_t drain_limit_ms;    /* draining takes no longer; 0: as long as a trial may run */
    bool *again;                /* set when it drained and is to be started again; may be NULL */
    struct gk_compiler_places places;
    void (*log)(void *context, const char *text); /* one line, without its end */
    void (*ready)(void *context);                 /* after the first WELCOME */
    void *context;
};

/* Runs until told to end: BYE, REJECT, end of standard input, SIGINT and a second SIGTERM at once;
 * SIGTERM, SIGUSR1 and the time limit by draining (drain.c). GK_OK after an orderly end;
 * GK_MISSING, GK_DENIED, GK_VERSION ... otherwise. */
enum gk_status gk_worker_run(const struct gk_worker_options *options, struct gk_err *err);

#endif
