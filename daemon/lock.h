/*
 * One daemon a state folder: flock on gktuned.lock, which says {pid, endpoint, epoch} as JSON for
 * those who look for the daemon. The lock belongs to the descriptor: it ends with the process,
 * however that ends.
 */
#ifndef GK_DAEMON_LOCK_H
#define GK_DAEMON_LOCK_H

#include "core/status.h"

/* GK_BUSY names the holder's pid. *fd_out keeps the lock until it is closed. */
enum gk_status gk_lock_take(const char *state_dir, int *fd_out, struct gk_err *err);
/* endpoints: the local one first, which commands of this host connect to. */
enum gk_status gk_lock_write(int fd, int64_t pid, const char *const *endpoints, uint32_t count,
                             int64_t epoch, struct gk_err *err);
void gk_lock_release(int fd);

#endif
