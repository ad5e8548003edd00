/*
 * A hostile source in a compile process: what an absolute #include shows with and without the
 * sandbox.
 */
#include "worker/sandbox.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
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

struct child {
    pid_t pid;
    int in, out;
};

/* A compile process that has been asked to compile text. */
static struct child start(const char *bwrap, const char *text)
{
    const char *args[] = {"--child=compile", "--nvrtc", nvrtc, NULL};
    struct gk_sandbox_command command = {0};
    posix_spawn_file_actions_t actions;
    struct gk_err err = {0};
    struct gk_json *request = job(text);
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
    (void)posix_spawn_file_actions_destroy(&actions);
    gk_sandbox_command_fini(&command);
    gk_json_free(request);
    return (struct child){pid, in[1], out[0]};
}

static struct gk_json *finish(struct child child)
{
    struct gk_err err = {0};
    struct gk_json *reply = NULL;
    assert_int_equal(gk_frame_read(child.out, &reply, &err), GK_OK);
    (void)close(child.in);
    (void)close(child.out);
    (void)waitpid(child.pid, NULL, 0);
    return reply;
}

/* Compiles text in a fresh compile process; the answer is the caller's. */
static struct gk_json *compile(const char *bwrap, const char *text)
{
    return finish(start(bwrap, text));
}

