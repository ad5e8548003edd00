/*
 * Compiled code by content: one file an entry, under the hash of everything that it depends on.
 *
 * Written aside and renamed, so a reader sees a whole entry or none; checked against its own hash
 * when read, so a damaged one counts as missing and is made again. Supervisors write what they
 * compile, executors the inspector's kernels; two workers may share a folder.
 */
#ifndef GK_WORKER_CODE_CACHE_H
#define GK_WORKER_CODE_CACHE_H

#include "core/hash.h"
#include "worker/compiler.h"

/* The key of a compilation: module key, NVRTC's version, target. */
struct gk_hash gk_code_key(const struct gk_hash *module_key, const char *nvrtc_version,
                           const char *target);
/* folder/ab/abcdef...; at most `size` bytes. */
void gk_code_path(const char *folder, const struct gk_hash *key, char *path_out, size_t size);
/* GK_NOT_FOUND when there is none, GK_CORRUPT when it is damaged (then it is removed). */
enum gk_status gk_code_read(const char *path, struct gk_compile_output *output_out,
                            struct gk_err *err);
/* GK_LIMIT: larger than what is read again. */
enum gk_status gk_code_write(const char *path, const struct gk_compile_output *output,
                             struct gk_err *err);
/* Removes the entries written longest ago until all take at most bytes_max. */
enum gk_status gk_code_prune(const char *folder, uint64_t bytes_max, struct gk_err *err);

/* An output as a JSON object, as it also travels from a compile process. */
struct gk_json;
struct gk_json *gk_code_to_json(const struct gk_compile_output *output);
enum gk_status gk_code_from_json(const struct gk_json *json, struct gk_compile_output *output_out,
                                 struct gk_err *err);

/* mkdir -p with mode 0700 below an existing folder; the last `/name` is a file unless it ends in
 * '/'. */
enum gk_status gk_make_folders(const char *path, struct gk_err *err);

#endif
