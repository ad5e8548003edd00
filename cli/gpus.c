/* CUDA devices of this machine: see gpus.h. */
#include "cli/gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"cuda:0",  "cuda:1",  "cuda:2",  "cuda:3", "cuda:4",  "cuda:5",
                                    "cuda:6",  "cuda:7",  "cuda:8",  "cuda:9", "cuda:10", "cuda:11",
                                    "cuda:12", "cuda:13", "cuda:14", "cuda:15"};

static int count_devices(char why[160])
{
    typedef int (*init_fn)(unsigned flags);
    typedef int (*count_fn)(int *count);
    init_fn init = NULL;
    count_fn count = NULL;
    int devices = 0;
    if (!GKTUNE_HAS_CUDA) {
        (void)snprintf(why, 160, "this build has no CUDA device");
        return 0;
    }
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *init_symbol = library ? dlsym(library, "cuInit") : NULL;
    void *count_symbol = library ? dlsym(library, "cuDeviceGetCount") : NULL;
    if (!init_symbol || !count_symbol) {
        (void)snprintf(why, 160, "no CUDA driver (libcuda.so.1) on this machine");
        return 0;
    }
    memcpy(&init, &init_symbol, sizeof init);
    memcpy(&count, &count_symbol, sizeof count);
    int rc = init(0);
    if (rc != 0 || count(&devices) != 0 || devices <= 0) {
        (void)snprintf(why, 160, "the CUDA driver has no usable device (error %d)", rc);
        return 0;
    }
    return devices;
}

uint32_t gk_gpus_all(const char **names_out, uint32_t max, char why_out[160])
{
    int devices = count_devices(why_out);
    uint32_t count = 0;
    while (count < (uint32_t)devices && count < max && count < GK_ARRAY_COUNT(names)) {
        names_out[count] = names[count];
        count++;
    }
    return count;
}

enum gk_status gk_gpus_check(const char *device, struct gk_err *err)
{
    char why[160] = "";
    int devices = count_devices(why);
    for (int i = 0; i < devices && i < (int)GK_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], device) == 0) {
            return GK_OK;
        }
    }
    if (devices > 0) {
        return gk_fail(err, GK_USAGE, "device '%s': this machine has cuda:0 to cuda:%d", device,
                       devices - 1);
    }
    return gk_fail(err, GK_UNSUPPORTED, "device '%s': %s; emu and mock need none", device, why);
}
