/*
 * Where a store lives: --state, else $GKTUNE_STATE, else $XDG_STATE_HOME/gktune, else
 * ~/.local/state/gktune. A pure function over the given values; the mains read the environment.
 */
#ifndef GK_CORE_STATE_DIR_H
#define GK_CORE_STATE_DIR_H

#include "core/buf.h"
#include "core/status.h"

/* Each value may be NULL or "" (not given). GK_USAGE when none names a folder; a relative
 * XDG_STATE_HOME is ignored, as its specification demands. `out` is reset first. */
enum gk_status gk_state_dir(const char *option, const char *env_state, const char *xdg,
                            const char *home, struct gk_buf *out, struct gk_err *err);

/* Creates the folder and its parents with mode 0700 and checks that it is ours alone and can be
 * written: no symbolic link, no other owner, no rights of others. A folder on a network file system
 * is refused (SQLite's locks do not hold there). */
enum gk_status gk_state_dir_make(const char *path, struct gk_err *err);

/* Whether this file may be restored from. A backup is whole without a log beside it, and says so in
 * its header; a copy of a store does not, and lacks what stood in its log: GK_INPUT. What is no
 * store at all is left to whoever opens it. */
enum gk_status gk_backup_check(const char *path, struct gk_err *err);

/* File names inside. */
#define GK_STATE_LOCK   "gktuned.lock"
#define GK_STATE_SOCKET "gktuned.sock"
#define GK_STATE_STORE  "gktune.db"
#define GK_STATE_EPOCH  "epoch" /* of the daemon, beside the store: daemon/epoch_file.h */
/* Given up on a full disk: the daemon keeps it, gktune doctor --free-ballast removes it. */
#define GK_STATE_BALLAST "ballast"

#endif
