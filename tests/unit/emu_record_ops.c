/*
 * Runs the operations of emu_ops.c on a GPU and prints "hash text" lines: how tests/data/emu/ops.txt
 * was made. Not built by default and not a test: it needs a driver and a GPU of sm_90 or newer.
 *
 *   emu_record_ops [RAW]     RAW: a file for all results, 8 bytes each
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/emu_ops.h"

/* The few calls of the driver that are needed; its headers stay with the cuda device. */
typedef int (*driver_call)();

static void *driver;

static driver_call find(const char *name)
{
    void *symbol = dlsym(driver, name);
    driver_call call;

    memcpy(&call, &symbol, sizeof(call));
    if (!call) {
        (void)fprintf(stderr, "emu_record_ops: the driver has no %s\n", name);
        exit(1);
    }
    return call;
}

static void want(int result, const char *what)
{
    if (result) {
        (void)fprintf(stderr, "emu_record_ops: %s: CUDA error %d\n", what, result);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    unsigned char *input = calloc(1, EMU_OPS_INPUT_BYTES);
    char *ptx = emu_ops_ptx("sm_90"), name[32];
    uint64_t device_input = 0, device_output = 0, results[EMU_OPS_THREADS];
    void *context = NULL, *module = NULL, *function = NULL, *params[2];
    FILE *raw = argc > 1 ? fopen(argv[1], "wb") : NULL;
    int device = 0;

    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || !input || !ptx) {
        (void)fprintf(stderr, "emu_record_ops: libcuda.so.1 is not here\n");
        return 1;
    }
    want(find("cuInit")(0), "cuInit");
    want(find("cuDeviceGet")(&device, 0), "cuDeviceGet");
    want(find("cuDevicePrimaryCtxRetain")(&context, device), "context");
    want(find("cuCtxSetCurrent")(context), "context");
    want(find("cuMemAlloc_v2")(&device_input, (size_t)EMU_OPS_INPUT_BYTES), "memory");
    want(find("cuMemAlloc_v2")(&device_output, sizeof(results)), "memory");
    emu_ops_inputs(input);
    want(find("cuMemcpyHtoD_v2")(device_input, input, (size_t)EMU_OPS_INPUT_BYTES), "copy");
    want(find("cuModuleLoadData")(&module, ptx), "module");
    params[0] = &device_input;
    params[1] = &device_output;
    for (uint32_t i = 0; i < emu_ops_count(); i++) {
        (void)snprintf(name, sizeof(name), "op_%u", i);
        want(find("cuModuleGetFunction")(&function, module, name), name);
        want(find("cuLaunchKernel")(function, 1, 1, 1, EMU_OPS_THREADS, 1, 1, 0, NULL, params, NULL),
             name);
        want(find("cuMemcpyDtoH_v2")(results, device_output, sizeof(results)), name);
        printf("%016" PRIx64 " %s\n", emu_ops_hash(results), emu_ops_at(i)->text);
        if (raw) {
            (void)fwrite(results, 1, sizeof(results), raw);
        }
    }
    if (raw) {
        (void)fclose(raw);
    }
    return 0;
}
