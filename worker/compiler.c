/* NVRTC: see compiler.h. */
#include "worker/compiler.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"

#define LOG_HALF    32768 /* bytes of a log that are kept of its beginning, and of its end */
#define OPTIONS_MAX 1024

struct nvrtc_api {
    nvrtcResult (*version)(int *, int *);
    nvrtcResult (*create)(nvrtcProgram *, const char *, const char *, int, const char *const *,
                          const char *const *);
    nvrtcResult (*compile)(nvrtcProgram, int, const char *const *);
    nvrtcResult (*destroy)(nvrtcProgram *);
    nvrtcResult (*log_size)(nvrtcProgram, size_t *);
    nvrtcResult (*log)(nvrtcProgram, char *);
    nvrtcResult (*ptx_size)(nvrtcProgram, size_t *);
    nvrtcResult (*ptx)(nvrtcProgram, char *);
    nvrtcResult (*cubin_size)(nvrtcProgram, size_t *);
    nvrtcResult (*cubin)(nvrtcProgram, char *);
    const char *(*text)(nvrtcResult);
};

struct gk_compiler {
    void *library;
    struct nvrtc_api api;
    bool caches; /* since 12.9 */
    char version[32];
    char path[PATH_MAX];
};

/* ------------------------------------------------------------------ finding it */

struct search {
    struct gk_buf tried;
    void *library;
};

static void try_file(struct search *search, const char *path)
{
    if (search->library) {
        return;
    }
    search->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    gk_buf_printf(&search->tried, "%s%s", search->tried.size ? ", " : "", path);
}

/* Newest first: glob sorts by name, and a later CUDA has the larger number. */
static void try_pattern(struct search *search, const char *pattern)
{
    glob_t found = {0};
    if (search->library) {
        return;
    }
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0;) {
            if (!strstr(found.gl_pathv[i], ".alt.") && !strstr(found.gl_pathv[i], "builtins")) {
                try_file(search, found.gl_pathv[i]);
            }
        }
    } else {
        gk_buf_printf(&search->tried, "%s%s", search->tried.size ? ", " : "", pattern);
    }
    globfree(&found);
}

static void try_folder(struct search *search, const char *folder, const char *below)
{
    char pattern[PATH_MAX];
    if (folder && snprintf(pattern, sizeof pattern, "%s%s/libnvrtc.so.*", folder, below) <
                      (int)sizeof pattern) {
        try_pattern(search, pattern);
    }
}

/* What the user named: the library, or a folder that holds it: of a toolkit, of a wheel (as
 * site-packages/nvidia/cu13), or the folder of all wheels. */
static void try_given(struct search *search, const char *given)
{
    static const char *const below[] = {"",
                                        "/lib",
                                        "/lib64",
                                        "/targets/*/lib",
                                        "/cu*/lib",
                                        "/cuda_nvrtc/lib",
                                        "/nvidia/cu*/lib",
                                        "/nvidia/cuda_nvrtc/lib"};
    struct stat info;
    if (stat(given, &info) != 0 || !S_ISDIR(info.st_mode)) {
        try_file(search, given);
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(below); i++) {
        try_folder(search, given, below[i]);
    }
}

static void search_everywhere(struct search *search, const struct gk_compiler_places *places)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    static const char *const folders[] = {
        "/usr/local/cuda/lib64", "/usr/local/cuda*/lib64",    "/usr/local/cuda*/targets/*/lib",
        "/opt/cuda/lib64",       "/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
    if (places->file) {
        try_given(search, places->file);
        return;
    }
    try_folder(search, places->virtual_env, "/lib/python3*/site-packages/nvidia/cu*/lib");
    try_folder(search, places->virtual_env, "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib");
    try_folder(search, places->cuda_home, "/lib64");
    try_folder(search, places->cuda_home, "/lib");
    try_folder(search, places->cuda_home, "/targets/*/lib");
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        try_file(search, names[i]);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(folders); i++) {
        try_folder(search, folders[i], "");
    }
    try_folder(search, places->home, "/.local/lib/python3*/site-packages/nvidia/cu*/lib");
    try_folder(search, places->home, "/.local/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib");
    try_folder(search, "/usr/lib/python3/dist-packages/nvidia", "/cu*/lib");
}

