/*
 * What the state folder knows of its store from outside of it: the file `epoch`.
 *
 * It holds the highest epoch that was ever told to anybody, so that a store which was replaced by
 * an older copy is noticed, and it says that there is a store: one that is gone is not made anew.
 * Written aside, fsynced and renamed before the epoch is used.
 */
#ifndef GK_DAEMON_EPOCH_FILE_H
#define GK_DAEMON_EPOCH_FILE_H

#include "db/db.h"

/* *known_out: there is such a file, so there has to be a store. One that does not read back counts
 * as that of a restored store: nothing is lost by an epoch too high. */
enum gk_status gk_epoch_read(const char *state_dir, struct gk_db_past *past_out, bool *known_out,
                             struct gk_err *err);
enum gk_status gk_epoch_write(const char *state_dir, int64_t epoch, struct gk_err *err);

#endif
