/*
 * Shared by spool.c and spool_bundle.c alone.
 */
#ifndef GK_WORKER_SPOOL_INTERNAL_H
#define GK_WORKER_SPOOL_INTERNAL_H

#include "worker/spool.h"

struct gk_spool {
    char *folder;
    char id[GK_SPOOL_ID_SIZE];
    int lock;
    uint32_t count; /* results on disk */
};

/* Makes one folder, 0700; one that exists is fine. */
enum gk_status gk_spool_folder_make(const char *path, struct gk_err *err);
/* "<folder>/<formatted>"; GK_LIMIT if it does not fit. */
enum gk_status gk_spool_path(const struct gk_spool *spool, char path_out[GK_SPOOL_PATH_MAX],
                             struct gk_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
