/*
 * A hostile source in a compile process: what an absolute #include shows with and without the
 * sandbox.
 */
#include "worker/sandbox.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/child_frame.h"
#include "worker/compiler.h"

#define BWRAP   "/usr/bin/bwrap"
#define PROGRAM GK_BIN_DIR "/gktune-worker"

extern char **environ;
static char folder[] = "/tmp/gk-test-sandbox-XXXXXX";
static char nvrtc[PATH_MAX];

static struct gk_json *job(const char *text)
{
    struct gk_json *json = gk_json_new_object();
    assert_true(
        gk_json_set_string(json, "target", "sm_80") && gk_json_set_string(json, "kernel", "k") &&
        gk_json_set_string(json, "name", "k.cu") && gk_json_set_string(json, "text", text) &&
        gk_json_set(json, "headers", gk_json_new_object()) &&
        gk_json_set(json, "defines", gk_json_new_array()) &&
        gk_json_set(json, "options", gk_json_new_array()));
    return json;
}

/* Compiles text in a fresh compile process; the answer is the caller's. */
static struct gk_json *compile(const char *bwrap, const char *text)
{
    const char *args[] = {"--child=compile", "--nvrtc", nvrtc, NULL};
    struct gk_sandbox_command command = {0};
    posix_spawn_file_actions_t actions;
    struct gk_err err = {0};
    struct gk_json *request = job(text), *reply = NULL;
    int in[2], out[2];
    pid_t pid = 0;
    assert_int_equal(gk_sandbox_command(bwrap, PROGRAM, nvrtc, args, &command, &err), GK_OK);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], 0), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], 1), 0);
    assert_int_equal(posix_spawn(&pid, command.argv[0], &actions, NULL, command.argv, environ), 0);
    (void)close(in[0]);
    (void)close(out[1]);
    assert_int_equal(gk_frame_write(in[1], request, &err), GK_OK);
    assert_int_equal(gk_frame_read(out[0], &reply, &err), GK_OK);
    (void)close(in[1]);
    (void)close(out[0]);
    (void)waitpid(pid, NULL, 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    gk_sandbox_command_fini(&command);
    gk_json_free(request);
    return reply;
}

static void absolute_include(void **state)
{
    char path[128], text[256];
    (void)state;
    if (!gk_sandbox_works(BWRAP, PROGRAM, nvrtc)) {
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/secret", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("password_of_somebody;\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(text, sizeof text, "#include \"%s\"\nextern \"C\" __global__ void k() {}\n",
                   path);

    struct gk_json *open = compile(NULL, text); /* without the sandbox the test must see it */
    assert_non_null(strstr(gk_json_get_string(open, "log", ""), "password_of_somebody"));
    gk_json_free(open);

    struct gk_json *shut = compile(BWRAP, text);
    assert_false(gk_json_get_bool(shut, "compiled", true));
    assert_null(strstr(gk_json_get_string(shut, "log", ""), "password_of_somebody"));
    assert_non_null(
        strstr(gk_json_get_string(shut, "log", ""), "secret")); /* the file it did not find */
    gk_json_free(shut);
    (void)unlink(path);
}

static void ordinary_source(void **state)
{
    (void)state;
    struct gk_json *reply = compile(gk_sandbox_works(BWRAP, PROGRAM, nvrtc) ? BWRAP : NULL,
                                    "extern \"C\" __global__ void k(float *x) { *x = 1.0f; }");
    assert_true(gk_json_get_bool(reply, "compiled", false));
    assert_non_null(strstr(gk_json_get_string(reply, "ptx", ""), ".entry k("));
    assert_true(strlen(gk_json_get_string(reply, "cubin", "")) > 1000);
    gk_json_free(reply);
}

static void broken_sandbox(void **state)
{
    (void)state;
    assert_false(gk_sandbox_works("/bin/false", PROGRAM, nvrtc));
    assert_false(gk_sandbox_works("/nowhere/bwrap", PROGRAM, nvrtc));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(absolute_include),
                                       cmocka_unit_test(ordinary_source),
                                       cmocka_unit_test(broken_sandbox)};
    struct gk_compiler_places places = {.file = getenv("GKTUNE_NVRTC"),
                                        .cuda_home = getenv("CUDA_HOME")};
    struct gk_compiler *compiler = NULL;
    struct gk_err err = {0};
    if (gk_compiler_open(&places, &compiler, &err) != GK_OK) {
        (void)fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    (void)snprintf(nvrtc, sizeof nvrtc, "%s", gk_compiler_path(compiler));
    gk_compiler_close(compiler);
    if (!mkdtemp(folder)) {
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
