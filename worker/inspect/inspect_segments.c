/* Guards and poison: see inspect.h. */
#include "worker/inspect/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/inspect/inspect_inside.h"

#define CHUNK_BYTES (1 << 15) /* kChunkBytes of inspect.cu: a block's piece of a segment */

/* As inspect.cu lays them out. */
struct device_segment {
    uint64_t address, bytes, same_as;
    uint64_t pattern; /* repeated to eight bytes */
    uint64_t first_chunk;
};

struct device_audit {
    uint64_t changed, first;
};

/* One launch's worth: segments and their results lie behind each other in one block of memory, on
 * both sides. */
struct batch {
    unsigned char *bytes;
    struct device_segment *segments; /* in bytes */
    struct device_audit *audits;     /* in bytes, behind them */
    uint32_t count;
    uint64_t size, chunks;
    uint64_t *copies; /* of ranges that could not be read where they are; released at the end */
    uint32_t copy_count;
};

static uint64_t repeated(const struct gk_segment *segment)
{
    unsigned char bytes[8];
    uint64_t pattern;
    for (uint32_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = segment->pattern[i % segment->pattern_bytes];
    }
    memcpy(&pattern, bytes, sizeof pattern); /* little-endian on both sides */
    return pattern;
}

static enum gk_status check(const struct gk_segment *segments, uint32_t count, struct gk_err *err)
{
    if (count > GK_SEGMENTS_MAX) {
        return gk_fail(err, GK_LIMIT, "inspector: %" PRIu32 " segments; at most %d are allowed",
                       count, GK_SEGMENTS_MAX);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t size = segments[i].pattern_bytes;
        if (!segments[i].same_as && size != 1 && size != 2 && size != 4 && size != 8) {
            return gk_fail(err, GK_INPUT,
                           "inspector: segment %" PRIu32 " has a pattern of %" PRIu32
                           " bytes; 1, 2, 4 and 8 are allowed",
                           i, size);
        }
    }
    return GK_OK;
}

static enum gk_status batch_init(struct batch *batch, const struct gk_segment *segments,
                                 uint32_t count, struct gk_err *err)
{
    const size_t segment_bytes = count * sizeof *batch->segments;
    batch->count = count;
    batch->size = segment_bytes + count * sizeof *batch->audits;
    batch->bytes = malloc(batch->size + 1);
    batch->copies = calloc(2 * (size_t)count + 1, sizeof *batch->copies);
    if (!batch->bytes || !batch->copies) {
        return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu32 " segments", count);
    }
    batch->segments = (struct device_segment *)batch->bytes;
    batch->audits = (struct device_audit *)(batch->bytes + segment_bytes);
    for (uint32_t i = 0; i < count; i++) {
        batch->segments[i] =
            (struct device_segment){.address = segments[i].address,
                                    .bytes = segments[i].bytes,
                                    .same_as = segments[i].same_as,
                                    .pattern = segments[i].same_as ? 0 : repeated(&segments[i]),
                                    .first_chunk = batch->chunks};
        batch->audits[i] = (struct device_audit){0, UINT64_MAX};
        batch->chunks += (segments[i].bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    }
    return GK_OK;
}

static void batch_fini(struct gk_inspector *inspector, struct batch *batch)
{
    struct gk_device *device = inspector->device;
    for (uint32_t i = 0; i < batch->copy_count; i++) {
        (void)device->ops->release(device, batch->copies[i], NULL); /* nothing hangs on it */
    }
    free(batch->copies);
    free(batch->bytes);
}

static enum gk_status make_readable(struct gk_inspector *inspector, struct batch *batch,
                                    uint64_t *address, uint64_t bytes, struct gk_err *err)
{
    uint64_t base = 0;
    enum gk_status status = gk_inspect_readable(inspector, *address, bytes, address, &base, err);
    if (base) {
        batch->copies[batch->copy_count++] = base;
    }
    return status;
}

static enum gk_status run(struct gk_inspector *inspector, struct batch *batch, bool audit,
                          struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < batch->count && status == GK_OK; i++) {
        struct device_segment *segment = &batch->segments[i];
        if (audit) {
            status = make_readable(inspector, batch, &segment->address, segment->bytes, err);
        }
        if (status == GK_OK && segment->same_as) {
            status = make_readable(inspector, batch, &segment->same_as, segment->bytes, err);
        }
    }
    if (status == GK_OK) {
        status =
            gk_inspect_reserve(inspector, &inspector->table, "inspector: table", batch->size, err);
    }
    if (status == GK_OK) {
        status =
            device->ops->write(device, inspector->table.address, batch->bytes, batch->size, err);
    }
    if (status != GK_OK) {
        return status;
    }
    const uint64_t audits = inspector->table.address + batch->count * sizeof(struct device_segment);
    const struct gk_inspect_arg args[] = {
        {&inspector->table.address, sizeof inspector->table.address},
        {&batch->count, sizeof batch->count},
        {&batch->chunks, sizeof batch->chunks},
        {&audits, sizeof audits}};
    const enum gk_inspect_kernel kernel = audit ? GK_INSPECT_AUDIT : GK_INSPECT_PAINT;
    status = gk_inspect_launch(
        inspector, kernel, gk_inspect_blocks(inspector, kernel, batch->chunks * GK_INSPECT_THREADS),
        args, audit ? 4 : 3, err);
    if (status == GK_OK && audit) {
        status = device->ops->read(device, audits, batch->audits,
                                   batch->count * sizeof *batch->audits, err);
    }
    return status;
}

enum gk_status gk_inspector_audit(struct gk_inspector *inspector, const struct gk_segment *segments,
                                  uint32_t count, struct gk_audit *results_out, struct gk_err *err)
{
    struct batch batch = {0};
    enum gk_status status = check(segments, count, err);
    if (status != GK_OK) {
        return status;
    }
    status = batch_init(&batch, segments, count, err);
    if (status == GK_OK && batch.chunks > 0) {
        status = run(inspector, &batch, true, err);
    }
    for (uint32_t i = 0; i < count && status == GK_OK; i++) {
        results_out[i] = (struct gk_audit){batch.audits[i].changed, batch.audits[i].first};
    }
    batch_fini(inspector, &batch);
    return status;
}

enum gk_status gk_inspector_paint(struct gk_inspector *inspector, const struct gk_segment *segments,
                                  uint32_t count, struct gk_err *err)
{
    struct batch batch = {0};
    enum gk_status status = check(segments, count, err);
    if (status != GK_OK) {
        return status;
    }
    status = batch_init(&batch, segments, count, err);
    if (status == GK_OK && batch.chunks > 0) {
        status = run(inspector, &batch, false, err);
    }
    batch_fini(inspector, &batch);
    return status;
}
