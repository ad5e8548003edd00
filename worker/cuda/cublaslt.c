/* cuBLASLt by dlopen: see cublaslt.h. */
#include "worker/cuda/cublaslt.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"

struct search {
    struct gk_buf tried;
    void *library;
};

static void note(struct search *search, const char *path)
{
    gk_buf_printf(&search->tried, "%s%s", search->tried.size ? ", " : "", path);
}

/* Bound lazily: the library has half a gigabyte of symbols that nobody asks for. */
static void try_file(struct search *search, const char *path)
{
    if (!search->library) {
        search->library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        note(search, path);
    }
}

/* Newest first: glob sorts by name, and a later library has the larger number. */
static void try_folders(struct search *search, const char *folder, size_t size, const char *below)
{
    char pattern[PATH_MAX];
    glob_t found = {0};
    if (search->library || snprintf(pattern, sizeof pattern, "%.*s%s/libcublasLt.so*", (int)size,
                                    folder, below) >= (int)sizeof pattern) {
        return;
    }
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0;) {
            try_file(search, found.gl_pathv[i]);
        }
    }
    globfree(&found);
}

/* The folder itself, or what holds the library below a toolkit, a virtual environment, a folder of
 * packages. In wheels it lies in nvidia/cublas (CUDA 12) or nvidia/cu13. */
static void try_place(struct search *search, const char *place, size_t size)
{
    static const char *const below[] = {"",
                                        "/lib64",
                                        "/lib",
                                        "/targets/*/lib",
                                        "/lib/python3*/*-packages/nvidia/cu*/lib",
                                        "/cu*/lib",
                                        "/nvidia/cu*/lib"};
    char path[PATH_MAX];
    struct stat info;
    if (size == 0 || size >= sizeof path || search->library) {
        return;
    }
    memcpy(path, place, size);
    path[size] = '\0';
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        try_file(search, path);
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(below); i++) {
        try_folders(search, path, size, below[i]);
    }
    if (!search->library) {
        note(search, path);
    }
}

/* A place that stands alone is all that is tried: who names it wants what is there or none. */
static bool stands_alone(const char *places)
{
    return places && places[0] && !strchr(places, ':');
}

static void search_everywhere(struct search *search, const char *places)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    static const char *const folders[] = {
        "/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda", "/usr/local", "/usr", "/opt/venv"};
    for (const char *at = places; at && *at;) {
        size_t size = strcspn(at, ":");
        try_place(search, at, size);
        at += size + (at[size] == ':');
    }
    if (stands_alone(places)) {
        return;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        try_file(search, names[i]);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(folders); i++) {
        size_t size = strlen(folders[i]);
        try_folders(search, folders[i], size, "/lib64");
        try_folders(search, folders[i], size, "/lib");
        try_folders(search, folders[i], size, "/lib/x86_64-linux-gnu");
        try_folders(search, folders[i], size, "/targets/*/lib");
        try_folders(search, folders[i], size, "/lib/python3*/*-packages/nvidia/cu*/lib");
        if (!search->library) {
            note(search, folders[i]);
        }
    }
}

/* ISO C knows no conversion from an object pointer to a function pointer; POSIX has one. */
static bool resolve(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* NULL, or the name of the first function that is not there. */
static const char *resolve_all(struct gk_cublaslt *library)
{
    const char *missing = NULL;
#define NEEDED(member, symbol)                                                                     \
    if (!missing && !resolve(library->library, #symbol, &library->member)) {                       \
        missing = #symbol;                                                                         \
    }
    GK_CUBLASLT_FUNCTIONS(NEEDED)
#undef NEEDED
    return missing;
}

static void find_path(struct gk_cublaslt *library)
{
    void *symbol = NULL;
    char path[PATH_MAX];
    Dl_info info;
    memcpy(&symbol, &library->version, sizeof symbol);
    if (dladdr(symbol, &info) != 0 && info.dli_fname && realpath(info.dli_fname, path)) {
        (void)snprintf(library->path, sizeof library->path, "%s", path); /* both PATH_MAX */
    }
}

enum gk_status gk_cublaslt_open(const char *places, struct gk_cublaslt *library_out,
                                struct gk_err *err)
{
    enum gk_status status = GK_OK;
    struct gk_cublaslt library = {0};
    struct search search = {0};

    search_everywhere(&search, places);
    library.library = search.library;
    if (!library.library) {
        status = gk_fail(err, GK_UNSUPPORTED,
                         "cuBLASLt (libcublasLt.so) was not found; looked for %s. Name the library "
                         "or its folder, or install the wheel nvidia-cublas",
                         gk_buf_text(&search.tried));
        goto out;
    }
    const char *missing = resolve_all(&library);
    if (missing) {
        status = gk_fail(err, GK_UNSUPPORTED, "the library found as cuBLASLt has no %s (%s)",
                         missing, gk_buf_text(&search.tried));
        goto out;
    }
    find_path(&library);
    unsigned version = (unsigned)library.version(); /* 10000 * major + 100 * minor + patch */
    (void)snprintf(library.text, sizeof library.text, "cublaslt %u.%u.%u", version / 10000,
                   version / 100 % 100, version % 100);
    *library_out = library;
out:
    gk_buf_fini(&search.tried);
    return status;
}
