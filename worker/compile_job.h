/*
 * One compilation as data: made from a plan by the one who holds the catalog, carried to a compile
 * process as JSON, run there with nothing but this text.
 */
#ifndef GK_WORKER_COMPILE_JOB_H
#define GK_WORKER_COMPILE_JOB_H

#include "core/json.h"
#include "kernels/render.h"
#include "worker/compiler.h"

struct gk_compile_job {
    struct gk_hash module_key; /* of the plan's launch: what is compiled, without the toolchain */
    char target[32];
    char *kernel;
    char *name, *text;                  /* of the source */
    struct gk_compiler_header *headers; /* names and texts owned */
    uint32_t header_count;
    char **defines;
    uint32_t define_count;
    char **options;
    uint32_t option_count;
};

/* Gathers the source of a launch, every file it may include under the names it may use, and its
 * defines. */
enum gk_status gk_compile_job_make(const struct gk_catalog *catalog, const struct gk_plan *plan,
                                   uint32_t launch, const char *target,
                                   struct gk_compile_job *job_out, struct gk_err *err);
void gk_compile_job_fini(struct gk_compile_job *job);
struct gk_json *gk_compile_job_to_json(const struct gk_compile_job *job);
enum gk_status gk_compile_job_from_json(const struct gk_json *json, struct gk_compile_job *job_out,
                                        struct gk_err *err);
/* Runs it on this process's compiler. */
enum gk_status gk_compile_job_run(const struct gk_compile_job *job, struct gk_compiler *compiler,
                                  struct gk_compile_output *output_out, struct gk_err *err);

#endif
