/*
 * A submission between its message and the store: read and checked first, stored when all of it is
 * right. core_submit.c has both halves, core_suite.c does the same for many at once. Nothing but
 * the daemon's core includes this.
 */
#ifndef GK_DAEMON_CORE_SUBMIT_H
#define GK_DAEMON_CORE_SUBMIT_H

#include "daemon/core_internal.h"

#define SUITE_NAME_MAX 64 /* bytes of a suite's, slot's or night's name, with the NUL */

struct submit {
    const struct gk_json *body;
    struct gk_bundle bundle;
    char bundle_id[GK_HASH_TEXT_SIZE];
    const struct gk_catalog *catalog;
    struct gk_json *archs;     /* [{arch, gpu?}] */
    struct gk_json *ops;       /* names */
    struct gk_json *templates; /* {op: {template: hash}} */
    int64_t budget_trials, seed, priority;
    double budget_s;
    const char *strategy, *policy, *submit_id, *what;
    const char *key; /* of who submits; "": the local socket */
    char spec_key[GK_HASH_TEXT_SIZE];
    char hash[GK_HASH_TEXT_SIZE]; /* of all that was sent, and by whom: what a resend has equal */
    /* Of a suite; NULL: of none. Then it begins a job of its own, and goes on with nobody's. */
    const char *suite, *slot, *night;
    uint64_t until_ms;      /* wall time when asking ends; 0: never */
    bool if_changed;        /* leave out what is as it was when its pick was made */
    int64_t max_age_days;   /* of a pick that counts as unchanged */
    bool *left_out;         /* by problem and arch; NULL: nothing is */
    int64_t left_out_count; /* of them */
};

/* Everything that may be wrong with s->body, before anything is written; body and key are set, and
 * submit_again() has found nothing. */
enum gk_status submit_read(struct gk_core *core, struct submit *s, struct gk_err *err);
/* A new job; `reply` gets job, tasks, archs, state, warnings. Without a task left none is made:
 * job is 0 then. */
enum gk_status submit_begin(struct gk_core *core, struct submit *s, struct gk_json *reply,
                            struct gk_err *err);
void submit_fini(struct gk_core *core, struct submit *s);
/* The job that this submission has begun already, when its answer was lost; *row_out NULL: none.
 * Fills submit_id and hash. GK_CONFLICT names the job that had this id with other content. */
enum gk_status submit_again(struct gk_core *core, struct submit *s, struct gk_json **row_out,
                            struct gk_err *err);
/* Fills a reply from the job's row. */
enum gk_status submit_answer(struct gk_json *reply, const struct gk_json *row, bool continued,
                             struct gk_err *err);
/* Whether there is room for new work: on the disk, and for one more job of the key. */
enum gk_status submit_room(const struct gk_core *core, const struct gk_peer *peer,
                           struct gk_err *err);

/* ---- core_suite.c ---- */
/* True in *same_out if the pick of this key stands on the templates of s, and on the compiler,
 * driver and clocks that its device has today, and is not too old. */
enum gk_status suite_unchanged(struct gk_core *core, const struct submit *s, int64_t problem,
                               const char *op, const struct gk_json *arch, bool *same_out,
                               struct gk_err *err);

#endif
