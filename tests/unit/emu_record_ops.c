/*
 * Runs the operations of emu_ops.c on a GPU and prints "hash text" lines: how
 * tests/data/emu/ops.txt was made. Not built by default and not a test: it needs a driver and a GPU
 * of sm_90 or newer.
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
struct driver {
    int (*init)(unsigned);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(uint64_t *, size_t);
    int (*to_device)(uint64_t, const void *, size_t);
    int (*to_host)(void *, uint64_t, size_t);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
};

static void find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);

    if (!symbol) {
        (void)fprintf(stderr, "emu_record_ops: the driver has no %s\n", name);
        exit(1);
    }
    memcpy(function_pointer, &symbol, sizeof(symbol));
}

static struct driver open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct driver cu;

    if (!library) {
        (void)fprintf(stderr, "emu_record_ops: libcuda.so.1 is not here\n");
        exit(1);
    }
    find(library, "cuInit", &cu.init);
    find(library, "cuDeviceGet", &cu.device);
    find(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuMemAlloc_v2", &cu.alloc);
    find(library, "cuMemcpyHtoD_v2", &cu.to_device);
    find(library, "cuMemcpyDtoH_v2", &cu.to_host);
    find(library, "cuModuleLoadData", &cu.load);
    find(library, "cuModuleGetFunction", &cu.function);
    find(library, "cuLaunchKernel", &cu.launch);
    return cu;
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
    struct driver cu = open_driver();
    FILE *raw = argc > 1 ? fopen(argv[1], "wb") : NULL;
    int device = 0;

    if (!input || !ptx) {
        return 1;
    }
    want(cu.init(0), "cuInit");
    want(cu.device(&device, 0), "cuDeviceGet");
    want(cu.retain(&context, device), "context");
    want(cu.set_current(context), "context");
    want(cu.alloc(&device_input, EMU_OPS_INPUT_BYTES), "memory");
    want(cu.alloc(&device_output, sizeof(results)), "memory");
    emu_ops_inputs(input);
    want(cu.to_device(device_input, input, EMU_OPS_INPUT_BYTES), "copy");
    want(cu.load(&module, ptx), "module");
    params[0] = &device_input;
    params[1] = &device_output;
    for (uint32_t i = 0; i < emu_ops_count(); i++) {
        (void)snprintf(name, sizeof(name), "op_%u", i);
        want(cu.function(&function, module, name), name);
        want(cu.launch(function, 1, 1, 1, EMU_OPS_THREADS, 1, 1, 0, NULL, params, NULL), name);
        want(cu.to_host(results, device_output, sizeof(results)), name);
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