/* ISO C knows no conversion from an object pointer to a function pointer; POSIX has one. */
static bool resolve(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool resolve_all(void *library, struct nvrtc_api *api)
{
    return resolve(library, "nvrtcVersion", &api->version) &&
           resolve(library, "nvrtcCreateProgram", &api->create) &&
           resolve(library, "nvrtcCompileProgram", &api->compile) &&
           resolve(library, "nvrtcDestroyProgram", &api->destroy) &&
           resolve(library, "nvrtcGetProgramLogSize", &api->log_size) &&
           resolve(library, "nvrtcGetProgramLog", &api->log) &&
           resolve(library, "nvrtcGetPTXSize", &api->ptx_size) &&
           resolve(library, "nvrtcGetPTX", &api->ptx) &&
           resolve(library, "nvrtcGetCUBINSize", &api->cubin_size) &&
           resolve(library, "nvrtcGetCUBIN", &api->cubin) &&
           resolve(library, "nvrtcGetErrorString", &api->text);
}

static void find_path(struct gk_compiler *compiler)
{
    void *symbol = NULL;
    Dl_info info;
    memcpy(&symbol, &compiler->api.version, sizeof symbol);
    if (dladdr(symbol, &info) == 0 || !info.dli_fname ||
        !realpath(info.dli_fname, compiler->path)) {
        compiler->path[0] = '\0';
    }
}

/* NVRTC opens its built-ins by name alone, which fails where no loader path leads to its folder (a
 * wheel, a sandbox). What is loaded already under that name is found. Best effort: an NVRTC that
 * finds them itself needs none of it. */
static void open_builtins(const struct gk_compiler *compiler)
{
    char path[PATH_MAX + 64];
    const char *slash = strrchr(compiler->path, '/');
    if (slash) {
        (void)snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%s",
                       (int)(slash - compiler->path), compiler->path, compiler->version);
        (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
}

enum gk_status gk_compiler_open(const struct gk_compiler_places *places,
                                struct gk_compiler **compiler_out, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct search search = {0};
    int major = 0, minor = 0;
    struct gk_compiler *compiler = calloc(1, sizeof *compiler);

    if (!compiler) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    search_everywhere(&search, places);
    compiler->library = search.library;
    if (!compiler->library) {
        status =
            gk_fail(err, GK_MISSING,
                    "NVRTC (libnvrtc.so) was not found; looked for %s. Set GKTUNE_NVRTC to the "
                    "library or its folder, or CUDA_HOME to the toolkit, or install the wheel "
                    "nvidia-cuda-nvrtc",
                    gk_buf_text(&search.tried));
        goto out;
    }
    if (!resolve_all(compiler->library, &compiler->api) ||
        compiler->api.version(&major, &minor) != NVRTC_SUCCESS) {
        status = gk_fail(err, GK_UNSUPPORTED,
                         "an NVRTC was found that lacks functions of version 12 (looked for %s)",
                         gk_buf_text(&search.tried));
        goto out;
    }
    (void)snprintf(compiler->version, sizeof compiler->version, "%d.%d", major, minor);
    compiler->caches = major > 12 || (major == 12 && minor >= 9);
    find_path(compiler);
    open_builtins(compiler);
    *compiler_out = compiler;
    compiler = NULL;
out:
    gk_compiler_close(compiler);
    gk_buf_fini(&search.tried);
    return status;
}

void gk_compiler_close(struct gk_compiler *compiler)
{
    if (!compiler) {
        return;
    }
    /* The library stays mapped: it starts threads of its own and has no way to end them. */
    free(compiler);
}

const char *gk_compiler_version(const struct gk_compiler *compiler)
{
    return compiler->version;
}

const char *gk_compiler_path(const struct gk_compiler *compiler)
{
    return compiler->path;
}

/* ------------------------------------------------------------------ compiling */

void gk_compile_output_fini(struct gk_compile_output *output)
{
    if (!output) {
        return;
    }
    free(output->ptx);
    free(output->cubin);
    free(output->log);
    memset(output, 0, sizeof *output);
}

struct option_list {
    const char *texts[OPTIONS_MAX];
    char *owned[OPTIONS_MAX];
    int count;
    bool failed;
};

static void add_option(struct option_list *list, const char *prefix, const char *text)
{
    if (list->count == OPTIONS_MAX) {
        list->failed = true;
        return;
    }
    char *whole = gk_asprintf("%s%s", prefix, text);
    list->failed = list->failed || !whole;
    list->owned[list->count] = whole;
    list->texts[list->count++] = whole;
}

static bool gives_standard(const struct gk_compile_input *input)
{
    for (uint32_t i = 0; i < input->option_count; i++) {
        if (strncmp(input->options[i], "-std=", 5) == 0) {
            return true;
        }
    }
    return false;
}

static void make_options(struct option_list *list, const struct gk_compile_input *input,
                         bool caches)
{
    add_option(list, "-arch=", input->target);
    add_option(list, "", "--ptxas-options=-v"); /* registers and spills, read from the log */
    /* Where a driver can be opened, NVRTC takes code that it made before from the driver's cache,
     * and its log is empty then. $CUDA_CACHE_DISABLE, set after the driver was opened, does not
     * keep it from that (seen on an H200 with 13.0.88). Our own cache keeps the log. */
    if (caches) {
        add_option(list, "", "--no-cache");
    }
    add_option(list, "", "-lineinfo");
    add_option(list, "", gives_standard(input) ? "-lineinfo" : "-std=c++17");
    for (uint32_t i = 0; i < input->option_count; i++) {
        if (strcmp(input->options[i], "-lineinfo") != 0) {
            add_option(list, "", input->options[i]);
        }
    }
    for (uint32_t i = 0; i < input->define_count; i++) {
        add_option(list, "-D", input->defines[i]);
    }
}

static enum gk_status take_text(nvrtcProgram program,
                                nvrtcResult (*get_size)(nvrtcProgram, size_t *),
                                nvrtcResult (*get)(nvrtcProgram, char *), char **text_out,
                                size_t *size_out, struct gk_err *err)
{
    size_t size = 0;
    if (get_size(program, &size) != NVRTC_SUCCESS) {
        return gk_fail(err, GK_INTERNAL, "NVRTC gave no output");
    }
    char *text = calloc(1, size + 1);
    if (!text) {
        return gk_fail(err, GK_NOMEM, "out of memory for %zu bytes of NVRTC's output", size);
    }
    if (size > 0 && get(program, text) != NVRTC_SUCCESS) {
        free(text);
        return gk_fail(err, GK_INTERNAL, "NVRTC gave no output");
    }
    *text_out = text;
    *size_out = size;
    return GK_OK;
}

/* A source can make the compiler talk without end: its beginning and its end are kept. */
static enum gk_status cap_log(char **log, size_t size, struct gk_err *err)
{
    if (size <= 2 * LOG_HALF) {
        return GK_OK;
    }
    char *kept = gk_asprintf("%.*s\n... %zu bytes of the log left out ...\n%s", LOG_HALF, *log,
                             size - (size_t)2 * LOG_HALF, *log + size - LOG_HALF);
    if (!kept) {
        return gk_fail(err, GK_NOMEM, "out of memory for NVRTC's log");
    }
    free(*log);
    *log = kept;
    return GK_OK;
}

static enum gk_status take_output(const struct nvrtc_api *api, nvrtcProgram program,
                                  nvrtcResult result, struct gk_compile_output *output,
                                  struct gk_err *err)
{
    size_t log_size = 0;
    char *cubin = NULL;
    enum gk_status status =
        take_text(program, api->log_size, api->log, &output->log, &log_size, err);
    if (status != GK_OK) {
        return status;
    }
    bool told = strstr(output->log, "ptxas info") != NULL;
    status = cap_log(&output->log, strlen(output->log), err);
    if (status != GK_OK || result == NVRTC_ERROR_COMPILATION) {
        return status;
    }
    if (result != NVRTC_SUCCESS) {
        bool option = result == NVRTC_ERROR_INVALID_OPTION;
        return gk_fail(err,
                       result == NVRTC_ERROR_OUT_OF_MEMORY ? GK_NOMEM
                       : option                            ? GK_UNSUPPORTED
                                                           : GK_INTERNAL,
                       "NVRTC: %s: %.400s", api->text(result), output->log);
    }
    if (!told) { /* every config that must not spill would be refused */
        return gk_fail(err, GK_MISSING,
                       "NVRTC compiled it and did not say how many registers it takes, which "
                       "--ptxas-options=-v asks for: %.400s",
                       output->log);
    }
    status = take_text(program, api->ptx_size, api->ptx, &output->ptx, &output->ptx_size, err);
    if (status == GK_OK) {
        status = take_text(program, api->cubin_size, api->cubin, &cubin, &output->cubin_size, err);
        output->cubin = (unsigned char *)cubin;
    }
    if (status == GK_OK) {
        output->ptx_size = strlen(output->ptx); /* NVRTC counts the NUL */
        output->compiled = true;
    }
    return status;
}

enum gk_status gk_compiler_run(struct gk_compiler *compiler, const struct gk_compile_input *input,
                               struct gk_compile_output *output_out, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    const struct nvrtc_api *api = &compiler->api;
    struct gk_compile_output output = {0};
    nvrtcProgram program = NULL;
    nvrtcResult result;
    struct option_list *options = calloc(1, sizeof *options);
    const char **names = calloc((size_t)input->header_count + 1, sizeof *names);
    const char **texts = calloc((size_t)input->header_count + 1, sizeof *texts);

    if (!options || !names || !texts) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < input->header_count; i++) {
        names[i] = input->headers[i].name;
        texts[i] = input->headers[i].text;
    }
    make_options(options, input, compiler->caches);
    if (options->failed) {
        status = gk_fail(err, GK_LIMIT, "%s: out of memory, or more than %d options and defines",
                         input->name, OPTIONS_MAX);
        goto out;
    }
    result =
        api->create(&program, input->text, input->name, (int)input->header_count, texts, names);
    if (result != NVRTC_SUCCESS) {
        status = gk_fail(err, GK_INTERNAL, "NVRTC: %s", api->text(result));
        goto out;
    }
    result = api->compile(program, options->count, options->texts);
    status = take_output(api, program, result, &output, err);
    if (status == GK_OK) {
        *output_out = output;
        output = (struct gk_compile_output){0};
    }
out:
    if (program) {
        (void)api->destroy(&program);
    }
    for (int i = 0; options && i < options->count; i++) {
        free(options->owned[i]);
    }
    free(options);
    free(names);
    free(texts);
    gk_compile_output_fini(&output);
    return status;
}
