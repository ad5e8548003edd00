/*
 * Launches without a graph, policy `eager`: put into the stream one by one, as an application does
 * that has no graphs, and timed by the two events around them. Where the host is slower in
 * launching than the device in running, that is what the application sees, and so does the time.
 * What an application would do once is done before: arguments and tensor maps of every slot are
 * ready.
 */
#include <stdlib.h>

#include "worker/trial_inside.h"

struct ready { /* the run-phase launches of one slot; those of a vendor are the library's to make */
    struct gk_issue *issues; /* places times count */
    uint32_t places, count;
};

void trial_stream_drop(struct recording *recording)
{
    if (recording->ready) {
        free(recording->ready->issues);
    }
    free(recording->ready);
    recording->ready = NULL;
}

static enum gk_status prepare(struct work *work, struct ready *ready, bool overlap,
                              struct gk_err *err)
{
    enum gk_status status = GK_OK;
    ready->issues = calloc((size_t)ready->places * GK_LAUNCHES_MAX, sizeof *ready->issues);
    if (!ready->issues) {
        return gk_fail(err, GK_NOMEM, "out of memory for launches of %u slots", ready->places);
    }
    for (uint32_t place = 0; place < ready->places && status == GK_OK; place++) {
        struct gk_memory memory = {0};
        trial_slot_memory(work, gk_scene_slot_at(work->scene, place), &memory);
        status = gk_plan_prepare(work->bench->device, &work->plan, &work->loaded, &memory, overlap,
                                 ready->issues + (size_t)place * ready->count, &ready->count, err);
    }
    return status;
}

enum gk_status trial_stream_prepare(struct work *work, uint32_t places, struct gk_err *err)
{
    const struct gk_device *device = work->bench->device;
    struct recording *recording = &work->recording;
    if (!device->ops->stream_begin || !device->ops->stream_end) {
        return gk_fail(err, GK_UNSUPPORTED, "device %s does not time launches without a graph",
                       device->props.device);
    }
    recording->ready = calloc(1, sizeof *recording->ready);
    if (!recording->ready) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    recording->ready->places = places;
    enum gk_status status = work->vendor ? GK_OK : prepare(work, recording->ready, false, err);
    if (status != GK_OK) {
        trial_stream_drop(recording);
    }
    return status;
}

static enum gk_status zero_workspaces(struct work *work, struct gk_err *err)
{
    const unsigned char zero = 0;
    const struct gk_device_ops *ops = work->bench->device->ops;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < work->plan.template_->workspace_count && status == GK_OK; i++) {
        const struct gk_buffer *buffer = &work->memory.workspaces[i];
        if (work->plan.workspaces[i].present && buffer->bytes > 0 &&
            work->plan.workspaces[i].def->init == GK_WS_ZERO) {
            status = ops->fill(work->bench->device, buffer->address, buffer->bytes, &zero, 1, err);
        }
    }
    return status;
}

static enum gk_status put(struct work *work, uint32_t place, struct gk_device_report *report,
                          struct gk_err *err)
{
    const struct ready *ready = work->recording.ready;
    if (work->vendor) {
        return trial_issue(work, gk_scene_slot_at(work->scene, place), err);
    }
    enum gk_status status = zero_workspaces(work, err);
    for (uint32_t i = 0; i < ready->count && status == GK_OK; i++) {
        const struct gk_issue *issue = &ready->issues[(size_t)place * ready->count + i];
        status = work->bench->device->ops->launch(work->bench->device, issue->kernel,
                                                  &issue->launch, report, err);
    }
    return status;
}

/* A sample goes on with the slot behind the last one's: few launches still meet all of them. */
enum gk_status trial_stream_run(struct work *work, struct gk_device_report *report_out,
                                struct gk_err *err)
{
    struct gk_device *device = work->bench->device;
    struct recording *recording = &work->recording;
    struct gk_device_report *ending = calloc(1, sizeof *ending);
    struct gk_err why = {0};
    enum gk_status status =
        ending ? device->ops->stream_begin(device, err) : gk_fail(err, GK_NOMEM, "out of memory");
    if (status != GK_OK) {
        free(ending);
        return status;
    }
    for (uint32_t i = 0; i < recording->launches && status == GK_OK; i++) {
        status = put(work, recording->at++ % recording->ready->places, report_out, err);
    }
    enum gk_status ended = device->ops->stream_end(device, ending, &why);
    if (status == GK_OK || ended == GK_TRIAL) { /* how the work ended says more than a refusal */
        *report_out = *ending;
        status = ended == GK_OK ? status : gk_fail(err, ended, "%s", why.text);
    }
    free(ending);
    return status;
}
