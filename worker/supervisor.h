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

#define GK_WORKER_DEVICES_MAX 64 /* as daemon and command line have it */

/* What a worker's log knows. Names are stable; X(enum name, name in the log, level of core/log.h)
 */
#define GK_WORKER_EVENT_MAP(X)                                                                     \
    X(START, start, INFO)                                                                          \
    X(READY, ready, INFO) /* the daemon has let it in for the first time */                        \
    X(ENDED, ended, INFO)                                                                          \
    X(FAILED, failed, ERROR)             /* the program ends with an error */                      \
    X(CONNECTING, connecting, INFO)      /* the connection was lost, or cannot be made */          \
    X(SESSION, session, INFO)            /* the daemon has forgotten this session */               \
    X(REJECTED, rejected, ERROR)         /* the daemon does not want this worker */                \
    X(OLDER_DAEMON, older_daemon, ERROR) /* an older copy of the store is served */                \
    X(DRAIN, drain, INFO) /* it takes nothing more, and ends when what runs has ended */           \
    X(DAEMON_ERROR, daemon_error, WARN) /* its answer was an ERROR */                              \
    X(MALFORMED, malformed, WARN)                                                                  \
    X(SEND_FAILED, send_failed, WARN)                                                              \
    X(SPOOL, spool, WARN) /* results on this host's disk */                                        \
    X(SANDBOX, sandbox, WARN)                                                                      \
    X(DEVICE, device, ERROR) /* its executor cannot open it: it is fenced */                       \
    X(BUNDLE, bundle, WARN)  /* sources that did not come whole */                                 \
    X(CACHE, cache, WARN)                                                                          \
    X(LEASE, lease, WARN)

enum gk_worker_event {
#define GK_WORKER_EVENT_ENUM(name, text, level) GK_WORKER_##name,
    GK_WORKER_EVENT_MAP(GK_WORKER_EVENT_ENUM)
#undef GK_WORKER_EVENT_ENUM
        GK_WORKER_EVENT_COUNT
};

struct gk_worker_options {
    const char *endpoint;
    const struct gk_key *key; /* with the daemon's public one, for tcp; NULL: ipc */
    /* Over tcp sources are strangers': without a sandbox that works nothing is compiled, unless
     * this is said. */
    bool allow_unsandboxed;
    bool checks; /* finalists run on the emulated device too: trial.h, checker */
    const char *spool;
    const char *devices[GK_WORKER_DEVICES_MAX]; /* "emu:sm_80", "mock" */
    uint32_t device_count;
    uint32_t compile_processes; /* 1 to 256 */
    bool shares_cores;          /* at most so many, as seats of the host allow (seats.h) */
    bool is_private;            /* standard input is a pipe whose end is ours */
    const char *program;        /* path of gktune-worker itself, for the children */
    const char *bwrap;          /* NULL: no sandbox is to be tried */
    const char *build;          /* version text for HELLO */
    const char *job;            /* of the scheduler that started this, "slurm:12_3"; NULL: none */
    uint64_t drain_at_ms;       /* after the start: it drains, and is to come again; 0: never */
    uint64_t drain_limit_ms;    /* draining takes no longer; 0: as long as a trial may run */
    bool *again;                /* set when it drained and is to be started again; may be NULL */
    struct gk_compiler_places places;
    void (*log)(void *context, enum gk_worker_event event, const char *text); /* one line */
    void (*ready)(void *context); /* after the first WELCOME */
    /* Several times a second, from the loop; connected: the daemon has let it in. NULL: nobody
     * wants to know. */
    void (*beat)(void *context, bool connected);
    void *context;
};

/* Runs until told to end: BYE, REJECT, end of standard input, SIGINT and a second SIGTERM at once;
 * SIGTERM, SIGUSR1 and the time limit by draining (drain.c). GK_OK after an orderly end;
 * GK_MISSING, GK_DENIED, GK_VERSION ... otherwise. */
enum gk_status gk_worker_run(const struct gk_worker_options *options, struct gk_err *err);

#endif
