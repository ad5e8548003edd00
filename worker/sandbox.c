#include "worker/sandbox.h"

#include <errno.h>
#include <glob.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define OBJECTS_MAX 256
#define INSIDE      "/gktune-worker" /* where the program stands in the sandbox */

static int add_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct gk_json *list = context;
    if (info->dlpi_name && info->dlpi_name[0] == '/') { /* not the program itself, not the vdso */
        return gk_json_push(list, gk_json_new_string(info->dlpi_name)) ? 0 : 1;
    }
    return 0;
}

/* NVRTC opens its builtins by name at the first compile: they are not in the list of loaded objects. */
static bool add_beside(struct gk_json *list, const char *nvrtc)
{
    const char *slash = strrchr(nvrtc, '/');
    bool good = true;
    if (!slash) {
        return true;
    }
    char *pattern = gk_asprintf("%.*s/libnvrtc*.so*", (int)(slash - nvrtc), nvrtc);
    glob_t found = {0};
    if (pattern && glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; good && i < found.gl_pathc && i < OBJECTS_MAX; i++) {
            good = gk_json_push(list, gk_json_new_string(found.gl_pathv[i]));
        }
        globfree(&found);
    }
    free(pattern);
    return good && pattern;
}

struct gk_json *gk_sandbox_objects(const char *nvrtc)
{
    struct gk_json *list = gk_json_new_array();
    if (!list || dl_iterate_phdr(add_object, list) != 0 || (nvrtc && !add_beside(list, nvrtc))) {
        gk_json_free(list);
        return NULL;
    }
    return list;
}

/* ------------------------------------------------------------------ argv */

struct argv {
    char **items;
    size_t count, capacity;
    bool failed;
};

static void push(struct argv *argv, const char *text)
{
    if (argv->count + 1 >= argv->capacity) {
        size_t capacity = argv->capacity ? argv->capacity * 2 : 64;
        char **items = realloc(argv->items, capacity * sizeof *items);
        if (!items) {
            argv->failed = true;
            return;
        }
        argv->items = items;
        argv->capacity = capacity;
    }
    argv->items[argv->count] = gk_strdup(text);
    argv->failed = argv->failed || !argv->items[argv->count];
    argv->count += argv->items[argv->count] != NULL;
    argv->items[argv->count] = NULL;
}

/* The folders of the objects, for the loader: its cache file is not inside. */
static void push_library_path(struct argv *argv, const struct gk_json *objects)
{
    struct gk_buf path = {0};
    for (size_t i = 0; i < gk_json_count(objects); i++) {
        const char *object = gk_json_string(gk_json_at(objects, i), "");
        const char *slash = strrchr(object, '/');
        if (!slash || slash == object) {
            continue;
        }
        char *folder = gk_asprintf(":%.*s:", (int)(slash - object), object);
        char *known = gk_asprintf(":%s:", gk_buf_text(&path));
        if (!folder || !known) {
            argv->failed = true;
        } else if (!strstr(known, folder)) {
            gk_buf_printf(&path, "%s%.*s", path.size ? ":" : "", (int)(slash - object), object);
        }
        free(folder);
        free(known);
    }
    push(argv, "--setenv");
    push(argv, "LD_LIBRARY_PATH");
    push(argv, gk_buf_text(&path));
    argv->failed = argv->failed || path.failed;
    gk_buf_fini(&path);
}

enum gk_status gk_sandbox_argv(const char *bwrap, const char *program, const struct gk_json *objects,
                               const char *const *args, char ***argv_out, struct gk_err *err)
{
    static const char *const HEAD[] = {"--unshare-all", "--die-with-parent", "--new-session",
                                       "--clearenv",    "--cap-drop",        "ALL",
                                       "--proc",        "/proc",             "--dev",
                                       "/dev",          "--tmpfs",           "/tmp",
                                       "--chdir",       "/tmp"};
    struct argv argv = {0};
    push(&argv, bwrap);
    for (size_t i = 0; i < GK_ARRAY_COUNT(HEAD); i++) {
        push(&argv, HEAD[i]);
    }
    for (size_t i = 0; i < gk_json_count(objects) && i < OBJECTS_MAX; i++) {
        const char *object = gk_json_string(gk_json_at(objects, i), "");
        push(&argv, "--ro-bind");
        push(&argv, object);
        push(&argv, object);
    }
    push(&argv, "--ro-bind");
    push(&argv, program);
    push(&argv, INSIDE);
    push_library_path(&argv, objects);
    push(&argv, INSIDE);
    for (; *args; args++) {
        push(&argv, *args);
    }
    if (argv.failed || !argv.items) {
        gk_sandbox_argv_free(argv.items);
        return gk_fail(err, GK_NOMEM, "out of memory for the sandbox");
    }
    *argv_out = argv.items;
    return GK_OK;
}

void gk_sandbox_argv_free(char **argv)
{
    for (char **item = argv; item && *item; item++) {
        free(*item);
    }
    free(argv);
}

char *gk_sandbox_find_bwrap(const char *path)
{
    for (const char *part = path; part && *part;) {
        const size_t size = strcspn(part, ":");
        char *file = size ? gk_asprintf("%.*s/bwrap", (int)size, part) : NULL;
        if (file && file[0] == '/' && access(file, X_OK) == 0) {
            return file;
        }
        free(file);
        part += size + (part[size] ? 1 : 0);
    }
    return NULL;
}

/* ------------------------------------------------------------------ limits */

static enum gk_status set_limit(int which, rlim_t soft, rlim_t hard, const char *name,
                                struct gk_err *err)
{
    struct rlimit limit = {soft, hard};
    if (setrlimit((__rlimit_resource_t)which, &limit) != 0) {
        return gk_fail(err, GK_IO, "setrlimit %s: %s", name, strerror(errno));
    }
    return GK_OK;
}

enum gk_status gk_child_confine(int parent, bool limit_memory, struct gk_err *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return gk_fail(err, GK_IO, "prctl PDEATHSIG: %s", strerror(errno));
    }
    if (parent && getppid() != parent) { /* it died before the call above */
        return gk_fail(err, GK_CLOSED, "the parent process %d is gone", parent);
    }
    enum gk_status status = set_limit(RLIMIT_CORE, 0, 0, "core", err);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (status == GK_OK && limit_memory) {
        status = set_limit(RLIMIT_AS, GK_COMPILE_MEMORY_BYTES, GK_COMPILE_MEMORY_BYTES,
                           "address space", err);
    }
#else
    (void)limit_memory;
#endif
    return status;
}

enum gk_status gk_child_allow_cpu(uint32_t seconds, struct gk_err *err)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) {
        return gk_fail(err, GK_IO, "getrusage: %s", strerror(errno));
    }
    const rlim_t used = (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1);
    return set_limit(RLIMIT_CPU, used + seconds, RLIM_INFINITY, "cpu", err);
}
