#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/pipe_frame.h"
#include "worker/children.h"
#include "worker/compile_job.h"
#include "worker/sandbox.h"

static bool send_hello(int out, const struct gk_compiler *compiler, const char *error)
{
    struct gk_json *hello = gk_json_new_object();
    bool good = hello && gk_json_set_string(hello, "kind", "hello");
    if (good && error) {
        good = gk_json_set_string(hello, "error", error);
    } else if (good) {
        const char *path = compiler ? gk_compiler_path(compiler) : NULL;
        good = gk_json_set_string(hello, "nvrtc", compiler ? gk_compiler_version(compiler) : "") &&
               gk_json_set_string(hello, "path", path ? path : "") &&
               gk_json_set(hello, "objects", gk_sandbox_objects(path));
    }
    good = good && gk_pipe_write(out, hello, NULL, 0, NULL) == GK_OK;
    gk_json_free(hello);
    return good;
}

/* The payload is PTX and cubin, one after the other. */
static enum gk_status send_output(int out, const struct gk_json *request, enum gk_status status,
                                  const char *text, const struct gk_compile_output *output)
{
    struct gk_json *reply = gk_json_new_object();
    struct gk_buf payload = {0};
    const bool code = output->compiled && output->ptx && output->cubin;
    if (code) {
        gk_buf_add(&payload, output->ptx, output->ptx_size);
        gk_buf_add(&payload, output->cubin, output->cubin_size);
    }
    enum gk_status sent = GK_NOMEM;
    if (reply && !payload.failed && gk_json_set_string(reply, "kind", "compiled") &&
        gk_json_set_int(reply, "id", gk_json_get_int(request, "id", 0)) &&
        gk_json_set_string(reply, "status", gk_status_name(status)) &&
        gk_json_set_string(reply, "text", text) &&
        gk_json_set_bool(reply, "compiled", code) &&
        gk_json_set_string(reply, "log", output->log ? output->log : "") &&
        gk_json_set_int(reply, "ptx", code ? (int64_t)output->ptx_size : 0) &&
        gk_json_set_int(reply, "cubin", code ? (int64_t)output->cubin_size : 0)) {
        sent = gk_pipe_write(out, reply, payload.data, payload.size, NULL);
    }
    gk_json_free(reply);
    gk_buf_fini(&payload);
    return sent;
}

static enum gk_status compile(int out, const struct gk_json *request, struct gk_compiler *compiler)
{
    struct gk_compile_job job = {0};
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    enum gk_status status = gk_child_allow_cpu((uint32_t)gk_json_get_int(request, "cpu_s", 60), &err);
    if (status == GK_OK && !compiler) {
        status = gk_fail(&err, GK_MISSING, "this compile process was started without NVRTC");
    }
    if (status == GK_OK) {
        status = gk_compile_job_from_json(gk_json_get(request, "job"), &job, &err);
    }
    if (status == GK_OK) {
        status = gk_compile_job_run(&job, compiler, &output, &err);
    }
    status = send_output(out, request, status, err.text, &output);
    gk_compile_output_fini(&output);
    gk_compile_job_fini(&job);
    return status;
}

static void wait_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* A scripted compilation: what it costs and how it ends stands in the request. */
static enum gk_status mock(int out, const struct gk_json *request)
{
    const char *outcome = gk_json_get_string(request, "outcome", "ok");
    struct gk_compile_output output = {0};
    wait_ms(gk_json_get_int(request, "ms", 0));
    if (strcmp(outcome, "compile_die") == 0) {
        (void)raise(SIGKILL);
    }
    if (strcmp(outcome, "compile_hang") == 0) {
        for (;;) {
            (void)pause();
        }
    }
    output.compiled = strcmp(outcome, "compile_error") != 0;
    output.log = gk_strdup(output.compiled ? "" : "mock: this config does not compile");
    if (output.compiled) {
        output.ptx = gk_strdup("//mock");
        output.ptx_size = 6;
        output.cubin = (unsigned char *)gk_strdup("mock");
        output.cubin_size = 4;
    }
    enum gk_status status = send_output(out, request, GK_OK, "", &output);
    gk_compile_output_fini(&output);
    return status;
}

int gk_compile_child(const struct gk_children_streams *streams, const struct gk_compiler_places *places)
{
    struct gk_compiler *compiler = NULL;
    struct gk_err err = {0};
    enum gk_status status = gk_child_confine(streams->parent, true, &err);
    if (status == GK_OK && places) {
        status = gk_compiler_open(places, &compiler, &err);
    }
    if (!send_hello(streams->out, compiler, status == GK_OK ? NULL : err.text)) {
        status = GK_CLOSED;
    }
    while (status == GK_OK) {
        struct gk_pipe frame = {0};
        status = gk_pipe_read(streams->in, &frame, &err);
        if (status == GK_OK) {
            const char *kind = gk_json_get_string(frame.json, "kind", "");
            status = strcmp(kind, "mock") == 0 ? mock(streams->out, frame.json)
                                               : compile(streams->out, frame.json, compiler);
        }
        gk_pipe_fini(&frame);
    }
    gk_compiler_close(compiler);
    return status == GK_CLOSED ? 0 : 1;
}
