/*
 * Compile processes behind bubblewrap: no network, no files but the compiler, the system's
 * libraries and the program itself, all read-only. An absolute #include of a hostile source finds
 * nothing.
 */
#ifndef GK_WORKER_SANDBOX_H
#define GK_WORKER_SANDBOX_H

#include "core/status.h"

#define GK_SANDBOX_ARGS_MAX 48

struct gk_sandbox_command {
    char *argv[GK_SANDBOX_ARGS_MAX]; /* owned, NULL-terminated */
    uint32_t count;
};

/* The command that runs `program` with `args` (NULL-terminated) inside, with the libraries of a
 * bundle that it is part of. nvrtc_path: the library's real path, whose folder is shown. `bwrap`:
 * NULL gives the plain command without a sandbox. */
enum gk_status gk_sandbox_command(const char *bwrap, const char *program, const char *nvrtc_path,
                                  const char *const *args, struct gk_sandbox_command *command_out,
                                  struct gk_err *err);
void gk_sandbox_command_fini(struct gk_sandbox_command *command);

/* Runs `program --child=probe --nvrtc PATH` inside once and waits: true if that worked. Blocks for
 * some 100 ms. */
bool gk_sandbox_works(const char *bwrap, const char *program, const char *nvrtc_path);

#endif
