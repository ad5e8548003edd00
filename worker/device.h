/*
 * A device as the executor sees it: one table of operations.
 *
 * Addresses are device addresses. A device is used by one thread. Nothing here knows about tensors
 * or trials. Behind the table stand the emulated device (device_emu.c) and a CUDA device
 * (cuda/device_cuda.c); the mock device never gets this far, since its outcomes come from a script
 * (device_mock.c).
 *
 * A device can be lost: an illegal address, a trap or a kernel that does not end leave a CUDA
 * context that nothing can be done with. The operation that met it says so once (GK_TRIAL with a
 * report where there is one), and from then on health() fails: the process has to end, its
 * supervisor starts another.
 */
#ifndef GK_WORKER_DEVICE_H
#define GK_WORKER_DEVICE_H

#include "core/device_props.h"
#include "kernels/catalog.h"
#include "core/record.h"

#define GK_LAUNCH_ARGS_MAX 48
#define GK_LAUNCH_TEXT_MAX 4096
#define GK_COUNTERS_MAX    32

struct gk_device;
struct gk_device_module;
struct gk_device_kernel; /* owned by its module */

struct gk_device_launch {
    uint32_t grid[3], block[3], cluster[3];
    uint32_t smem_bytes;      /* dynamic */
    uint32_t regs;            /* a thread, from ptxas; 0: not known */
    bool cooperative;         /* all blocks run at once */
    bool pdl;                 /* may begin before the launch ahead of it has ended */
    bool nonportable_cluster; /* more than eight blocks a cluster */
    int32_t carveout;         /* percent of the SM's memory preferred as shared; -1: not set */
    struct { /* accesses to this range are kept in L2 as the policy says; bytes 0: none */
        uint64_t address, bytes;
        double hit_ratio; /* 0 to 1: this part of the range */
        enum gk_device_l2 {
            GK_DEVICE_L2_PERSISTING,
            GK_DEVICE_L2_STREAMING,
            GK_DEVICE_L2_NORMAL
        } policy;
    } l2_window;
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

/* Launches and fills that were recorded, to be run again as one piece. Owned by its device. */
struct gk_device_graph;

/* A tensor map before it is encoded: 128 bytes of which only the hardware knows the layout. */
struct gk_device_map {
    enum gk_dtype dtype;
    uint32_t rank;       /* 1 to 5; arrays by dimension, innermost first */
    uint64_t address;    /* of the view's first element */
    uint64_t dims[5];    /* elements */
    uint64_t strides[5]; /* bytes; [0] is the element's size */
    uint32_t box[5], element_strides[5];
    uint32_t swizzle;      /* bytes: 0, 32, 64, 128 */
    uint32_t l2_promotion; /* bytes: 0, 64, 128, 256 */
    bool fill_nan;         /* out of range reads as NaN instead of 0 */
};

/* How the device is at this moment. -1: the device does not tell. */
struct gk_device_vitals {
    int64_t sm_clock_khz, memory_clock_khz, temperature_c, power_mw, power_limit_mw;
    int64_t throttle; /* bits as NVML names them (clocks event reasons); 0: none */
    int64_t others;   /* processes beside this one that have a context there */
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
    /* Work that one launch may do before it is ended, in thread instructions. NULL where devices
     * cannot tell: there patience() ends it. */
    void (*limit)(struct gk_device *device, int64_t thread_instructions);
    enum gk_status (*health)(struct gk_device *device, struct gk_err *err);

    /* ---- all of these may be NULL, where a device does not have them */

    /* How long one launch or replay is waited for before the device counts as hung
     * (GK_FAILURE_TIMEOUT, and the device is lost). */
    void (*patience)(struct gk_device *device, uint64_t ms);
    /* Within the device. The ranges do not overlap. */
    enum gk_status (*copy)(struct gk_device *device, uint64_t to, uint64_t from, uint64_t size,
                           struct gk_err *err);
    /* Memory that no kernel reaches while it is hidden: an access faults. Allocated shown; hide()
     * is for all of it at once, show() for one allocation, since mapping costs time. Freed by
     * release. */
    enum gk_status (*alloc_hidden)(struct gk_device *device, const char *name, uint64_t bytes,
                                   uint64_t *address_out, struct gk_err *err);
    enum gk_status (*hide)(struct gk_device *device, bool hidden, struct gk_err *err);
    enum gk_status (*show)(struct gk_device *device, uint64_t address, struct gk_err *err);
    /* GK_INPUT names the rule of the hardware that the map breaks. */
    enum gk_status (*encode)(struct gk_device *device, const struct gk_device_map *map,
                             unsigned char bytes_out[128], struct gk_err *err);
    /* Between begin and end, launch() and fill() are recorded instead of run, in order. Exactly one
     * recording is open at a time; nothing else may be asked of the device meanwhile. A failed
     * launch ends the recording, and end() then fails. */
    enum gk_status (*record_begin)(struct gk_device *device, struct gk_err *err);
    enum gk_status (*record_end)(struct gk_device *device, struct gk_device_graph **graph_out,
                                 struct gk_err *err);
    /* Runs the recording once, back to back; report_out->ns is the time from its first to its last
     * piece. Results as of launch(). */
    enum gk_status (*replay)(struct gk_device *device, struct gk_device_graph *graph,
                             struct gk_device_report *report_out, struct gk_err *err);
    void (*graph_free)(struct gk_device *device, struct gk_device_graph *graph);
    /* Between begin and end, launch() and fill() go into the stream one behind the other and nobody
     * waits for them, as in an application without graphs; nothing else may be asked meanwhile.
     * end() waits; report_out->ns is the time from the first piece to the last. It has to be called
     * after a launch that failed too. Results as of launch(). */
    enum gk_status (*stream_begin)(struct gk_device *device, struct gk_err *err);
    enum gk_status (*stream_end)(struct gk_device *device, struct gk_device_report *report_out,
                                 struct gk_err *err);
    enum gk_status (*vitals)(struct gk_device *device, struct gk_device_vitals *vitals_out,
                             struct gk_err *err);
    void (*close)(struct gk_device *device);
};

struct gk_device {
    const struct gk_device_ops *ops;
    struct gk_device_props props;
};

/* Opens "emu:sm_80", "emu", "cuda:0" or "cuda:GPU-<uuid>". "mock" is GK_UNSUPPORTED: it has no
 * memory. The caller closes it with gk_device_close. */
enum gk_status gk_device_open(const char *name, struct gk_device **device_out, struct gk_err *err);
void gk_device_close(struct gk_device *device);

/* What gk_device_open(name) would open, without opening it: no context is made and no memory is
 * taken. Also "mock". */
enum gk_status gk_device_describe(const char *name, struct gk_device_props *props_out,
                                  struct gk_err *err);

/* Files of the CUDA driver and of NVML; NULL: where the system keeps them. For mains, before
 * anything is opened; borrowed until the end of the process. */
struct gk_device_places {
    const char *cuda, *nvml;
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
};
void gk_device_set_places(const struct gk_device_places *places);
const struct gk_device_places *gk_device_places(void);

/* For gk_device_open. */
enum gk_status gk_device_emu_open(const char *name, struct gk_device **device_out,
                                  struct gk_err *err);

#endif
