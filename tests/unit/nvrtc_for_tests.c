/*
 * See nvrtc_for_tests.h. One process compiles a handful of kernels: the library stays open.
 */
#include "tests/unit/nvrtc_for_tests.h"

#include <dlfcn.h>
#include <nvrtc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 160

static void *open_library(void)
{
    static const char *const NAMES[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *home = getenv("CUDA_HOME");
    char path[512];
    void *library = NULL;

    for (size_t i = 0; !library && i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (home) {
            (void)snprintf(path, sizeof(path), "%s/lib64/%s", home, NAMES[i]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (!library) {
            library = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
        }
        if (!library) {
            (void)snprintf(path, sizeof(path), "/usr/local/cuda/lib64/%s", NAMES[i]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
    return library;
}

static void *library(void)
{
    static void *opened;
    static bool tried;

    if (!tried) {
        tried = true;
        opened = open_library();
    }
    return opened;
}

/* ISO C knows no conversion from an object pointer to a function pointer; POSIX has one. */
static bool load(const char *name, void *function_pointer)
{
    void *symbol = dlsym(library(), name);

    memcpy(function_pointer, &symbol, sizeof(symbol));
    return symbol != NULL;
}

bool nvrtc_for_tests_available(void)
{
    return library() != NULL;
}

struct api {
    nvrtcResult (*create)(nvrtcProgram *, const char *, const char *, int, const char *const *,
                          const char *const *);
    nvrtcResult (*compile)(nvrtcProgram, int, const char *const *);
    nvrtcResult (*log_size)(nvrtcProgram, size_t *);
    nvrtcResult (*log)(nvrtcProgram, char *);
    nvrtcResult (*ptx_size)(nvrtcProgram, size_t *);
    nvrtcResult (*ptx)(nvrtcProgram, char *);
    nvrtcResult (*destroy)(nvrtcProgram *);
};

static bool load_api(struct api *api)
{
    return library() && load("nvrtcCreateProgram", &api->create) &&
           load("nvrtcCompileProgram", &api->compile) &&
           load("nvrtcGetProgramLogSize", &api->log_size) &&
           load("nvrtcGetProgramLog", &api->log) && load("nvrtcGetPTXSize", &api->ptx_size) &&
           load("nvrtcGetPTX", &api->ptx) && load("nvrtcDestroyProgram", &api->destroy);
}

char *nvrtc_for_tests_compile(const char *source, const char *name, const char *arch,
                              const char *const *options, char **log_out)
{
    const char *all[OPTIONS_MAX];
    char arch_option[64], include_option[600];
    const char *home = getenv("CUDA_HOME");
    nvrtcProgram program = NULL;
    nvrtcResult result;
    struct api api;
    size_t size = 0;
    char *ptx = NULL;
    int count = 0;

    *log_out = NULL;
    if (!load_api(&api)) {
        return NULL;
    }
    (void)snprintf(arch_option, sizeof(arch_option), "-arch=%s", arch);
    (void)snprintf(include_option, sizeof(include_option), "-I%s/include",
                   home ? home : "/usr/local/cuda");
    all[count++] = arch_option;
    all[count++] = include_option;
    all[count++] = "-lineinfo";
    while (options && *options && count < OPTIONS_MAX) {
        all[count++] = *options++;
    }
    if (api.create(&program, source, name, 0, NULL, NULL) != NVRTC_SUCCESS) {
        return NULL;
    }
    result = api.compile(program, count, all);
    if (api.log_size(program, &size) == NVRTC_SUCCESS && (*log_out = calloc(1, size + 1)) != NULL) {
        (void)api.log(program, *log_out);
    }
    if (result == NVRTC_SUCCESS && api.ptx_size(program, &size) == NVRTC_SUCCESS &&
        (ptx = calloc(1, size + 1)) != NULL && api.ptx(program, ptx) != NVRTC_SUCCESS) {
        free(ptx);
        ptx = NULL;
    }
    (void)api.destroy(&program);
    return ptx;
}
