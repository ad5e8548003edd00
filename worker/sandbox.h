/*
 * The sandbox of compile processes: bubblewrap with nothing inside but the worker's own program, the
 * libraries that it and NVRTC load, and an empty /tmp. No network, no host files, no environment.
 * An absolute #include, a macro-built one and __has_include then find nothing of the host.
 *
 * Whether bwrap works here (user namespaces, containers) is found by trying it; without it the limits below
 * stand alone, and HELLO says so.
 */
#ifndef GK_WORKER_SANDBOX_H
#define GK_WORKER_SANDBOX_H

#include "core/json.h"
#include "core/status.h"

#define GK_COMPILE_MEMORY_BYTES (UINT64_C(2) << 30) /* address space; a large variant takes 400 MB */

/* Paths of all objects loaded into this process, and of the files beside NVRTC that it opens later
 * ("libnvrtc-builtins"): what the sandbox must show. An array of strings; NULL out of memory. `nvrtc` may be NULL. */
struct gk_json *gk_sandbox_objects(const char *nvrtc);

/* argv of `program` (args: NULL-terminated) inside bwrap; malloc'd, freed with gk_sandbox_argv_free. */
enum gk_status gk_sandbox_argv(const char *bwrap, const char *program, const struct gk_json *objects,
                               const char *const *args, char ***argv_out, struct gk_err *err);
void gk_sandbox_argv_free(char **argv);

/* bwrap in the folders of `path` (a PATH list); NULL if there is none. malloc'd. */
char *gk_sandbox_find_bwrap(const char *path);

/* For a child at its start: dies with its parent, writes no core, has at most GK_COMPILE_MEMORY_BYTES of
 * address space (not under AddressSanitizer, which reserves terabytes). `parent` is the pid that must still be
 * the parent; 0 inside a pid namespace. */
enum gk_status gk_child_confine(int parent, bool limit_memory, struct gk_err *err);
/* Lets the process use `seconds` more of processor time, then SIGXCPU. */
enum gk_status gk_child_allow_cpu(uint32_t seconds, struct gk_err *err);

#endif
