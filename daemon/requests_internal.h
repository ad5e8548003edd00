/* What the files of clients' verbs share: requests.c (dispatch, listings), requests_members.c (what
 * a request may have), requests_jobs.c (control of jobs), requests_operate.c (drains, fences, dead
 * letters, the audit trail), core_care.c (db). */
#ifndef GK_DAEMON_REQUESTS_INTERNAL_H
#define GK_DAEMON_REQUESTS_INTERNAL_H

#include "daemon/core_internal.h"

struct request {
    struct gk_core *core;
    const struct gk_peer *peer;
    const struct gk_message *message;
    const struct gk_json *body;
    struct gk_json *reply; /* filled by the verb */
    bool deferred;         /* the answer comes later: core_care.c */
};

#define REASON_MAX 500

/* Moves the members of a page (taken) into the reply. */
enum gk_status merge(struct request *r, struct gk_json *page, enum gk_status status,
                     struct gk_err *err);
int64_t cursor_of(const struct request *r);
/* Whether `body` has members of the verb alone, each of a type that it allows, beside the text
 * `extra` (`verb`; `set` where it is one of a suite): GK_INPUT names all that is wrong at once. */
enum gk_status request_members(const char *verb, const char *extra, const struct gk_json *body,
                               struct gk_err *err);
enum gk_status need_job(struct request *r, int64_t *id_out, struct gk_json **row_out,
                        struct gk_err *err);
/* A job is controlled by the key that submitted it, and by an admin. "": the local socket. */
enum gk_status need_own(const struct request *r, const struct gk_json *row, const char *verb,
                        struct gk_err *err);
/* The member `reason`, "" if there is none; GK_INPUT when it is no text or too long. */
enum gk_status read_reason(const struct request *r, const char **reason_out, struct gk_err *err);

enum gk_status verb_cancel(struct request *r, struct gk_err *err);
enum gk_status verb_pause(struct request *r, struct gk_err *err);
enum gk_status verb_resume(struct request *r, struct gk_err *err);
enum gk_status verb_finish(struct request *r, struct gk_err *err);
enum gk_status verb_retry(struct request *r, struct gk_err *err);
enum gk_status verb_drain(struct request *r, struct gk_err *err);
enum gk_status verb_workers(struct request *r, struct gk_err *err);
enum gk_status verb_spread(struct request *r, struct gk_err *err);
enum gk_status verb_dead(struct request *r, struct gk_err *err);
enum gk_status verb_audit(struct request *r, struct gk_err *err);
enum gk_status verb_db(struct request *r, struct gk_err *err);

/* A failed job starts again where it stands: its failed problems, its parked trials. */
enum gk_status job_reopen(struct gk_core *core, int64_t id, struct gk_err *err);
/* Parked trials and failed problems of an open job are tried again; *count_out of both. */
enum gk_status job_retry(struct gk_core *core, struct job *job, int64_t *count_out,
                         struct gk_err *err);

#endif
