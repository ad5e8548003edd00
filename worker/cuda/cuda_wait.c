/*
 * Waiting with an end, and what an error of the driver means: see cuda_inside.h.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker/cuda/cuda_inside.h"

/* A kernel of the usual length is met while asking without a pause; a long one must not cost a
 * core. */
#define SPIN_NS      UINT64_C(2000000)
#define SLEEP_NS_MIN 20000
#define SLEEP_NS_MAX 1000000

bool cuda_is_sticky(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

void cuda_lose(struct cuda_device *device, const char *format, ...)
{
    va_list ap;
    if (device->lost) {
        return;
    }
    device->lost = true;
    va_start(ap, format);
    (void)vsnprintf(device->lost_text, sizeof device->lost_text, format, ap);
    va_end(ap);
}

enum gk_status cuda_ready(struct cuda_device *device, const char *what, struct gk_err *err)
{
    if (device->lost) {
        return gk_fail(err, GK_IO, "%s: device %s is lost since %s", what,
                       device->base.props.device, device->lost_text);
    }
    return GK_OK;
}

static enum gk_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return GK_LIMIT;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
        return GK_TIMEOUT;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED: /* this and the next: what a recording does not take */
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
        return GK_UNSUPPORTED;
    case CUDA_ERROR_INVALID_VALUE:
        return GK_INPUT;
    default:
        return cuda_is_sticky(result) ? GK_IO : GK_INTERNAL;
    }
}

enum gk_status cuda_result(struct cuda_device *device, CUresult result, const char *function,
                           struct gk_err *err, const char *format, ...)
{
    struct gk_err own = {0};
    char what[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    enum gk_status status =
        gk_cuda_fail(device->driver, status_of(result), result, function, &own, "%s", what);
    if (cuda_is_sticky(result)) {
        if (device->record == CUDA_RECORD_STREAM && !device->lost) {
            device->stream_result = result;
        }
        cuda_lose(device, "%s", own.text);
    }
    if (err) {
        *err = own;
    }
    return status;
}

static uint64_t now_ns(const struct cuda_device *device)
{
    return device->clock.monotonic_ns(device->clock.context);
}

CUresult cuda_wait(struct cuda_device *device, CUevent event, uint64_t ms)
{
    const uint64_t begin = now_ns(device);
    long pause_ns = SLEEP_NS_MIN;
    for (;;) {
        CUresult result = device->driver->event_query(event);
        if (result != CUDA_ERROR_NOT_READY) {
            return result;
        }
        uint64_t waited = now_ns(device) - begin;
        if (waited / 1000000 >= ms) {
            cuda_lose(device, "what it ran did not end within %" PRIu64 " ms", ms);
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        }
        if (waited < SPIN_NS) {
            (void)sched_yield();
            continue;
        }
        struct timespec pause = {.tv_nsec = pause_ns};
        (void)nanosleep(&pause, NULL);
        pause_ns = pause_ns < SLEEP_NS_MAX / 2 ? pause_ns * 2 : SLEEP_NS_MAX;
    }
}

static CUresult wait_end(struct cuda_device *device, uint64_t ms)
{
    CUresult result = device->driver->event_record(device->end, device->stream);
    return result == CUDA_SUCCESS ? cuda_wait(device, device->end, ms) : result;
}

CUresult cuda_wait_end(struct cuda_device *device)
{
    return wait_end(device, device->patience_ms);
}

CUresult cuda_settle(struct cuda_device *device)
{
    return wait_end(device, CUDA_SETTLE_MS);
}

/* What of the kernel's doing an error stands for. INFRA: the hardware's own, not the kernel's. */
static enum gk_failure failure_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        return GK_FAILURE_OUT_OF_BOUNDS;
    case CUDA_ERROR_MISALIGNED_ADDRESS:
        return GK_FAILURE_MISALIGNED;
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        return GK_FAILURE_TRAP;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
        return GK_FAILURE_TIMEOUT;
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return GK_FAILURE_INFRA;
    default:
        return GK_FAILURE_LAUNCH_ERROR;
    }
}

enum gk_status cuda_report(struct cuda_device *device, CUresult result, const char *what,
                           struct gk_device_report *report_out, struct gk_err *err)
{
    float ms = 0;
    memset(report_out, 0, sizeof *report_out);
    if (result == CUDA_SUCCESS) {
        result = device->driver->event_elapsed(&ms, device->begin, device->end);
    }
    if (result == CUDA_SUCCESS) {
        report_out->ns = (double)ms * 1e6;
        return GK_OK;
    }
    report_out->failure = failure_of(result);
    if (result == CUDA_ERROR_LAUNCH_TIMEOUT) {
        (void)snprintf(report_out->text, sizeof report_out->text,
                       "%s: did not end within %" PRIu64 " ms", what, device->patience_ms);
    } else {
        struct gk_err own = {0};
        (void)gk_cuda_fail(device->driver, GK_TRIAL, result, "cuEventQuery", &own, "%s", what);
        (void)snprintf(report_out->text, sizeof report_out->text, "%s", own.text);
    }
    /* Whatever ended the work ended the context: an error that comes from asking an event is never
     * one of asking. */
    cuda_lose(device, "%s", report_out->text);
    return gk_fail(err, GK_TRIAL, "%s", report_out->text);
}
