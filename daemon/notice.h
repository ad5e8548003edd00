/*
 * Events that the daemon's log knows, and notices: events that the core tells of. The core queues
 * them, the shell takes them after the commit and writes the lines; what was rolled back was no
 * fact and is not told.
 *
 * Names are stable: alerts and people's habits match them. docs/operating.md says what to do.
 */
#ifndef GK_DAEMON_NOTICE_H
#define GK_DAEMON_NOTICE_H

#include <stdint.h>

#include "core/link.h"

/* X(enum name, name in the log, level) */
#define GK_EVENT_MAP(X)                                                                            \
    X(START, start, INFO)    /* before the store is opened */                                      \
    X(READY, ready, INFO)    /* recovered, listening */                                            \
    X(STOP, stop, INFO)      /* an orderly end begins */                                           \
    X(ENDED, ended, INFO)    /* the last line */                                                   \
    X(FAILED, failed, ERROR) /* the program ends with an error */                                  \
    X(LISTENING, listening, INFO)                                                                  \
    X(CONFIG_RELOADED, config_reloaded, INFO)                                                      \
    X(CONFIG_REFUSED, config_refused, ERROR) /* at a reload: the former one goes on */             \
    X(LOG_LEVEL, log_level, INFO)            /* changed by a signal */                             \
    X(LIMITS, limits, INFO)                  /* descriptors, core dumps */                         \
    X(STORE_ERROR, store_error, ERROR)       /* the program ends, and the next one recovers */     \
    X(STORE_FULL, store_full, ERROR)         /* no room for a commit: nothing is written */        \
    X(STORE_BACK, store_back, INFO)          /* there is room again */                             \
    X(STORE_RESTORED, store_restored, WARN)  /* from a backup: the epoch has jumped */             \
    X(STORE_DAMAGE, store_damage, ERROR) /* the scrub found a row that is not what was stored */   \
    X(STORE_SLOW, store_slow, WARN)      /* a commit took more than a second */                    \
    X(DISK_LOW, disk_low, WARN)          /* no new work */                                         \
    X(DISK_OK, disk_ok, INFO)                                                                      \
    X(DISK_UNKNOWN, disk_unknown, WARN) /* the file system does not say what is free */            \
    X(BALLAST, ballast, INFO)           /* made, or it could not be */                             \
    X(LOOP_STALL, loop_stall, WARN)     /* the loop was away for more than a second */             \
    X(SEND_FAILED, send_failed, WARN)   /* a peer that is gone or does not read */                 \
    X(FDS_LOW, fds_low, ERROR)          /* descriptors: nobody new is let in */                    \
    X(FDS_OK, fds_ok, INFO)                                                                        \
    X(AUTH_REFUSED, auth_refused, WARN)                                                            \
    X(KEYS_RELOADED, keys_reloaded, INFO)                                                          \
    X(DRAIN, drain, INFO) /* begun or ended */                                                     \
    X(WORKER_CAME, worker_came, INFO)                                                              \
    X(WORKER_WENT, worker_went, INFO) /* it said so */                                             \
    X(WORKER_LOST, worker_lost, WARN) /* silent, unreachable, or back without a word */            \
    X(WORKER_REJECTED, worker_rejected, WARN)                                                      \
    X(DEVICE_FENCED, device_fenced, ERROR)                                                         \
    X(DEVICE_OK, device_ok, INFO)                                                                  \
    X(LEASE_LOST, lease_lost, WARN)             /* ended without a result; text says why */        \
    X(TRIAL_KILLED, trial_killed, WARN)         /* it took its executor with it */                 \
    X(TRIAL_PARKED, trial_parked, ERROR)        /* its attempts are used up */                     \
    X(KEY_SUSPENDED, key_suspended, WARN)       /* after repeated errors, for a minute */          \
    X(RESULT_NOT_OWNER, result_not_owner, WARN) /* for what another worker holds */                \
    X(RESULT_CONFLICT, result_conflict, ERROR)  /* came again, with other content */               \
    X(RESULT_STALE, result_stale, WARN)                                                            \
    X(RESULT_DUPLICATE, result_duplicate, DEBUG)                                                   \
    X(MALFORMED, malformed, WARN) /* a message that is none */                                     \
    X(REFUSED, refused, INFO)     /* an ERROR or a reply that is not OK */                         \
    X(REQUEST, request, INFO)     /* a client changed something */                                 \
    X(JOB_STATE, job_state, INFO)                                                                  \
    X(TASK_FAILED, task_failed, WARN)                                                              \
    X(QUEUE_FULL, queue_full, ERROR)    /* messages were dropped */                                \
    X(NOTICES_LOST, notices_lost, WARN) /* more happened at once than is told */

enum gk_event {
#define GK_EVENT_ENUM(name, text, level) GK_EVENT_##name,
    GK_EVENT_MAP(GK_EVENT_ENUM)
#undef GK_EVENT_ENUM
        GK_EVENT_COUNT
};

/* What is 0 or "" is not known, and no field of the line. */
struct gk_notice {
    enum gk_event event;
    int64_t job, task, trial, worker, token, count;
    char name[64];  /* host, verb, state: one word */
    char text[256]; /* for people; as it came, the log escapes it */
    char key[GK_KEY_NAME_MAX], from[GK_PEER_HOST_SIZE]; /* of whose doing it is; "": the local
                                                           socket, or nobody's */
};

#endif
