/*
 * The disk that the store lies on: marks with hysteresis, and the ballast, a file that is kept so
 * that there is something to give up when the disk is full.
 */
#ifndef GK_DAEMON_DISK_H
#define GK_DAEMON_DISK_H

#include "daemon/core.h"

struct gk_disk_marks {
    uint64_t low_bytes;    /* less: no new work */
    uint64_t resume_bytes; /* so much: new work again; more than low_bytes */
};

/* What follows from a measurement. Between the marks nothing changes. A full disk (said by a
 * commit that failed, not by a measurement) is left as soon as half of the low mark is free: then
 * results can be stored, which workers are waiting to hand over. */
enum gk_core_disk gk_disk_next(enum gk_core_disk now, uint64_t free_bytes,
                               const struct gk_disk_marks *marks);

/* Bytes that we may still use there; too few inodes count as none. GK_IO. */
enum gk_status gk_disk_free(const char *path, uint64_t *bytes_out, struct gk_err *err);

/* Makes the ballast (GK_STATE_BALLAST) if it is not there and the disk stays above resume_bytes
 * with it; removes it where bytes is 0. *made_out: it was made or removed now. */
enum gk_status gk_ballast_keep(const char *state_dir, uint64_t bytes, uint64_t free_bytes,
                               const struct gk_disk_marks *marks, bool *made_out,
                               struct gk_err *err);

#endif
