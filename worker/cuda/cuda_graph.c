/*
 * Recordings of the CUDA device: what goes into the stream between begin and end becomes a graph,
 * which replays back to back without the cost of launching.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/cuda/cuda_inside.h"

struct cuda_graph {
    CUgraphExec exec;
};

enum gk_status cuda_record_begin(struct gk_device *base, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = cuda_ready(device, "record", err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "record: a recording is open already");
    }
    if (status != GK_OK) {
        return status;
    }
    /* Relaxed: the vendor's library may ask the driver for what a stricter mode forbids. */
    CUresult result = device->driver->capture_begin(device->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuStreamBeginCapture", err, "record");
    }
    device->record = CUDA_RECORD_OPEN;
    device->after_kernel = false;
    return GK_OK;
}

void cuda_record_fail(struct cuda_device *device, const struct gk_err *err)
{
    CUgraph graph = NULL;
    if (device->record != CUDA_RECORD_OPEN) {
        return;
    }
    device->record = CUDA_RECORD_FAILED;
    device->record_err = *err;
    /* A capture that failed gives no graph; one that was only refused a launch gives what there is
     * so far. The stream has to leave it either way. */
    if (!device->lost && device->driver->capture_end(device->stream, &graph) == CUDA_SUCCESS &&
        graph) {
        (void)device->driver->graph_destroy(graph);
    }
}

static enum gk_status finish(struct cuda_device *device, struct cuda_graph *made,
                             struct gk_err *err)
{
    const struct gk_cuda_driver *driver = device->driver;
    CUgraph graph = NULL;
    const char *function = "cuStreamEndCapture";
    CUresult result = driver->capture_end(device->stream, &graph);
    if (result == CUDA_SUCCESS) {
        function = "cuGraphInstantiate";
        result = driver->graph_instantiate(&made->exec, graph, 0);
    }
    if (graph) {
        (void)driver->graph_destroy(graph);
    }
    if (result == CUDA_SUCCESS) {
        /* Else the first replay would carry it. */
        function = "cuGraphUpload";
        result = driver->graph_upload(made->exec, device->stream);
    }
    if (result == CUDA_SUCCESS) {
        result = cuda_settle(device);
    }
    return result == CUDA_SUCCESS ? GK_OK
                                  : cuda_result(device, result, function, err, "a recording");
}

enum gk_status cuda_record_end(struct gk_device *base, struct gk_device_graph **graph_out,
                               struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum cuda_record record = device->record;
    enum gk_status status = cuda_ready(device, "record", err);
    if (record == CUDA_RECORD_NONE || record == CUDA_RECORD_STREAM) {
        return gk_fail(err, GK_USAGE, "record: no recording is open");
    }
    device->record = CUDA_RECORD_NONE;
    if (status == GK_OK && record == CUDA_RECORD_FAILED) {
        status = gk_fail(err, device->record_err.status, "the recording has failed: %s",
                         device->record_err.text);
    }
    struct cuda_graph *made = status == GK_OK ? calloc(1, sizeof *made) : NULL;
    if (status == GK_OK && !made) {
        /* The stream stays in its capture; nobody goes on after this. */
        cuda_lose(device, "no memory to end a recording");
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    status = status == GK_OK ? finish(device, made, err) : status;
    if (status != GK_OK) {
        cuda_graph_free(base, (struct gk_device_graph *)made);
        return status;
    }
    *graph_out = (struct gk_device_graph *)made;
    return GK_OK;
}

/* What a candidate kept in L2 by a window that persists stays there when it has ended, in the way
 * of whoever is timed next. Nothing runs here: what is timed begins behind this. */
static CUresult begin_timing(struct cuda_device *device)
{
    CUresult result = device->has_l2_share ? device->driver->l2_reset() : CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? device->driver->event_record(device->begin, device->stream)
                                  : result;
}

enum gk_status cuda_replay(struct gk_device *base, struct gk_device_graph *opaque,
                           struct gk_device_report *report_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    const struct gk_cuda_driver *driver = device->driver;
    struct cuda_graph *graph = (struct cuda_graph *)opaque;
    enum gk_status status = cuda_ready(device, "replay", err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "replay: a recording is open");
    }
    if (status != GK_OK) {
        return status;
    }
    CUresult result = begin_timing(device);
    if (result == CUDA_SUCCESS) {
        result = driver->graph_launch(graph->exec, device->stream);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuGraphLaunch", err, "replay of a recording");
    }
    return cuda_report(device, cuda_wait_end(device), "replay of a recording", report_out, err);
}

void cuda_graph_free(struct gk_device *base, struct gk_device_graph *opaque)
{
    struct cuda_device *device = cuda_of(base);
    struct cuda_graph *graph = (struct cuda_graph *)opaque;
    if (!graph) {
        return;
    }
    if (graph->exec && !device->lost) {
        (void)device->driver->graph_exec_destroy(graph->exec); /* nothing to do about a failure */
    }
    free(graph);
}

/* ------------------------------------------------------------------ without a graph */

enum gk_status cuda_stream_begin(struct gk_device *base, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = cuda_ready(device, "stream", err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "stream: a recording or a stream is open already");
    }
    if (status != GK_OK) {
        return status;
    }
    CUresult result = begin_timing(device);
    if (result != CUDA_SUCCESS) {
        return cuda_result(device, result, "cuEventRecord", err, "a stream of launches");
    }
    device->record = CUDA_RECORD_STREAM;
    device->stream_result = CUDA_SUCCESS;
    device->after_kernel = false;
    return GK_OK;
}

enum gk_status cuda_stream_end(struct gk_device *base, struct gk_device_report *report_out,
                               struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    if (device->record != CUDA_RECORD_STREAM) {
        return gk_fail(err, GK_USAGE, "stream: none is open");
    }
    device->record = CUDA_RECORD_NONE;
    if (device->stream_result != CUDA_SUCCESS) { /* a launch heard how one ahead of it had ended */
        return cuda_report(device, device->stream_result, "a stream of launches", report_out, err);
    }
    enum gk_status status = cuda_ready(device, "stream", err);
    return status == GK_OK
               ? cuda_report(device, cuda_wait_end(device), "a stream of launches", report_out, err)
               : status;
}

/* ------------------------------------------------------------------ for the vendor's library */

enum gk_status gk_device_cuda_settle(struct gk_device *base, const char *what,
                                     struct gk_device_report *report_out, struct gk_err *err)
{
    struct cuda_device *device = cuda_of(base);
    enum gk_status status = cuda_ready(device, what, err);
    if (status == GK_OK && device->record != CUDA_RECORD_NONE) {
        status = gk_fail(err, GK_USAGE, "%s: a recording is open", what);
    }
    if (status != GK_OK) {
        return status;
    }
    CUresult result = device->driver->event_record(device->begin, device->stream);
    if (result == CUDA_SUCCESS) {
        result = cuda_wait_end(device);
    }
    status = cuda_report(device, result, what, report_out, err);
    report_out->ns = 0;
    return status;
}

void gk_device_cuda_foreign(struct gk_device *base)
{
    cuda_of(base)->after_kernel = false;
}
