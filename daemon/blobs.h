/*
 * Files by hash: STATE/blobs/<hash>, and unpacked bundles: STATE/bundles/<id>/. Names of files come
 * from hashes and from paths that gk_bundle_from_json() has checked; nothing else becomes a path.
 */
#ifndef GK_DAEMON_BLOBS_H
#define GK_DAEMON_BLOBS_H

#include "daemon/core.h"

struct gk_blobs;

/* Makes the two folders below state_dir. */
enum gk_status gk_blobs_create(const char *state_dir, struct gk_blobs **blobs_out,
                               struct gk_err *err);
void gk_blobs_destroy(struct gk_blobs *blobs); /* its catalogs too */
struct gk_core_files gk_blobs_files(struct gk_blobs *blobs);

#endif
