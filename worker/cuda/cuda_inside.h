/*
 * What the files of the CUDA device share: the device itself, and how its parts wait and fail.
 *
 * One device, one thread, one context, which is current from opening to closing; one stream of its
 * own that waits for no other. Everything is put into that stream and then waited for by asking,
 * with a deadline: a call of the driver that blocks would hang with a kernel that does not end.
 * Therefore: no cuCtxSynchronize, no cuStreamSynchronize, no cuMemcpy without Async, in any file.
 */
#ifndef GK_WORKER_CUDA_INSIDE_H
#define GK_WORKER_CUDA_INSIDE_H

#include "core/clock.h"
#include "worker/cuda/driver.h"
#include "worker/device.h"

struct gk_nvml;
struct cuda_block; /* memory: one allocation */

#define CUDA_STAGE_BYTES ((size_t)8 << 20) /* one of two: a copy runs while the other is filled */

struct cuda_device {
    struct gk_device base; /* first: pointers are converted */
    const struct gk_cuda_driver *driver;
    struct gk_nvml *nvml; /* NULL: not there */
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent begin, end;
    struct gk_clock clock; /* of the machine: what the GPU does takes real time */
    uint64_t patience_ms;
    /* Set by what left the context unusable; the text is what every later call fails with. */
    bool lost;
    char lost_text[GK_LAUNCH_TEXT_MAX];

    struct {
        void *host; /* pinned, CUDA_STAGE_BYTES */
        CUevent done;
    } stages[2];
    struct cuda_block *blocks; /* sorted by address */
    uint32_t block_count, block_room;
    uint64_t used_bytes;

    /* STREAM: no graph, but nobody waits for a launch either. */
    enum cuda_record {
        CUDA_RECORD_NONE,
        CUDA_RECORD_OPEN,
        CUDA_RECORD_FAILED,
        CUDA_RECORD_STREAM
    } record;
    bool after_kernel; /* the piece recorded last is a kernel: the next may overlap it */
    /* Without a graph a kernel's error may be told by any later call: what was told first, for the
     * stream's end. CUDA_SUCCESS: nothing was. */
    CUresult stream_result;
    struct gk_err record_err;
    bool has_l2_share; /* part of the L2 was set aside for windows that persist */
};

static inline struct cuda_device *cuda_of(struct gk_device *device)
{
    return (struct cuda_device *)device;
}

/* GK_OK while the device can work. Every operation asks first; what names it in the error. */
enum gk_status cuda_ready(struct cuda_device *device, const char *what, struct gk_err *err);

