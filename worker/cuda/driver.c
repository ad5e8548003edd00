/* The CUDA driver by dlopen: see driver.h. One thread. */
#include "worker/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_FILE "libcuda.so.1"

/* Opened ones, by the path that was asked for; never closed. */
struct opened {
    struct gk_cuda_driver driver; /* first: pointers are converted */
    struct opened *next;
    char *path;
};

static struct opened *all;

/* ISO C knows no conversion from an object pointer to a function pointer; POSIX has one. */
static bool resolve(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* NULL, or the name of the first function that is not there. The names are those that cuda.h's
 * macros make of the plain ones: TEXT sees them expanded. */
static const char *resolve_all(struct gk_cuda_driver *driver)
{
    const char *missing = NULL;
#define TEXT_OF(symbol) #symbol
#define TEXT(symbol)    TEXT_OF(symbol)
#define NEEDED(member, symbol)                                                                     \
    if (!missing && !resolve(driver->library, TEXT(symbol), &driver->member)) {                    \
        missing = TEXT(symbol);                                                                    \
    }
#define OPTIONAL(member, symbol) (void)resolve(driver->library, TEXT(symbol), &driver->member);
    GK_CUDA_NEEDED(NEEDED)
    GK_CUDA_OPTIONAL(OPTIONAL)
#undef NEEDED
#undef OPTIONAL
#undef TEXT
#undef TEXT_OF
    if (!missing && !resolve(driver->library, "cuEventElapsedTime", &driver->event_elapsed)) {
        missing = "cuEventElapsedTime";
    }
    return missing;
}

static void find_path(struct gk_cuda_driver *driver, const char *asked)
{
    void *symbol = NULL;
    Dl_info info;
    memcpy(&symbol, &driver->init, sizeof symbol);
    const char *path = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked;
    (void)snprintf(driver->path, sizeof driver->path, "%s", path);
}

static enum gk_status start(struct gk_cuda_driver *driver, const char *path, struct gk_err *err)
{
    int count = 0;
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library) {
        const char *why = dlerror();
        return gk_fail(err, GK_MISSING, "no CUDA driver on this machine: %s", why ? why : path);
    }
    const char *missing = resolve_all(driver);
    if (missing) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "the CUDA driver %s has no %s: a driver of CUDA 12.0 or newer is needed",
                       path, missing);
    }
    find_path(driver, path);
    CUresult result = driver->init(0);
    if (result == CUDA_SUCCESS) {
        (void)driver->driver_version(&driver->version);
        result = driver->device_count(&count);
    }
    if (result == CUDA_SUCCESS && count == 0) {
        result = CUDA_ERROR_NO_DEVICE;
    }
    return result == CUDA_SUCCESS
               ? GK_OK
               : gk_cuda_fail(driver, GK_UNSUPPORTED, result, "cuInit", err,
                              "the CUDA driver %s has no usable device", driver->path);
}

enum gk_status gk_cuda_driver_open(const char *path, const struct gk_cuda_driver **driver_out,
                                   struct gk_err *err)
{
    path = path ? path : DRIVER_FILE;
    for (struct opened *at = all; at; at = at->next) {
        if (strcmp(at->path, path) == 0) {
            *driver_out = &at->driver;
            return GK_OK;
        }
    }
    struct opened *opened = calloc(1, sizeof *opened);
    size_t size = strlen(path) + 1;
    char *copy = opened ? malloc(size) : NULL;
    if (!copy) {
        free(opened);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    memcpy(copy, path, size);
    opened->path = copy;
    enum gk_status status = start(&opened->driver, path, err);
    if (status != GK_OK) {
        /* The library stays mapped: it may have started threads. */
        free(opened->path);
        free(opened);
        return status;
    }
    opened->next = all;
    all = opened;
    *driver_out = &opened->driver;
    return GK_OK;
}

enum gk_status gk_cuda_fail(const struct gk_cuda_driver *driver, enum gk_status status,
                            CUresult result, const char *function, struct gk_err *err,
                            const char *format, ...)
{
    const char *name = NULL, *text = NULL;
    char what[GK_ERR_TEXT_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    (void)driver->error_name(result, &name);
    (void)driver->error_text(result, &text);
    return gk_fail(err, status, "%s: %s: %s (%d): %s", what, function,
                   name ? name : "an error without a name", (int)result, text ? text : "no text");
}
