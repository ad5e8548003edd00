/*
 * Inside the supervisor: what its files share. Nothing else includes this.
 *
 *   supervisor.c  start, end, timers
 *   session.c     the protocol: HELLO to BYE, acknowledgements, blobs
 *   bundle.c      bundles: fetched by blob, unpacked, loaded
 *   lease.c       a lease from its message to its RESULT
 *   pool.c        compile tasks and the processes that do them
 *   bench.c       executors, one a device
 *   drain.c       the end that a scheduler asks for
 */
#ifndef GK_WORKER_WORKER_STATE_H
#define GK_WORKER_WORKER_STATE_H

#include <uv.h>

#include "core/link.h"
#include "core/loop.h"
#include "core/policy.h"
#include "core/record.h"
#include "kernels/render.h"
#include "worker/compile_job.h"
#include "worker/memory_group.h"
#include "worker/process.h"
#include "worker/sandbox.h"
#include "worker/seats.h"
#include "worker/spool.h"
#include "worker/supervisor.h"

#define POOL_MAX   256
#define LEASES_MAX 4096
#define KILLS_MAX  4096

struct worker;

/* ------------------------------------------------------------------ compile tasks */

enum task_state { TASK_QUEUED, TASK_RUNNING, TASK_DONE, TASK_FAILED };

struct compile_task { /* one module; shared by all units that need it */
    struct compile_task *next;
    struct gk_hash key;
    char *path;          /* of the cache entry */
    struct gk_json *job; /* NULL once it is done */
    uint32_t references;
    enum task_state state;
    enum gk_failure failure; /* of FAILED */
    char *message;
    uint32_t crashes;
    int64_t compile_s;
    uint64_t started_ms;
    double compile_ns;
    bool cached;
};

struct compile_slot {
    struct worker *worker;
    struct gk_process *process; /* NULL: not started */
    struct compile_task *task;  /* being compiled */
    int seat;                   /* that it holds while it compiles; GK_SEAT_NONE: none */
};

/* ------------------------------------------------------------------ bundles */

struct bundle {
    struct bundle *next;
    struct gk_hash id;
    char *root;                 /* folder, whole once catalog is set */
    struct gk_catalog *catalog; /* NULL while it is being fetched */
    struct gk_bundle files;
    uint32_t at;        /* file being fetched */
    struct gk_buf data; /* of that file so far */
    uint64_t asked;     /* welcome_at of the session in which a piece is on its way; 0: none */
    bool failed;
    uint32_t references;
    uint64_t used; /* by order of use: the longest unused is dropped first */
};

/* ------------------------------------------------------------------ leases */

enum lease_state { LEASE_BUNDLE, LEASE_COMPILE, LEASE_READY, LEASE_RUN, LEASE_WAIT_ACK };

struct unit { /* one config of a lease */
    int64_t trial;
    char *config, *config_id;
    struct compile_task *tasks[GK_LAUNCHES_MAX];
    struct gk_json *failure; /* its record when it failed before running or dropped out */
    bool reported;           /* the failure went out */
    bool left_out;           /* of further passes: the daemon says that it is clearly behind */
    bool is_vendor;          /* the vendor's library: no config, nothing to compile */
    struct gk_json *samples; /* of the current pass; NULL: none */
    struct gk_json *marks;   /* of those samples; NULL: none */
    struct gk_json *rungs;   /* how the first pass verified it, until it is told; NULL: none */
    char *
        detail; /* which result of the vendor it was; why it could not run on the emulated device */
    double twice_ratio; /* time over twice the sets; 0: nobody looked */
    bool carried;       /* it carried data in L2: timed over twice the sets from then on */
};

