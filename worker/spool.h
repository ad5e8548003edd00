/*
 * The worker's folder: results that the daemon has not acknowledged, blobs and bundles, the cubin cache.
 *
 *   spool_id      made once; the daemon knows a restarted worker by it
 *   lock          held while a worker uses the folder
 *   results/      <token>-<pass>.json: written aside, synced, renamed before a RESULT is sent; gone at ACK
 *   blobs/        files of bundles by hash
 *   bundles/<id>/ unpacked; complete as soon as the name exists
 *   cache/        worker/cache.h
 *
 * A kill at any point leaves whole results or none.
 */
#ifndef GK_WORKER_SPOOL_H
#define GK_WORKER_SPOOL_H

#include "core/json.h"
#include "kernels/catalog.h"

#define GK_SPOOL_ID_SIZE 33         /* 32 hex digits and the NUL */
#define GK_SPOOL_RESULTS_MAX 4096   /* results not acknowledged: then the worker takes no more leases */
#define GK_SPOOL_PATH_MAX 1024

struct gk_spool;

/* Makes what is missing (0700). GK_BUSY: another worker uses the folder. */
enum gk_status gk_spool_open(const char *folder, struct gk_spool **spool_out, struct gk_err *err);
void gk_spool_close(struct gk_spool *spool);
const char *gk_spool_id(const struct gk_spool *spool);
const char *gk_spool_folder(const struct gk_spool *spool);

/* ---- results ---- */
/* Durable when it returns. A second put of the same key replaces the first. GK_FULL at the bound, and when
 * the disk is. `body` is that of the RESULT message. */
enum gk_status gk_spool_put(struct gk_spool *spool, uint64_t token, uint32_t pass,
                            const struct gk_json *body, struct gk_err *err);
/* GK_OK also if there is none (a late ACK). */
enum gk_status gk_spool_remove(struct gk_spool *spool, uint64_t token, uint32_t pass,
                               struct gk_err *err);
/* All passes of a token: the daemon dropped it. */
enum gk_status gk_spool_remove_token(struct gk_spool *spool, uint64_t token, struct gk_err *err);
uint32_t gk_spool_count(const struct gk_spool *spool);

struct gk_spool_key {
    uint64_t token;
    uint32_t pass;
};
/* Keys of all results, by token and pass; malloc'd, the caller frees. */
enum gk_status gk_spool_list(const struct gk_spool *spool, struct gk_spool_key **keys_out,
                             uint32_t *count_out, struct gk_err *err);
/* GK_CORRUPT: the file was damaged from outside and is gone; the lease must be run again. */
enum gk_status gk_spool_get(struct gk_spool *spool, const struct gk_spool_key *key,
                            struct gk_json **body_out, struct gk_err *err);

/* ---- bundles ---- */
/* True if a file with this content hash is there (its content is checked when it is unpacked). */
bool gk_spool_has_blob(const struct gk_spool *spool, const struct gk_hash *hash);
/* GK_CORRUPT if the bytes have another hash. */
enum gk_status gk_spool_put_blob(struct gk_spool *spool, const struct gk_hash *hash,
                                 const void *bytes, size_t size, struct gk_err *err);
/* Unpacks once; path_out is the folder, which gk_catalog_load() reads. GK_NOT_FOUND names the first missing
 * blob; a damaged blob is removed and GK_CORRUPT. Paths come from strangers: anything but relative paths
 * of plain names is GK_INPUT. */
enum gk_status gk_spool_unpack(struct gk_spool *spool, const struct gk_bundle *bundle,
                               char path_out[GK_SPOOL_PATH_MAX], struct gk_err *err);

#endif
