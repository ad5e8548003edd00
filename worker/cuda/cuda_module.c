/* Modules and kernels of the CUDA device: what a cubin holds and what its kernels take. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/cuda_kernel.h"

#define LOG_BYTES 4096 /* of the driver's own assembler, where PTX is loaded */

struct cuda_module {
    CUmodule module;
    struct cuda_kernel *kernels;
};

/* GK_PARSE: not code; GK_UNSUPPORTED: not for this device. */
static enum gk_status load_status(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        return GK_UNSUPPORTED;
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_VALUE:
        return GK_PARSE;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GK_LIMIT;
    default:
        return cuda_is_sticky(result) ? GK_IO : GK_INTERNAL;
    }
}

enum gk_status cuda_load(struct gk_device *base, const struct gk_device_code *code,
                         struct gk_device_module **module_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = cuda_ready(device, "load", err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "load: a recording is open");
    }
    bool is_cubin = code->cubin && code->cubin_size > 0;
    const void *image = is_cubin ? code->cubin : code->ptx;
    if (status == GK_OK && (!image || (!is_cubin && code->ptx_size == 0))) {
        status = gk_fail(err, GK_PARSE, "load: there is neither a cubin nor PTX");
    }
    struct cuda_module *module = status == GK_OK ? calloc(1, sizeof *module) : NULL;
    char *log = module ? calloc(1, LOG_BYTES) : NULL;
    if (status == GK_OK && !log) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {log, (void *)(uintptr_t)(LOG_BYTES - 1)};
        CUresult result = device->driver->module_load(&module->module, image, 2, options, values);
        if (result != CUDA_SUCCESS) {
            status = gk_cuda_fail(device->driver, load_status(result), result, "cuModuleLoadData",
                                  err, "load of %zu bytes of %s%s%.600s",
                                  is_cubin ? code->cubin_size : code->ptx_size,
                                  is_cubin ? "a cubin" : "PTX", log[0] ? ": " : "", log);
        }
        if (cuda_is_sticky(result)) {
            cuda_lose(device, "a module was loaded (error %d)", (int)result);
        }
    }
    free(log);
    if (status != GK_OK) {
        free(module);
        return status;
    }
    *module_out = (struct gk_device_module *)module;
    return GK_OK;
}

void cuda_unload(struct gk_device *base, struct gk_device_module *opaque)
{
    struct cuda_device *device = cuda_of(base);
    struct cuda_module *module = (struct cuda_module *)opaque;
    if (!module) {
        return;
    }
    if (!device->lost) {
        (void)device->driver->module_unload(module->module); /* the context's end unloads it too */
    }
    while (module->kernels) {
        struct cuda_kernel *next = module->kernels->next;
        free(module->kernels);
        module->kernels = next;
    }
    free(module);
}

/* Sizes of the parameters, in order, where the driver tells: index beyond the last is an error that
 * ends the list. */
static void read_params(const struct gk_cuda_driver *driver, struct cuda_kernel *kernel)
{
    kernel->params_known = driver->param_info != NULL;
    while (kernel->params_known && kernel->param_count < GK_LAUNCH_ARGS_MAX + 1) {
        size_t offset = 0, size = 0;
        if (driver->param_info(kernel->function, kernel->param_count, &offset, &size) !=
            CUDA_SUCCESS) {
            break;
        }
        kernel->param_bytes[kernel->param_count++] = (uint32_t)size;
    }
}

static CUresult read_facts(const struct gk_cuda_driver *driver, struct cuda_kernel *kernel)
{
    const struct {
        CUfunction_attribute attribute;
        int *value;
    } wanted[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &kernel->threads_max},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &kernel->static_smem},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &kernel->regs},
    };
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < GK_ARRAY_COUNT(wanted) && result == CUDA_SUCCESS; i++) {
        result = driver->function_get(wanted[i].value, wanted[i].attribute, kernel->function);
    }
    return result;
}

enum gk_status cuda_find(struct gk_device *base, struct gk_device_module *opaque, const char *name,
                         struct gk_device_kernel **kernel_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    const struct gk_cuda_driver *driver = device->driver;
    struct cuda_module *module = (struct cuda_module *)opaque;
    enum gk_status status = cuda_ready(device, "find", err);
    if (status != GK_OK) {
        return status;
    }
    struct cuda_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    const char *function = "cuModuleGetFunction";
    CUresult result = driver->module_function(&kernel->function, module->module, name);
    if (result == CUDA_SUCCESS && driver->function_load) {
        /* Drivers load lazily: without this the first launch would, perhaps inside a recording. */
        function = "cuFuncLoad";
        result = driver->function_load(kernel->function);
    }
    if (result == CUDA_SUCCESS) {
        function = "cuFuncGetAttribute";
        result = read_facts(driver, kernel);
    }
    if (result != CUDA_SUCCESS) {
        free(kernel);
        return result == CUDA_ERROR_NOT_FOUND
                   ? gk_cuda_fail(driver, GK_NOT_FOUND, result, function, err,
                                  "the module has no kernel '%s'", name)
                   : cuda_result(device, result, function, err, "kernel '%s'", name);
    }
    read_params(driver, kernel);
    (void)snprintf(kernel->name, sizeof kernel->name, "%s", name);
    kernel->carveout = -1;
    kernel->next = module->kernels;
    module->kernels = kernel;
    *kernel_out = (struct gk_device_kernel *)kernel;
    return GK_OK;
}
