/*
 * A device as the executor sees it: one table of operations.
 *
 * Addresses are device addresses. A device is used by one thread. Nothing here knows about tensors
 * or trials. Behind the table stand the emulated device (device_emu.c) and, in builds that have
 * one, a CUDA device; the mock device never gets this far, since its outcomes come from a script
 * (device_mock.c).
 */
#ifndef GK_WORKER_DEVICE_H
#define GK_WORKER_DEVICE_H

#include "core/device_props.h"
#include "core/record.h"

#define GK_LAUNCH_ARGS_MAX 48
#define GK_LAUNCH_TEXT_MAX 2048
#define GK_COUNTERS_MAX    32

struct gk_device;
struct gk_device_module;
struct gk_device_kernel; /* owned by its module */

struct gk_device_launch {
    uint32_t grid[3], block[3], cluster[3];
    uint32_t smem_bytes; /* dynamic */
    uint32_t regs;       /* a thread, from ptxas; 0: not known */
    struct {
        uint32_t size;
        unsigned char bytes[128];
    } args[GK_LAUNCH_ARGS_MAX];
    uint32_t arg_count;
};

struct gk_counter {
    const char *name; /* static */
    uint64_t value;
};

/* What a launch did, or how it ended. */
struct gk_device_report {
    enum gk_failure failure; /* NONE: it ran to its end */
    char text[GK_LAUNCH_TEXT_MAX];
    double ns; /* modelled or measured; 0 unless it ran to its end */
    struct gk_counter counters[GK_COUNTERS_MAX];
    uint32_t counter_count;
};

struct gk_device_code {
    const char *ptx;
    size_t ptx_size;
    const void *cubin;
    size_t cubin_size;
};

struct gk_device_ops {
    /* True if the device itself catches every access outside a buffer; else the executor puts
     * canaries. */
    bool exact_bounds;
    enum gk_status (*alloc)(struct gk_device *device, const char *name, uint64_t bytes,
                            uint64_t align, uint64_t *address_out, struct gk_err *err);
    enum gk_status (*release)(struct gk_device *device, uint64_t address, struct gk_err *err);
    enum gk_status (*write)(struct gk_device *device, uint64_t address, const void *bytes,
                            uint64_t size, struct gk_err *err);
    enum gk_status (*read)(struct gk_device *device, uint64_t address, void *bytes, uint64_t size,
                           struct gk_err *err);
    enum gk_status (*fill)(struct gk_device *device, uint64_t address, uint64_t size,
                           const void *pattern, uint32_t pattern_bytes, struct gk_err *err);
    /* The bytes keep their values but count as never written. NULL where devices cannot tell. */
    enum gk_status (*forget)(struct gk_device *device, uint64_t address, uint64_t size,
                             struct gk_err *err);
    /* Bytes of the range that nobody wrote. NULL where devices cannot tell. */
    enum gk_status (*unwritten)(struct gk_device *device, uint64_t address, uint64_t size,
                                uint64_t *bytes_out, struct gk_err *err);
    /* GK_UNSUPPORTED: the code uses what the device does not have; GK_PARSE: not code. */
    enum gk_status (*load)(struct gk_device *device, const struct gk_device_code *code,
                           struct gk_device_module **module_out, struct gk_err *err);
    void (*unload)(struct gk_device *device, struct gk_device_module *module);
    enum gk_status (*find)(struct gk_device *device, struct gk_device_module *module,
                           const char *name, struct gk_device_kernel **kernel_out,
                           struct gk_err *err);
    /* Runs to the end. GK_OK or GK_TRIAL: report_out says how it went; others: the launch is not
     * possible. */
    enum gk_status (*launch)(struct gk_device *device, struct gk_device_kernel *kernel,
                             const struct gk_device_launch *launch,
                             struct gk_device_report *report_out, struct gk_err *err);
    /* Work that one launch may do before it is ended, in thread instructions. */
    void (*limit)(struct gk_device *device, int64_t thread_instructions);
    enum gk_status (*health)(struct gk_device *device, struct gk_err *err);
    void (*close)(struct gk_device *device);
};

struct gk_device {
    const struct gk_device_ops *ops;
    struct gk_device_props props;
};

/* Opens "emu:sm_80" or "emu". "cuda:..." is GK_UNSUPPORTED in this build, and says so; so is
 * "mock", which has no memory. The caller closes it with gk_device_close. */
enum gk_status gk_device_open(const char *name, struct gk_device **device_out, struct gk_err *err);
void gk_device_close(struct gk_device *device);

/* For gk_device_open. */
enum gk_status gk_device_emu_open(const char *name, struct gk_device **device_out,
                                  struct gk_err *err);

#endif
