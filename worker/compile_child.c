/* The compile process: see children.h. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/child_frame.h"
#include "worker/children.h"
#include "worker/code_cache.h"
#include "worker/compile_job.h"

#if defined(__SANITIZE_ADDRESS__)
#define GK_LEAKS_LOOKED_FOR 1
#endif

/* An hour of processor time for a process that may compile thousands of kernels; one compilation's
 * deadline is the supervisor's. */
#define CPU_S        3600
#define MEMORY_BYTES (UINT64_C(3) << 30)

static struct gk_json *error_answer(enum gk_status status, const struct gk_err *err)
{
    struct gk_json *json = gk_json_new_object();
    if (!json || !gk_json_set_string(json, "error", err->text) ||
        !gk_json_set_string(json, "status", gk_status_name(status))) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

static struct gk_json *answer(struct gk_compiler *compiler, const struct gk_json *request)
{
    struct gk_compile_job job = {0};
    struct gk_compile_output output = {0};
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_compile_job_from_json(request, &job, &err);
    if (status == GK_OK) {
        status = gk_compile_job_run(&job, compiler, &output, &err);
    }
    json = status == GK_OK ? gk_code_to_json(&output) : error_answer(status, &err);
    gk_compile_job_fini(&job);
    gk_compile_output_fini(&output);
    return json;
}

int gk_child_probe(const char *nvrtc_path)
{
    struct gk_compiler_places places = {.file = nvrtc_path};
    struct gk_compiler *compiler = NULL;
    struct gk_compile_input input = {
        .name = "probe.cu",
        .target = "sm_80",
        .text = "extern \"C\" __global__ void probe(float *x) { *x = 1; }"};
    struct gk_compile_output output = {0};
    enum gk_status status = gk_compiler_open(&places, &compiler, NULL);
    if (status == GK_OK) {
        status = gk_compiler_run(compiler, &input, &output, NULL);
    }
    bool worked = status == GK_MISSING || (status == GK_OK && output.compiled); /* compiler.h */
    gk_compile_output_fini(&output);
    gk_compiler_close(compiler);
    return worked ? 0 : 1;
}

int gk_child_compile(const char *nvrtc_path)
{
    struct gk_compiler_places places = {.file = nvrtc_path};
    struct gk_compiler *compiler = NULL;
    struct gk_err err = {0};
    gk_child_limits(CPU_S, MEMORY_BYTES);
#ifndef GK_LEAKS_LOOKED_FOR /* which clones a process at the end */
    (void)gk_child_alone(); /* one fence more; without it there is the sandbox */
#endif
    enum gk_status status = gk_compiler_open(&places, &compiler, &err);
    while (status == GK_OK) {
        struct gk_json *request = NULL;
        status = gk_frame_read(STDIN_FILENO, &request, &err);
        if (status == GK_OK) {
            struct gk_json *json = answer(compiler, request);
            status = json ? gk_frame_write(STDOUT_FILENO, json, &err) : GK_NOMEM;
            gk_json_free(json);
        }
        gk_json_free(request);
    }
    gk_compiler_close(compiler);
    if (status != GK_END) {
        (void)fprintf(stderr, "gktune-worker: compile process: %s\n", err.text);
    }
    return status == GK_END ? 0 : gk_status_exit(status);
}
