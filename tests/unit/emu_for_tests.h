/*
 * A device, a module and a launch in a few words, for the tests of the emulated device. Every step
 * asserts that it works, except rig_run(), whose status is the point.
 */
#ifndef GK_TESTS_UNIT_EMU_FOR_TESTS_H
#define GK_TESTS_UNIT_EMU_FOR_TESTS_H

#include "worker/emu/emu.h"

struct rig {
    struct gk_emu *emu;
    struct gk_emu_module *module;
    struct gk_emu_report report;
    struct gk_err err;
    uint32_t grid[3], block[3];
    uint32_t dynamic_smem_bytes;
    uint32_t registers; /* a thread */
    bool overlaps;      /* launches may begin before the one ahead has ended */
};

/* grid and block are 1 and 32 threads; set the fields for more. */
void rig_init(struct rig *rig, const char *target);
void rig_init_with(struct rig *rig, const struct gk_emu_options *options);
void rig_fini(struct rig *rig);
/* PTX text: a header is put before it unless it has one. */
void rig_ptx(struct rig *rig, const char *text);
/* CUDA text through NVRTC; skips the test when there is none. */
void rig_cuda(struct rig *rig, const char *source);
uint64_t rig_alloc(struct rig *rig, const char *name, uint64_t bytes);
uint64_t rig_upload(struct rig *rig, const char *name, const void *bytes, uint64_t size);
void rig_download(struct rig *rig, uint64_t address, void *bytes, uint64_t size);
/* `count` 8-byte words, each put into the parameter of its number in that parameter's size. */
enum gk_status rig_run(struct rig *rig, const char *kernel, unsigned count, const uint64_t *params);
#define RIG_RUN(rig, kernel, ...)                                                                  \
    rig_run(rig, kernel, (unsigned)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)),         \
            (uint64_t[]){__VA_ARGS__})
/* Runs and fails the test with the report when the launch fails. */
#define RIG_OK(rig, kernel, ...) assert_ok(RIG_RUN(rig, kernel, __VA_ARGS__), (rig)->err)
/* Runs and wants this fault. */
#define RIG_FAULT(rig, fault, kernel, ...)                                                         \
    do {                                                                                           \
        assert_int_equal(RIG_RUN(rig, kernel, __VA_ARGS__), GK_TRIAL);                             \
        if ((rig)->report.kind != GK_EMU_FAULT_##fault) {                                          \
            fail_msg("fault %s, wanted " #fault ": %s", gk_emu_fault_name((rig)->report.kind),     \
                     (rig)->report.text);                                                          \
        }                                                                                          \
    } while (0)

#endif