/* A file of somebody else's, which no source may learn anything of. */
static void make_secret(char path_out[128])
{
    (void)snprintf(path_out, 128, "%s/secret", folder);
    FILE *file = fopen(path_out, "w");
    assert_non_null(file);
    assert_true(fputs("password_of_somebody;\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Whether the log of a compilation has the words, with the sandbox and without it: a test that did
 * not see them there would prove nothing here. */
static void only_outside(const char *text, const char *words)
{
    struct gk_json *open = compile(NULL, text);
    if (!strstr(gk_json_get_string(open, "log", ""), words)) {
        fail_msg("without a sandbox: %s", gk_json_get_string(open, "log", ""));
    }
    gk_json_free(open);
    struct gk_json *shut = compile(BWRAP, text);
    assert_null(strstr(gk_json_get_string(shut, "log", ""), words));
    gk_json_free(shut);
}

static void absolute_include(void **state)
{
    char path[128], text[256];
    (void)state;
    if (!gk_sandbox_works(BWRAP, PROGRAM, nvrtc)) {
        skip();
    }
    make_secret(path);
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

/* No scan of the text would find the path: the preprocessor makes it. */
static void macro_include(void **state)
{
    char path[128], text[512];
    (void)state;
    if (!gk_sandbox_works(BWRAP, PROGRAM, nvrtc)) {
        skip();
    }
    make_secret(path);
    (void)snprintf(text, sizeof text,
                   "#define TEXT_(x) #x\n#define TEXT(x) TEXT_(x)\n#define DIR %s\n"
                   "#include TEXT(DIR/secret)\nextern \"C\" __global__ void k() {}\n",
                   folder);
    only_outside(text, "password_of_somebody");
    (void)unlink(path);
}

/* Whether a file is there is a secret too. */
static void has_include(void **state)
{
    char path[128], text[512];
    (void)state;
    if (!gk_sandbox_works(BWRAP, PROGRAM, nvrtc)) {
        skip();
    }
    make_secret(path);
    (void)snprintf(text, sizeof text,
                   "#if __has_include(\"%s\") || __has_include(\"/etc/passwd\")\n"
                   "#error it_is_there\n#endif\nextern \"C\" __global__ void k() {}\n",
                   path);
    only_outside(text, "it_is_there");
    (void)unlink(path);
}

/* It is refused, or it is still at it when the supervisor's deadline comes: then it dies with all
 * that it has started, at once. */
static void expect_bounded(const char *text)
{
    const char *bwrap = gk_sandbox_works(BWRAP, PROGRAM, nvrtc) ? BWRAP : NULL;
    struct child child = start(bwrap, text);
    struct pollfd answer = {.fd = child.out, .events = POLLIN};
    if (poll(&answer, 1, 4000) > 0) {
        struct gk_json *reply = finish(child);
        assert_false(gk_json_get_bool(reply, "compiled", false));
        gk_json_free(reply);
        return;
    }
    assert_int_equal(kill(child.pid, SIGKILL), 0);
    char byte;
    int status = 0;
    /* The end of the pipe: nobody is left who could write to it, inside of the sandbox either. */
    assert_int_equal(poll(&answer, 1, 5000), 1);
    assert_int_equal(read(child.out, &byte, 1), 0);
    assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
    (void)close(child.in);
    (void)close(child.out);
}

static void template_bomb(void **state)
{
    (void)state;
    expect_bounded("template <int N, int M> struct T { typedef typename T<N - 1, 2 * M>::t a;\n"
                   "typedef typename T<N - 1, 2 * M + 1>::t t; };\n"
                   "template <int M> struct T<0, M> { typedef int t; };\n"
                   "extern \"C\" __global__ void k(T<22, 0>::t *x) { *x = 1; }\n");
}

static void macro_bomb(void **state)
{
    (void)state;
    expect_bounded("#define A 1,1,1,1,1,1,1,1,1,1\n#define B A,A,A,A,A,A,A,A,A,A\n"
                   "#define C B,B,B,B,B,B,B,B,B,B\n#define D C,C,C,C,C,C,C,C,C,C\n"
                   "#define E D,D,D,D,D,D,D,D,D,D\n#define F E,E,E,E,E,E,E,E,E,E\n"
                   "#define G F,F,F,F,F,F,F,F,F,F\n#define H G,G,G,G,G,G,G,G,G,G\n"
                   "__device__ int x[] = {H};\nextern \"C\" __global__ void k() {}\n");
}

/* A compiler that is made to talk without end: what is kept is bounded, and the end of it is there.
 */
static void log_flood(void **state)
{
    (void)state;
    size_t lines = 20000, size = 0, capacity = lines * 96;
    char *text = malloc(capacity);
    assert_non_null(text);
    for (size_t i = 0; i < lines; i++) {
        size += (size_t)snprintf(text + size, capacity - size,
                                 "#warning line %zu of a source that likes to hear itself\n", i);
    }
    (void)snprintf(text + size, capacity - size, "#error the_end\n");
    struct gk_json *reply = compile(gk_sandbox_works(BWRAP, PROGRAM, nvrtc) ? BWRAP : NULL, text);
    const char *log = gk_json_get_string(reply, "log", "");
    assert_false(gk_json_get_bool(reply, "compiled", true));
    assert_true(strlen(log) <= 70000);
    assert_non_null(strstr(log, "the_end"));
    gk_json_free(reply);
    free(text);
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

static bool has_words(const struct gk_sandbox_command *command, const char *const words[3])
{
    for (uint32_t i = 0; i + 2 < command->count; i++) {
        if (strcmp(command->argv[i], words[0]) == 0 &&
            strcmp(command->argv[i + 1], words[1]) == 0 &&
            strcmp(command->argv[i + 2], words[2]) == 0) {
            return true;
        }
    }
    return false;
}

/* What is beside the program is there inside, and the loader is told where the program lies: a
 * bundle has its libraries from there alone. */
static void a_bundle_brings_its_libraries(void **state)
{
    static const char *const expected[][3] = {
        {"--setenv", "LD_ORIGIN_PATH", "/opt/a b/bin"},
        {"--ro-bind-try", "/opt/a b/lib", "/opt/a b/lib"},
        {"--ro-bind-try", "/opt/a b/bin/gktune-worker", "/opt/a b/bin/gktune-worker"},
        {"--ro-bind-try", "/opt/cuda/lib64", "/opt/cuda/lib64"},
    };
    const char *args[] = {"--child=probe", NULL};
    struct gk_sandbox_command command = {0};
    struct gk_err err = {0};
    (void)state;
    assert_int_equal(gk_sandbox_command("/usr/bin/bwrap", "/opt/a b/bin/gktune-worker",
                                        "/opt/cuda/lib64/libnvrtc.so.13", args, &command, &err),
                     GK_OK);
    for (size_t i = 0; i < GK_ARRAY_COUNT(expected); i++) {
        if (!has_words(&command, expected[i])) {
            fail_msg("no %s %s %s", expected[i][0], expected[i][1], expected[i][2]);
        }
    }
    gk_sandbox_command_fini(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(absolute_include),
                                       cmocka_unit_test(macro_include),
                                       cmocka_unit_test(has_include),
                                       cmocka_unit_test(template_bomb),
                                       cmocka_unit_test(macro_bomb),
                                       cmocka_unit_test(log_flood),
                                       cmocka_unit_test(ordinary_source),
                                       cmocka_unit_test(broken_sandbox),
                                       cmocka_unit_test(a_bundle_brings_its_libraries)};
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
