/* Buffers with guards: see buffers.h. */
#include "worker/buffers.h"

#include <stdlib.h>
#include <string.h>

#define BASE_ALIGN  512 /* more than any alignment that is promised */
#define GUARD_BYTES 512 /* wider than any access of one warp's first instruction behind a row */
#define GUARD_BYTE  0xc5

static enum gk_status paint(struct gk_device *device, uint64_t address, uint64_t size,
                            const void *pattern, uint32_t pattern_bytes, struct gk_err *err)
{
    if (size == 0) {
        return GK_OK;
    }
    enum gk_status status = device->ops->fill(device, address, size, pattern, pattern_bytes, err);
    if (status == GK_OK && device->ops->forget) {
        status = device->ops->forget(device, address, size, err);
    }
    return status;
}

enum gk_status gk_buffer_make(struct gk_device *device, const char *name, uint64_t bytes,
                              uint64_t align, struct gk_buffer *buffer_out, struct gk_err *err)
{
    static const unsigned char guard = GUARD_BYTE;
    bool exact = device->ops->exact_bounds;
    struct gk_buffer buffer = {.bytes = bytes};
    /* An odd multiple of align is a multiple of nothing larger. */
    buffer.front = (align < 256 ? align : 0) + (exact ? 0 : GUARD_BYTES);
    buffer.back = exact ? 0 : GUARD_BYTES;
    enum gk_status status =
        device->ops->alloc(device, name, buffer.front + bytes + buffer.back,
                           align > BASE_ALIGN ? align : BASE_ALIGN, &buffer.base, err);
    if (status != GK_OK) {
        return status;
    }
    buffer.address = buffer.base + buffer.front;
    status = paint(device, buffer.base, buffer.front, &guard, 1, err);
    if (status == GK_OK) {
        status = paint(device, buffer.address + bytes, buffer.back, &guard, 1, err);
    }
    if (status != GK_OK) {
        gk_buffer_free(device, &buffer);
        return status;
    }
    *buffer_out = buffer;
    return GK_OK;
}

void gk_buffer_free(struct gk_device *device, struct gk_buffer *buffer)
{
    if (buffer && buffer->base) {
        (void)device->ops->release(device, buffer->base,
                                   NULL); /* a free that fails leaves it allocated */
        memset(buffer, 0, sizeof *buffer);
    }
}

static enum gk_status check_guard(struct gk_device *device, uint64_t address, uint64_t size,
                                  int64_t relative, uint64_t *changed, int64_t *offset,
                                  struct gk_err *err)
{
    unsigned char bytes[2 * GUARD_BYTES];
    if (size == 0) {
        return GK_OK;
    }
    GK_ASSERT(size <= sizeof bytes);
    enum gk_status status = device->ops->read(device, address, bytes, size, err);
    for (uint64_t i = 0; status == GK_OK && i < size; i++) {
        if (bytes[i] != GUARD_BYTE && (*changed)++ == 0) {
            *offset = relative + (int64_t)i;
        }
    }
    return status;
}

enum gk_status gk_buffer_check(struct gk_device *device, const struct gk_buffer *buffer,
                               uint64_t *changed_out, int64_t *offset_out, struct gk_err *err)
{
    uint64_t changed = 0;
    int64_t offset = 0;
    enum gk_status status = check_guard(device, buffer->base, buffer->front,
                                        -(int64_t)buffer->front, &changed, &offset, err);
    if (status == GK_OK) {
        status = check_guard(device, buffer->address + buffer->bytes, buffer->back,
                             (int64_t)buffer->bytes, &changed, &offset, err);
    }
    if (status == GK_OK) {
        *changed_out = changed;
        *offset_out = offset;
    }
    return status;
}

enum gk_status gk_buffer_poison(struct gk_device *device, const struct gk_buffer *buffer,
                                const void *pattern, uint32_t pattern_bytes, struct gk_err *err)
{
    return paint(device, buffer->address, buffer->bytes, pattern, pattern_bytes, err);
}
