/*
 * Runs the kernels of emu_dots.c on a GPU of sm_90a and prints "name kind hash" lines: how
 * tests/data/emu/dots.txt was made. Not built by default and not a test.
 *
 *   emu_record_dots --source > dots.cu; nvcc -arch=sm_90a -cubin dots.cu
 *   emu_record_dots dots.cubin [RAW]     RAW: a file for all outputs
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/emu_dots.h"

/* The few calls of the driver that are needed; its headers stay with the cuda device. */
struct driver {
    int (*init)(unsigned);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(uint64_t *, size_t);
    int (*to_device)(uint64_t, const void *, size_t);
    int (*to_host)(void *, uint64_t, size_t);
    int (*load)(void **, const char *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
};

static void find(void *library, const char *name, void *function_pointer)
{
    void *symbol = library ? dlsym(library, name) : NULL;

    if (!symbol) {
        (void)fprintf(stderr, "emu_record_dots: libcuda.so.1 with %s is not here\n", name);
        exit(1);
    }
    memcpy(function_pointer, &symbol, sizeof(symbol));
}

static struct driver open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    struct driver cu;

    find(library, "cuInit", &cu.init);
    find(library, "cuDeviceGet", &cu.device);
    find(library, "cuDevicePrimaryCtxRetain", &cu.retain);
    find(library, "cuCtxSetCurrent", &cu.set_current);
    find(library, "cuMemAlloc_v2", &cu.alloc);
    find(library, "cuMemcpyHtoD_v2", &cu.to_device);
    find(library, "cuMemcpyDtoH_v2", &cu.to_host);
    find(library, "cuModuleLoad", &cu.load);
    find(library, "cuModuleGetFunction", &cu.function);
    find(library, "cuLaunchKernel", &cu.launch);
    return cu;
}

static void want(int result, const char *what)
{
    if (result) {
        (void)fprintf(stderr, "emu_record_dots: %s: CUDA error %d\n", what, result);
        exit(1);
    }
}

static void record(const struct driver *cu, const char *cubin, FILE *raw)
{
    static uint32_t in[EMU_DOTS_BLOCKS * EMU_DOTS_IN], out[EMU_DOTS_BLOCKS * EMU_DOTS_OUT];
    uint64_t device_in = 0, device_out = 0;
    void *module = NULL, *function = NULL, *params[2] = {&device_in, &device_out};

    want(cu->alloc(&device_in, sizeof(in)), "memory");
    want(cu->alloc(&device_out, sizeof(out)), "memory");
    want(cu->load(&module, cubin), cubin);
    for (uint32_t i = 0; i < emu_dots_count(); i++) {
        const char *name = emu_dots_name(i);

        emu_dots_fill(i, in);
        memset(out, 0, sizeof(out));
        want(cu->to_device(device_in, in, sizeof(in)), "copy");
        want(cu->to_device(device_out, out, sizeof(out)), "copy");
        want(cu->function(&function, module, name), name);
        want(cu->launch(function, EMU_DOTS_BLOCKS, 1, 1, 128, 1, 1, 0, NULL, params, NULL), name);
        want(cu->to_host(out, device_out, sizeof(out)), name);
        for (uint32_t kind = 0; kind < EMU_DOTS_KINDS; kind++) {
            printf("%s %u %016" PRIx64 "\n", name, kind, emu_dots_hash(out, kind));
        }
        if (raw) {
            (void)fwrite(out, 1, sizeof(out), raw);
        }
    }
}

int main(int argc, char **argv)
{
    struct driver cu;
    FILE *raw;
    void *context = NULL;
    int device = 0;

    if (argc > 1 && strcmp(argv[1], "--source") == 0) {
        (void)fputs(emu_dots_source(), stdout);
        return 0;
    }
    if (argc < 2) {
        (void)fprintf(stderr, "emu_record_dots: --source, or a cubin is needed\n");
        return 2;
    }
    cu = open_driver();
    raw = argc > 2 ? fopen(argv[2], "wb") : NULL;
    want(cu.init(0), "cuInit");
    want(cu.device(&device, 0), "cuDeviceGet");
    want(cu.retain(&context, device), "context");
    want(cu.set_current(context), "context");
    record(&cu, argv[1], raw);
    if (raw) {
        (void)fclose(raw);
    }
    return 0;
}
