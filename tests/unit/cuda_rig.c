/* See cuda_rig.h. */
#include "tests/unit/cuda_rig.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/check.h"

static const char module_text[] =
    "fake add1(8,4) touch(8,4) oob(8,4) misaligned(8,4) trap(8,4) assert(8,4) illegal(8,4) "
    "ecc(8,4) hang(8,4) greedy(8,4) map(128)";

void cuda_rig_init(struct cuda_rig *rig)
{
    void (*reset)(void) = NULL;
    memset(rig, 0, sizeof *rig);
    rig->places = (struct gk_device_places){.cuda = GK_FAKE_CUDA, .nvml = GK_FAKE_NVML};
    void *library = dlopen(GK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    rig->fake = dlsym(library, "fake_cuda");
    void *symbol = dlsym(library, "fake_cuda_reset");
    assert_non_null(rig->fake);
    assert_non_null(symbol);
    memcpy(&reset, &symbol, sizeof reset);
    reset();
}

void cuda_rig_open(struct cuda_rig *rig)
{
    struct gk_device_code code = {.cubin = module_text, .cubin_size = sizeof module_text};
    cuda_rig_init(rig);
    assert_ok(gk_device_cuda_open(&rig->places, "cuda:0", &rig->device, &rig->err), rig->err);
    rig->ops = rig->device->ops;
    assert_ok(rig->ops->load(rig->device, &code, &rig->module, &rig->err), rig->err);
}

void cuda_rig_close(struct cuda_rig *rig)
{
    rig->ops->unload(rig->device, rig->module);
    rig->ops->close(rig->device);
}

int cuda_rig_teardown(void **state)
{
    struct cuda_rig rig;
    (void)state;
    cuda_rig_init(&rig);
    return 0;
}

struct gk_device_kernel *cuda_rig_find(struct cuda_rig *rig, const char *name)
{
    struct gk_device_kernel *kernel = NULL;
    assert_ok(rig->ops->find(rig->device, rig->module, name, &kernel, &rig->err), rig->err);
    return kernel;
}

struct gk_device_launch cuda_rig_launch(uint64_t address, uint32_t count)
{
    struct gk_device_launch launch = {
        .grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {1, 1, 1}, .carveout = -1};
    launch.arg_count = 2;
    launch.args[0].size = 8;
    memcpy(launch.args[0].bytes, &address, 8);
    launch.args[1].size = 4;
    memcpy(launch.args[1].bytes, &count, 4);
    return launch;
}
