/*
 * The spool: what a worker must not forget. Each finished RESULT is a file (written aside, synced,
 * renamed) before it is sent, and goes when the daemon acknowledges it; a worker that restarts over
 * the folder sends it again.
 *
 *     <spool>/spool_id               made once
 *     <spool>/results/<token>-<pass>.json
 *     <spool>/bundles/<id>/          unpacked bundles
 *     <spool>/code/ab/<key>          compiled code
 */
#ifndef GK_WORKER_SPOOL_H
#define GK_WORKER_SPOOL_H

#include "core/json.h"

#define GK_SPOOL_ID_MAX 40

struct gk_spool;

/* Makes the folder (0700) and its parts. GK_BUSY: another worker holds it. */
enum gk_status gk_spool_open(const char *folder, struct gk_spool **spool_out, struct gk_err *err);
void gk_spool_close(struct gk_spool *spool);
const char *gk_spool_folder(const struct gk_spool *spool);
const char *gk_spool_id(const struct gk_spool *spool);

/* pass 0: of a trial. The body is the RESULT's. GK_FULL when the disk is. */
enum gk_status gk_spool_put(struct gk_spool *spool, int64_t token, int64_t pass,
                            const struct gk_json *body, struct gk_err *err);
/* Not there is fine: an ACK may come twice. */
void gk_spool_remove(struct gk_spool *spool, int64_t token, int64_t pass);
/* Every pass of a token: the daemon dropped it. */
void gk_spool_forget(struct gk_spool *spool, int64_t token);

/* Calls back for each stored RESULT, oldest token first. Damaged files are removed and counted. */
typedef void (*gk_spool_each_cb)(void *context, int64_t token, int64_t pass,
                                 const struct gk_json *body);
enum gk_status gk_spool_each(struct gk_spool *spool, gk_spool_each_cb each, void *context,
                             uint32_t *damaged_out, struct gk_err *err);

#endif
