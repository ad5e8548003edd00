/* See pressed.h. */
#include "tests/unit/pressed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct pressed pressed;

static enum gk_status pressed_alloc(struct gk_device *dev, const char *name, uint64_t bytes,
                                    uint64_t align, uint64_t *address_out, struct gk_err *err)
{
    if (pressed.tight && pressed.graphs > 0) {
        return gk_fail(err, GK_LIMIT, "no memory for %s", name);
    }
    enum gk_status status = pressed.real->alloc(dev, name, bytes, align, address_out, err);
    for (uint32_t i = 0; status == GK_OK && i < PRESSED_BLOCKS_MAX; i++) {
        if (pressed.blocks[i].address == 0) {
            pressed.blocks[i].address = *address_out;
            pressed.blocks[i].bytes = bytes;
            pressed.used += bytes;
            pressed.most = pressed.used > pressed.most ? pressed.used : pressed.most;
            break;
        }
    }
    return status;
}

static enum gk_status pressed_release(struct gk_device *dev, uint64_t address, struct gk_err *err)
{
    for (uint32_t i = 0; i < PRESSED_BLOCKS_MAX; i++) {
        if (pressed.blocks[i].address == address) {
            pressed.used -= pressed.blocks[i].bytes;
            pressed.blocks[i].address = 0;
        }
    }
    return pressed.real->release(dev, address, err);
}

static void pressed_patience(struct gk_device *dev, uint64_t ms)
{
    (void)dev;
    pressed.patience_ms = ms;
}

static void wait_for(double ns, struct gk_device_report *report)
{
    report->ns = ns;
    pressed.impatient = pressed.impatient || ns / 1e6 > (double)pressed.patience_ms;
}

static void note_place(const struct gk_device_launch *launch)
{
    uint64_t address = 0;
    uint32_t at = 0;
    memcpy(&address, launch->args[0].bytes, sizeof address);
    while (at < pressed.place_count && pressed.places[at] != address) {
        at++;
    }
    assert_true(at < PRESSED_PLACES_MAX);
    pressed.places[at] = address;
    pressed.place_count += at == pressed.place_count;
    pressed.recorded++;
}

static enum gk_status pressed_launch(struct gk_device *dev, struct gk_device_kernel *kernel,
                                     const struct gk_device_launch *launch,
                                     struct gk_device_report *report_out, struct gk_err *err)
{
    struct gk_device_launch in_order =
        *launch; /* the kernel of these tests never waits for others */
    in_order.pdl = false;
    enum gk_status status = pressed.real->launch(dev, kernel, &in_order, report_out, err);
    pressed.pdl += launch->pdl;
    if (pressed.streaming) {
        note_place(launch);
        pressed.streamed++;
    } else if (pressed.recording) {
        note_place(launch);
    } else if (status == GK_OK && pressed.launch_ns > 0) {
        wait_for(pressed.launch_ns, report_out);
    }
    return status;
}

static enum gk_status pressed_record_begin(struct gk_device *dev, struct gk_err *err)
{
    pressed.recording = true;
    pressed.recorded = pressed.place_count = 0;
    return pressed.real->record_begin(dev, err);
}

static enum gk_status pressed_record_end(struct gk_device *dev, struct gk_device_graph **graph_out,
                                         struct gk_err *err)
{
    enum gk_status status = pressed.real->record_end(dev, graph_out, err);
    pressed.recording = false;
    pressed.graphs += status == GK_OK;
    for (uint32_t i = 0; status == GK_OK && i < GK_ARRAY_COUNT(pressed.recordings); i++) {
        if (!pressed.recordings[i].graph) {
            pressed.recordings[i].graph = *graph_out;
            pressed.recordings[i].launches = pressed.recorded;
            pressed.recordings[i].places = pressed.place_count;
            break;
        }
    }
    pressed.most_places =
        pressed.place_count > pressed.most_places ? pressed.place_count : pressed.most_places;
    return status;
}

static void pressed_graph_free(struct gk_device *dev, struct gk_device_graph *graph)
{
    pressed.graphs--;
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(pressed.recordings); i++) {
        if (pressed.recordings[i].graph == graph) {
            pressed.recordings[i].graph = NULL;
        }
    }
    pressed.real->graph_free(dev, graph);
}

static enum gk_status pressed_replay(struct gk_device *dev, struct gk_device_graph *graph,
                                     struct gk_device_report *report_out, struct gk_err *err)
{
    enum gk_status status = pressed.real->replay(dev, graph, report_out, err);
    for (uint32_t i = 0; i < GK_ARRAY_COUNT(pressed.recordings); i++) {
        if (status == GK_OK && pressed.launch_ns > 0 && pressed.recordings[i].graph == graph) {
            bool carried = pressed.recordings[i].places <= pressed.carried_places;
            double ns = carried ? pressed.carried_ns : pressed.launch_ns;
            ns *= 1 + (pressed.replays++ % 3 == 0 ? pressed.jitter : 0);
            wait_for(ns * pressed.recordings[i].launches, report_out);
        }
    }
    return status;
}

static enum gk_status pressed_stream_begin(struct gk_device *dev, struct gk_err *err)
{
    pressed.streaming = true;
    pressed.stream_first = pressed.streamed;
    pressed.streams++;
    return pressed.real->stream_begin(dev, err);
}

static enum gk_status pressed_stream_end(struct gk_device *dev, struct gk_device_report *report_out,
                                         struct gk_err *err)
{
    pressed.streaming = false;
    enum gk_status status = pressed.real->stream_end(dev, report_out, err);
    if (status == GK_OK && pressed.launch_ns > 0) {
        wait_for(pressed.launch_ns * (pressed.streamed - pressed.stream_first), report_out);
    }
    return status;
}

enum gk_status pressed_vitals(struct gk_device *dev, struct gk_device_vitals *now_out,
                              struct gk_err *err)
{
    (void)dev;
    (void)err;
    *now_out =
        (struct gk_device_vitals){-1, -1, -1, -1, -1, 0, pressed.others ? *pressed.others++ : 0};
    if (pressed.throttled_looks > 0) {
        pressed.throttled_looks--;
        now_out->throttle = pressed.throttle;
    }
    return GK_OK;
}

void pressed_begin(struct gk_device *device)
{
    memset(&pressed, 0, sizeof pressed);
    pressed.patience_ms = 10000; /* as a device begins */
    pressed.real = device->ops;
    pressed.ops = *device->ops;
    pressed.ops.alloc = pressed_alloc;
    pressed.ops.release = pressed_release;
    pressed.ops.launch = pressed_launch;
    pressed.ops.record_begin = pressed_record_begin;
    pressed.ops.record_end = pressed_record_end;
    pressed.ops.graph_free = pressed_graph_free;
    pressed.ops.replay = pressed_replay;
    pressed.ops.patience = pressed_patience;
    pressed.ops.stream_begin = pressed_stream_begin;
    pressed.ops.stream_end = pressed_stream_end;
    device->ops = &pressed.ops;
}