struct lease {
    struct lease *next;
    int64_t token;
    bool is_final;
    uint32_t device;
    int64_t input_set, compile_s, run_s;
    double best_ns; /* of the task when it was leased; 0: none */
    enum gk_policy policy;
    char *op, *problem;
    struct bundle *bundle;
    enum lease_state state;
    bool started; /* the daemon was told that it runs */
    bool
        last_said; /* final round: what the last RESULT said of going on; time must not change it */
    struct compile_task *reference;
    struct unit *units;
    uint32_t unit_count;
    /* final rounds */
    int64_t pass, passes_max, budget_s;
    uint64_t seed, begun_ms;
    uint32_t *order, order_at; /* of a pass: units, by index */
    /* A GPU at its power limit changes its clocks with what it did before, so from then on passes
     * go through the units in long blocks, forth and back in turn. */
    bool sustained, at_limit;
    bool turned;                 /* this pass draws an order that the next one turns round */
    struct gk_json *environment; /* of the current pass, from the unit that drew most power */
    double gpu_ns;               /* in kernels, of the current pass */
    uint32_t dropped;            /* throttled batches of the current pass */
    uint32_t dropped_shared;     /* batches beside another process */
    int64_t dropped_throttle;    /* why, as NVML names it */
};

/* ------------------------------------------------------------------ devices */

struct bench {
    struct worker *worker;
    uint32_t index;
    struct gk_device_props props;
    struct gk_gpu_lock *lock; /* of a GPU, while this process lives; NULL: not one */
    int seat;                 /* of its executor; GK_SEAT_NONE: a mock, or none was free */
    bool is_mock;
    char driver[80], vbios[32]; /* what NVML says of them; "" */
    struct gk_process *process; /* NULL: none runs */
    struct lease *lease;        /* whose unit is running */
    uint32_t unit;
    int64_t credit_sent;
    bool ready;            /* the executor has its device */
    bool leaving;          /* it was given up and has not ended: until then it holds the device */
    uint32_t quick_deaths; /* starts in a row that never got so far */
    bool fenced;           /* no lease: its executor cannot open it, or the daemon says so */
    bool testing;          /* whether its executor can open it again */
};

struct kill_count {
    struct gk_hash key;
    uint32_t count;
};

struct worker {
    const struct gk_worker_options *options;
    uv_loop_t loop;
    uv_timer_t heartbeat, reconnect;
    uv_signal_t terminate, interrupt, come_again;
    uv_pipe_t parent;
    bool has_parent;
    struct gk_spool *spool;
    char nvrtc_version[32], nvrtc_path[4096];
    bool sandboxed;
    struct gk_memory_group memory;
    int64_t memory_kills; /* of it that are accounted for; -1: not known */
    /* session */
    struct gk_link *link;
    struct gk_loop_link *watch;
    uint64_t epoch, session, seq;
    uint64_t epoch_seen; /* the highest of the store below: a daemon with a lower one is a ghost */
    char store_id[40];
    uint64_t hold_ms; /* a REJECT asked to stay away for so long */
    uint64_t heard_ms, pinged_ms, heartbeat_ms, liveness;
    uint32_t attempts;    /* of connecting, since the last WELCOME */
    uint32_t connections; /* of the link, as far as looked at */
    bool welcome, was_ready, ending;
    bool closing;        /* the link is given up; the reconnect timer closes it */
    uint64_t welcome_at; /* number of sessions so far */
    /* draining: of the loop's clock; 0: not yet, or no such end */
    bool draining;
    const char *drain_reason;
    uint64_t begun_ms, drain_begun_ms, drain_end_ms, idle_ms;
    enum gk_status result;
    struct gk_err err;
    /* work */
    struct lease *leases; /* in order of arrival */
    uint32_t lease_count;
    struct bundle *bundles;
    struct gk_json *last_bundle; /* of the newest LEASE that named its files; NULL */
    uint64_t use_count;
    struct compile_task *tasks, **tasks_end;
    struct compile_slot slots[POOL_MAX];
    uint32_t slot_count;
    struct gk_seats *seats; /* NULL: how many processes compile was said by hand */
    uv_timer_t seat_again;  /* runs while a seat is waited for */
    struct bench benches[GK_WORKER_DEVICES_MAX];
    uint32_t bench_count;
    struct kill_count kills[KILLS_MAX];
    uint32_t kill_next;
};