/* A result other than success: GK_OK never. A sticky error marks the device as lost. */
enum gk_status cuda_result(struct cuda_device *device, CUresult result, const char *function,
                           struct gk_err *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Waits for an event, at most ms: CUDA_SUCCESS; CUDA_ERROR_LAUNCH_TIMEOUT when that has passed (the
 * device is lost then); or the error that the work ahead of it ended with. */
CUresult cuda_wait(struct cuda_device *device, CUevent event, uint64_t ms);
/* Puts the device's end event into the stream and waits for it: for launches and replays at most
 * patience, for what the device's own operations put there cuda_settle. An error may be that of
 * what is ahead: the driver tells at any later call. */
CUresult cuda_wait_end(struct cuda_device *device);
CUresult cuda_settle(struct cuda_device *device);
#define CUDA_SETTLE_MS 30000 /* of copies and fills, whose length is not the candidate's doing */

/* Marks the device as lost. The first text stays. */
void cuda_lose(struct cuda_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool cuda_is_sticky(CUresult result);

/* How the work of a launch or a replay ended: fills the report and gives GK_OK or GK_TRIAL. On
 * success ns is the time between the device's two events. */
enum gk_status cuda_report(struct cuda_device *device, CUresult result, const char *what,
                           struct gk_device_report *report_out, struct gk_err *err);

/* ---- for the vendor's library, which puts its own launches into the stream */

/* The CUstream of a CUDA device whose context is current in the calling thread, as it is from
 * opening to closing. NULL for a device that is no CUDA device. The library's calls may be made
 * between record_begin and record_end and are recorded then; outside a recording follow them by
 * gk_device_cuda_settle. Never wait by a call of the library or the driver. */
void *gk_device_cuda_stream(struct gk_device *device);
const struct gk_cuda_driver *gk_device_cuda_driver(struct gk_device *device);
/* Waits for what was put into the stream, as of launch(): ns is 0, since nobody took the time. */
enum gk_status gk_device_cuda_settle(struct gk_device *device, const char *what,
                                     struct gk_device_report *report_out, struct gk_err *err);
/* Tells a recording that something that is not ours went in: the next launch drops its pdl. */
void gk_device_cuda_foreign(struct gk_device *device);

/* ---- the parts, called by device_cuda.c's table */

enum gk_status cuda_alloc(struct gk_device *base, const char *name, uint64_t bytes, uint64_t align,
                          uint64_t *address_out, struct gk_err *err);
enum gk_status cuda_release(struct gk_device *base, uint64_t address, struct gk_err *err);
enum gk_status cuda_alloc_hidden(struct gk_device *base, const char *name, uint64_t bytes,
                                 uint64_t *address_out, struct gk_err *err);
enum gk_status cuda_hide(struct gk_device *base, bool hidden, struct gk_err *err);
enum gk_status cuda_show(struct gk_device *base, uint64_t address, struct gk_err *err);
void cuda_memory_fini(struct cuda_device *device);
/* GK_INPUT unless the range lies inside one allocation and, for hidden ones, is shown. */
enum gk_status cuda_range(struct cuda_device *device, uint64_t address, uint64_t size,
                          const char *what, struct gk_err *err);

enum gk_status cuda_write(struct gk_device *base, uint64_t address, const void *bytes,
                          uint64_t size, struct gk_err *err);
enum gk_status cuda_read(struct gk_device *base, uint64_t address, void *bytes, uint64_t size,
                         struct gk_err *err);
enum gk_status cuda_copy(struct gk_device *base, uint64_t to, uint64_t from, uint64_t size,
                         struct gk_err *err);
enum gk_status cuda_fill(struct gk_device *base, uint64_t address, uint64_t size,
                         const void *pattern, uint32_t pattern_bytes, struct gk_err *err);

enum gk_status cuda_load(struct gk_device *base, const struct gk_device_code *code,
                         struct gk_device_module **module_out, struct gk_err *err);
void cuda_unload(struct gk_device *base, struct gk_device_module *module);
enum gk_status cuda_find(struct gk_device *base, struct gk_device_module *module, const char *name,
                         struct gk_device_kernel **kernel_out, struct gk_err *err);
enum gk_status cuda_launch(struct gk_device *base, struct gk_device_kernel *kernel,
                           const struct gk_device_launch *launch,
                           struct gk_device_report *report_out, struct gk_err *err);

enum gk_status cuda_record_begin(struct gk_device *base, struct gk_err *err);
enum gk_status cuda_record_end(struct gk_device *base, struct gk_device_graph **graph_out,
                               struct gk_err *err);
enum gk_status cuda_replay(struct gk_device *base, struct gk_device_graph *graph,
                           struct gk_device_report *report_out, struct gk_err *err);
void cuda_graph_free(struct gk_device *base, struct gk_device_graph *graph);
enum gk_status cuda_stream_begin(struct gk_device *base, struct gk_err *err);
enum gk_status cuda_stream_end(struct gk_device *base, struct gk_device_report *report_out,
                               struct gk_err *err);
/* Ends an open recording because a piece of it failed; record_end then fails with err's text.
 * Nothing where no recording is open. */
void cuda_record_fail(struct cuda_device *device, const struct gk_err *err);

enum gk_status cuda_encode(struct gk_device *base, const struct gk_device_map *map,
                           unsigned char bytes_out[128], struct gk_err *err);
enum gk_status cuda_vitals(struct gk_device *base, struct gk_device_vitals *vitals_out,
                           struct gk_err *err);

#endif
