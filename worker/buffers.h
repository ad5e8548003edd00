/*
 * Buffers of a trial on a device: the alignment that was promised and no better, guards on both
 * sides.
 */
#ifndef GK_WORKER_BUFFERS_H
#define GK_WORKER_BUFFERS_H

#include "worker/device.h"

struct gk_buffer {
    uint64_t base;               /* as allocated; 0: nothing is */
    uint64_t address;            /* of the first byte: base + front */
    uint64_t front, bytes, back; /* guard, content, guard */
};

/* `align`: a power of two; the address is a multiple of it and, below 256, of nothing larger. Where
 * the device catches accesses outside itself there is no guard beyond what the alignment needs.
 * Guard bytes hold a pattern and count as never written, so that reading them is caught too where
 * the device can tell. GK_LIMIT: no room. */
enum gk_status gk_buffer_make(struct gk_device *device, const char *name, uint64_t bytes,
                              uint64_t align, struct gk_buffer *buffer_out, struct gk_err *err);
void gk_buffer_free(struct gk_device *device, struct gk_buffer *buffer);
/* Looks at the guards. *offset_out: first changed byte relative to `address` (negative: before it);
 * *changed_out: how many changed. */
enum gk_status gk_buffer_check(struct gk_device *device, const struct gk_buffer *buffer,
                               uint64_t *changed_out, int64_t *offset_out, struct gk_err *err);
/* Fills the content with a pattern and makes it count as never written. */
enum gk_status gk_buffer_poison(struct gk_device *device, const struct gk_buffer *buffer,
                                const void *pattern, uint32_t pattern_bytes, struct gk_err *err);

#endif