void worker_log(struct worker *worker, enum gk_worker_event event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the loop: BYE, children killed, gk_worker_run returns status. */
void worker_end(struct worker *worker, enum gk_status status, const char *reason);
/* Of each child that has ended of itself: whether the kernel killed it for the memory of our
 * control group, and " (limit ..., peak ...)" as far as that is known. */
bool worker_memory_kill(struct worker *worker, int64_t exit_status, int signal_number,
                        char about_out[96]);

/* session.c */
enum gk_status session_connect(struct worker *worker, struct gk_err *err);
void session_disconnect(struct worker *worker);
/* At the end, outside of callbacks. */
void session_close(struct worker *worker);
void session_beat(struct worker *worker);
/* The body is taken. Nothing is sent while there is no session: what matters is held or spooled. */
void session_send(struct worker *worker, enum gk_message_type type, int64_t token,
                  struct gk_json *body);
/* Spools a RESULT and sends it. The body is taken. */
void session_result(struct worker *worker, int64_t token, int64_t pass, struct gk_json *body);
void session_release(struct worker *worker, int64_t token, const char *reason);
/* DEVICE_EVENT. */
void session_device(struct worker *worker, uint32_t device, const char *state, const char *cause);
void session_credit(struct worker *worker);

/* drain.c */
/* Takes no more leases, gives back what does not run, ends when the rest has. again: the worker is
 * to be started once more. A second call changes nothing. */
void drain_begin(struct worker *worker, const char *reason, bool again);
/* With each heartbeat. */
void drain_check(struct worker *worker);

/* bundle.c */
/* A lease says its bundle's files, or leaves them out where they are those of the lease before it:
 * note() keeps what it says, said() gives the whole (or what there is). */
void bundle_note(struct worker *worker, const struct gk_json *said);
const struct gk_json *bundle_said(const struct worker *worker, const struct gk_json *said);
enum gk_status bundle_need(struct worker *worker, const struct gk_json *files,
                           struct bundle **bundle_out, struct gk_err *err);
void bundle_ask(struct worker *worker, struct bundle *bundle);
void bundle_blob(struct worker *worker, const struct gk_json *body);
void bundle_error(struct worker *worker, const char *text);
void bundle_release(struct worker *worker, struct bundle *bundle);
void bundles_destroy(struct worker *worker);

/* pool.c */
enum gk_status pool_need(struct worker *worker, const struct gk_compile_job *job, int64_t compile_s,
                         struct compile_task **task_out, struct gk_err *err);
void pool_release(struct worker *worker, struct compile_task *task);
void pool_advance(struct worker *worker);
/* How many processes may compile now. While a final round is timed on a real device its share of
 * them is still, with one GPU all: sixteen compilers on the memory bus and in the power budget are
 * not what the winner will live with. The others' share goes on: of eight GPUs one is nearly always
 * in a final round, and the rest would wait for compilers. */
uint32_t pool_most(const struct worker *worker);
/* A seat may be had by now. */
void pool_seat_again(uv_timer_t *timer);
void pool_stop(struct worker *worker);

/* bench.c */
/* Gives the executor up with whatever it runs. The next one starts when it has ended: a process on
 * its way out has its memory of the GPU still, and perhaps a kernel that runs. */
void bench_discard(struct bench *bench);
/* Starts the executor of a fenced device: that it opens it lifts the fence. */
void bench_test(struct bench *bench);
/* An operator lifted the fence: the device is tried again, and fenced again if it does not open. */
void bench_unfence(struct bench *bench);
void bench_advance(struct bench *bench);
void benches_stop(struct worker *worker);
/* An operator has let the config off. */
void kills_forget(struct worker *worker, const char *config_id);
bool kills_reached(struct worker *worker, const char *config_id, uint32_t limit);

/* lease.c */
enum gk_status lease_take(struct worker *worker, const struct gk_json *body, struct gk_err *err);
struct lease *lease_find(struct worker *worker, int64_t token);
/* Looks at what has changed and goes on; may end and free the lease. */
void lease_advance(struct worker *worker, struct lease *lease);
void leases_advance(struct worker *worker);
/* The running unit has a record (lent). */
void lease_recorded(struct worker *worker, struct lease *lease, uint32_t unit,
                    const struct gk_json *record);
void lease_leave_out(struct lease *lease, const struct gk_json *trials);
void lease_acknowledged(struct worker *worker, struct lease *lease, bool go_on);
void lease_drop(struct worker *worker, struct lease *lease);
/* Next unit to run, or UINT32_MAX. */
uint32_t lease_next_unit(struct lease *lease);
struct gk_json *record_json(enum gk_stage stage, enum gk_failure failure, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
