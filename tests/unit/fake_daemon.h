/*
 * A daemon for tests of the worker: a bound link, a worker process, messages in and out. Every wait
 * is for an event and has a limit that fails the test.
 */
#ifndef GK_TESTS_UNIT_FAKE_DAEMON_H
#define GK_TESTS_UNIT_FAKE_DAEMON_H

#include <sys/types.h>

#include "core/link.h"
#include "kernels/catalog.h"

struct fake_daemon {
    char folder[64], endpoint[96];
    struct gk_link *link;
    struct gk_peer peer;
    const char *program; /* what is started as the worker; NULL: gktune-worker */
    pid_t pid;
    int worker_out, worker_in; /* its standard output; ours to close for --private */
    uint64_t session;
    struct gk_catalog *catalog;
    struct gk_json *bundle;        /* {"files": [...]} */
    char *extra_path, *extra_text; /* one more file of the bundle */
    int64_t credit;
    int64_t device;       /* of the leases that are given from now on */
    bool mute;            /* do not answer PING, acknowledge nothing by itself */
    uint64_t epoch;       /* of what is sent from now on; 0: 7 */
    const char *store_id; /* of the store that it says to have; NULL: it does not say */
    const char *fence;    /* whose fence of device 0 a WELCOME tells of; NULL: there is none */
    struct gk_json *held; /* of the last HELLO */
};

/* `root` holds op folders; extra_text (may be NULL) becomes the bundle's file extra_path. */
void fake_daemon_open(struct fake_daemon *daemon, const char *root, const char *extra_path,
                      const char *extra_text);
void fake_daemon_close(struct fake_daemon *daemon);
/* Starts gktune-worker with --spool in the folder and these further arguments (NULL-terminated). */
void fake_daemon_start_worker(struct fake_daemon *daemon, const char *const *args);
/* Answers HELLO, BLOB_GET, PING, READY, STARTED by itself and returns the first other message. */
void fake_daemon_next(struct fake_daemon *daemon, struct gk_message *message_out);
/* The same until a message of this type comes; others are dropped. */
void fake_daemon_expect(struct fake_daemon *daemon, enum gk_message_type type,
                        struct gk_message *message_out);
void fake_daemon_send(struct fake_daemon *daemon, enum gk_message_type type, int64_t token,
                      struct gk_json *body);
/* A lease of a trial; of a final round with `configs` (a NULL-terminated list). */
void fake_daemon_lease(struct fake_daemon *daemon, int64_t token, const char *problem,
                       const char *config, int64_t run_s);
void fake_daemon_final(struct fake_daemon *daemon, int64_t token, const char *problem,
                       const char *const *configs, int64_t passes_max);
void fake_daemon_ack(struct fake_daemon *daemon, int64_t token, int64_t pass, bool go_on);
/* Waits for the end of the worker and returns its exit status (128 + signal). */
int fake_daemon_wait_worker(struct fake_daemon *daemon);
/* How many children of the worker have a command line that holds `text`; *any_out, where there is
 * one: its process. */
uint32_t fake_daemon_children(const struct fake_daemon *daemon, const char *text, pid_t *any_out);
/* One of them; 0 if there is none. */
pid_t fake_daemon_child(const struct fake_daemon *daemon, const char *text);

#endif
