/*
 * A CUDA device behind the table of operations: opening, closing, and what is asked of the device
 * as a whole. Its parts are described in cuda_inside.h.
 */
#include "worker/cuda/device_cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/cuda_inside.h"
#include "worker/cuda/cuda_props.h"

#define PATIENCE_MS 10000
#define VITALS_MS   3000 /* of NVML: some milliseconds, while the GPU is there */

static void cuda_patience(struct gk_device *base, uint64_t ms)
{
    cuda_of(base)->patience_ms = ms;
}

static void cuda_limit(struct gk_device *base, int64_t thread_instructions)
{
    (void)base; /* a GPU does not count: patience ends what does not end */
    (void)thread_instructions;
}

static enum gk_status cuda_health(struct gk_device *base, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = cuda_ready(device, "health", err);
    if (status != GK_OK || device->record != CUDA_RECORD_NONE) {
        return status; /* asking inside a recording would be recorded */
    }
    CUresult result = cuda_settle(device);
    if (result != CUDA_SUCCESS) {
        status = cuda_result(device, result, "cuEventQuery", err, "health of device %s",
                             base->props.device);
        cuda_lose(device, "its health was asked");
    }
    return status;
}

enum gk_status cuda_vitals(struct gk_device *base, struct gk_device_vitals *vitals_out,
                           struct gk_err *err)
{
    struct gk_nvml_now now;
    int64_t others;
    (void)err;
    gk_nvml_look_within(cuda_of(base)->nvml, VITALS_MS, &now, &others);
    *vitals_out = (struct gk_device_vitals){
        .sm_clock_khz = now.sm_clock_khz,
        .memory_clock_khz = now.memory_clock_khz,
        .temperature_c = now.temperature_c,
        .power_mw = now.power_mw,
        .power_limit_mw = now.power_limit_mw,
        .throttle = now.throttle,
        .others = others,
    };
    return GK_OK;
}

/* Of a lost device only our own memory is given back: the driver may wait for ever for a kernel
 * that does not end, and the end of the process frees the rest. */
static void cuda_close(struct gk_device *base)
{
    struct cuda_device *device = cuda_of(base);
    const struct gk_cuda_driver *driver = device->driver;
    if (device->record == CUDA_RECORD_OPEN) {
        struct gk_err err = {.status = GK_CANCELLED, .text = "the device is closed"};
        cuda_record_fail(device, &err);
    }
    cuda_memory_fini(device);
    for (uint32_t i = 0; i < 2 && !device->lost; i++) {
        if (device->stages[i].host) {
            (void)driver->host_release(device->stages[i].host);
        }
        if (device->stages[i].done) {
            (void)driver->event_destroy(device->stages[i].done);
        }
    }
    if (!device->lost) {
        if (device->begin) {
            (void)driver->event_destroy(device->begin);
        }
        if (device->end) {
            (void)driver->event_destroy(device->end);
        }
        if (device->stream) {
            (void)driver->stream_destroy(device->stream);
        }
        if (device->context) {
            (void)driver->context_set(NULL);
            (void)driver->context_release(device->device);
        }
    }
    gk_nvml_close(device->nvml);
    free(device);
}

static const struct gk_device_ops cuda_ops = {
    .exact_bounds = false,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .write = cuda_write,
    .read = cuda_read,
    .fill = cuda_fill,
    .load = cuda_load,
    .unload = cuda_unload,
    .find = cuda_find,
    .launch = cuda_launch,
    .limit = cuda_limit,
    .health = cuda_health,
    .patience = cuda_patience,
    .copy = cuda_copy,
    .alloc_hidden = cuda_alloc_hidden,
    .hide = cuda_hide,
    .show = cuda_show,
    .encode = cuda_encode,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .graph_free = cuda_graph_free,
    .stream_begin = cuda_stream_begin,
    .stream_end = cuda_stream_end,
    .vitals = cuda_vitals,
    .close = cuda_close,
};

static CUresult make_context(struct cuda_device *device, const char **function)
{
    const struct gk_cuda_driver *driver = device->driver;
    *function = "cuDevicePrimaryCtxRetain";
    CUresult result = driver->context_retain(&device->context, device->device);
    if (result == CUDA_SUCCESS) {
        *function = "cuCtxSetCurrent";
        result = driver->context_set(device->context);
    }
    if (result == CUDA_SUCCESS) {
        *function = "cuStreamCreate";
        result = driver->stream_create(&device->stream, CU_STREAM_NON_BLOCKING);
    }
    if (result == CUDA_SUCCESS) {
        *function = "cuEventCreate";
        result = driver->event_create(&device->begin, CU_EVENT_DEFAULT);
    }
    if (result == CUDA_SUCCESS) {
        result = driver->event_create(&device->end, CU_EVENT_DEFAULT);
    }
    for (uint32_t i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
        *function = "cuEventCreate";
        result = driver->event_create(&device->stages[i].done, CU_EVENT_DISABLE_TIMING);
        if (result == CUDA_SUCCESS) {
            *function = "cuMemAllocHost";
            result = driver->host_alloc(&device->stages[i].host, CUDA_STAGE_BYTES);
        }
    }
    return result;
}

enum gk_status gk_device_cuda_open(const struct gk_device_places *places, const char *name,
                                   struct gk_device **device_out, struct gk_err *err)
{
    const char *function = "";
    struct cuda_device *device = calloc(1, sizeof *device);
    if (!device) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    device->base.ops = &cuda_ops;
    device->clock = gk_clock_real();
    device->patience_ms = PATIENCE_MS;
    enum gk_status status = gk_cuda_driver_open(places->cuda, &device->driver, err);
    if (status == GK_OK) {
        status = cuda_props_find(device->driver, places, name, &device->device, &device->base.props,
                                 err);
    }
    if (status != GK_OK) {
        free(device);
        return gk_fail_in(err, status, "device %s", name);
    }
    /* Without NVML clocks and power are not known: -1 in the vitals. */
    (void)gk_nvml_open(places->nvml, device->base.props.uuid, &device->nvml, NULL);
    CUresult result = make_context(device, &function);
    if (result != CUDA_SUCCESS) {
        status = cuda_result(device, result, function, err, "device %s is opened", name);
        cuda_close(&device->base);
        return status;
    }
    *device_out = &device->base;
    return GK_OK;
}

/* ------------------------------------------------------------------ for the vendor's library */

void *gk_device_cuda_stream(struct gk_device *base)
{
    return base->ops == &cuda_ops ? cuda_of(base)->stream : NULL;
}

const struct gk_cuda_driver *gk_device_cuda_driver(struct gk_device *base)
{
    return base->ops == &cuda_ops ? cuda_of(base)->driver : NULL;
}
