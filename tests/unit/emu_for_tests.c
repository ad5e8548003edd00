/*
 * See emu_for_tests.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "tests/support/check.h"
#include "tests/unit/emu_for_tests.h"
#include "tests/unit/nvrtc_for_tests.h"

void rig_init(struct rig *rig, const char *target)
{
    struct gk_emu_options options = {.target = target};

    rig_init_with(rig, &options);
}

void rig_init_with(struct rig *rig, const struct gk_emu_options *options)
{
    *rig = (struct rig){.grid = {1, 1, 1}, .block = {32, 1, 1}, .registers = 32};
    assert_ok(gk_emu_create(options, &rig->emu, &rig->err), rig->err);
}

void rig_fini(struct rig *rig)
{
    gk_emu_module_unload(rig->module);
    gk_emu_destroy(rig->emu);
    *rig = (struct rig){0};
}

static void load(struct rig *rig, const char *ptx)
{
    gk_emu_module_unload(rig->module);
    rig->module = NULL;
    assert_ok(gk_emu_module_load(rig->emu, ptx, strlen(ptx), &rig->module, &rig->err), rig->err);
}

void rig_ptx(struct rig *rig, const char *text)
{
    struct gk_buf whole = {0};

    if (!strstr(text, ".version")) {
        gk_buf_puts(&whole, ".version 8.4\n.target sm_80\n.address_size 64\n");
    }
    gk_buf_puts(&whole, text);
    load(rig, gk_buf_text(&whole));
    gk_buf_fini(&whole);
}

void rig_cuda(struct rig *rig, const char *source)
{
    char *log = NULL, *ptx;

    if (!nvrtc_for_tests_available()) {
        skip();
    }
    ptx = nvrtc_for_tests_compile(source, "kernel.cu", gk_emu_device_props(rig->emu)->target, NULL,
                                  &log);
    if (!ptx) {
        fail_msg("NVRTC: %s", log ? log : "no log");
    }
    load(rig, ptx);
    free(ptx);
    free(log);
}

uint64_t rig_alloc(struct rig *rig, const char *name, uint64_t bytes)
{
    uint64_t address = 0;

    assert_ok(gk_emu_alloc(rig->emu, name, bytes, 0, &address, &rig->err), rig->err);
    return address;
}

uint64_t rig_upload(struct rig *rig, const char *name, const void *bytes, uint64_t size)
{
    uint64_t address = rig_alloc(rig, name, size);

    assert_ok(gk_emu_write(rig->emu, address, bytes, size, &rig->err), rig->err);
    return address;
}

void rig_download(struct rig *rig, uint64_t address, void *bytes, uint64_t size)
{
    uint64_t unwritten = 0;

    assert_ok(gk_emu_unwritten(rig->emu, address, size, &unwritten, &rig->err), rig->err);
    assert_int_equal(unwritten, 0);
    assert_ok(gk_emu_read(rig->emu, address, bytes, size, &rig->err), rig->err);
}

enum gk_status rig_run(struct rig *rig, const char *kernel, unsigned count, const uint64_t *params)
{
    struct gk_emu_kernel *found = NULL;
    struct gk_emu_kernel_info info;
    unsigned char block[4096] = {0};
    struct gk_emu_launch launch = {.dynamic_smem_bytes = rig->dynamic_smem_bytes,
                                   .params = block,
                                   .registers_per_thread = rig->registers,
                                   .overlaps = rig->overlaps};

    memcpy(launch.grid, rig->grid, sizeof(launch.grid));
    memcpy(launch.block, rig->block, sizeof(launch.block));
    assert_ok(gk_emu_kernel_find(rig->module, kernel, &found, &rig->err), rig->err);
    gk_emu_kernel_info(found, &info);
    for (unsigned i = 0; i < count && i < info.param_count; i++) {
        memcpy(block + info.params[i].offset, &params[i],
               info.params[i].size < 8 ? info.params[i].size : 8);
    }
    launch.params_size = info.params_size;
    memset(&rig->report, 0, sizeof(rig->report));
    return gk_emu_launch(rig->emu, found, &launch, &rig->report, &rig->err);
}
