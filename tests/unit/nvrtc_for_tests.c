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

#include "core/hash.h"
#include "core/json.h"

#define OPTIONS_MAX 160
#define PTX_MAX     (32u << 20)

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

/* Where this PTX is kept; false where none is. */
static bool kept_path(const char *source, const char *name, const char *const *all, int count,
                      char *path, size_t size)
{
    const char *folder = getenv("GKTUNE_TEST_CODE");
    struct gk_hasher hasher;
    struct gk_hash key;
    char hex[GK_HASH_TEXT_SIZE];

    if (!folder || gk_hash_setup(NULL) != GK_OK) {
        return false;
    }
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, name);
    gk_hasher_text(&hasher, source);
    for (int i = 0; i < count; i++) {
        gk_hasher_text(&hasher, all[i]);
    }
    key = gk_hasher_final(&hasher);
    gk_hash_hex(&key, hex);
    return snprintf(path, size, "%s/%s.ptx", folder, hex) < (int)size;
}

static char *run_nvrtc(const struct api *api, const char *source, const char *name,
                       const char *const *all, int count, char **log_out)
{
    nvrtcProgram program = NULL;
    nvrtcResult result;
    size_t size = 0;
    char *ptx = NULL;

    if (api->create(&program, source, name, 0, NULL, NULL) != NVRTC_SUCCESS) {
        return NULL;
    }
    result = api->compile(program, count, all);
    if (api->log_size(program, &size) == NVRTC_SUCCESS &&
        (*log_out = calloc(1, size + 1)) != NULL) {
        (void)api->log(program, *log_out);
    }
    if (result == NVRTC_SUCCESS && api->ptx_size(program, &size) == NVRTC_SUCCESS &&
        (ptx = calloc(1, size + 1)) != NULL && api->ptx(program, ptx) != NVRTC_SUCCESS) {
        free(ptx);
        ptx = NULL;
    }
    (void)api->destroy(&program);
    return ptx;
}

char *nvrtc_for_tests_compile(const char *source, const char *name, const char *arch,
                              const char *const *options, char **log_out)
{
    const char *all[OPTIONS_MAX];
    char arch_option[64], include_option[600], path[600];
    const char *home = getenv("CUDA_HOME");
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
    bool keeps = kept_path(source, name, all, count, path, sizeof path);
    if (keeps && gk_file_load(path, PTX_MAX, &ptx, &size, NULL) == GK_OK) {
        return ptx;
    }
    ptx = run_nvrtc(&api, source, name, all, count, log_out);
    if (keeps && ptx && (!*log_out || !**log_out)) {
        (void)gk_file_store(path, ptx, strlen(ptx), NULL); /* then it is compiled once more */
    }
    return ptx;
}
