/*
 * Plans: tensors, tensor maps and workspaces in numbers. Pure.
 */
#include "kernels/render_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ tensors */

static enum gk_dtype resolve_dtype(const struct gk_plan *plan, const struct gk_dtype_ref *ref)
{
    enum gk_dtype dtype = ref->dtype;
    if (ref->from_field) {
        const struct gk_field *field = &plan->op->fields.fields[ref->field];
        int64_t index = plan->slots[field->slot].i;
        GK_ASSERT(index >= 0 && index < (int64_t)field->value_count);
        GK_ASSERT(gk_dtype_from_name(field->values[index], &dtype)); /* checked at load */
    }
    return dtype;
}

static enum gk_status fail_tensor(const struct gk_tensor *def, const char *what, uint32_t axis,
                                  int64_t value, const char *allowed, struct gk_err *err)
{
    return gk_fail(err, GK_RANGE, "tensor %s: %s %" PRIu32 " is %" PRId64 "; %s", def->name, what,
                   axis, value, allowed);
}

/* Extents, and strides as given or packed. */
static enum gk_status render_layout(const struct gk_plan *plan, struct gk_plan_tensor *tensor,
                                    struct gk_err *err)
{
    const struct gk_tensor *def = tensor->def;
    bool packed = tensor->rank == 0 || !def->strides[0];
    tensor->elements = 1;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        enum gk_status status = gk_render_eval(plan, err, def->extents[i], 1, &tensor->extents[i],
                                               "tensor %s: extent %" PRIu32, def->name, i);
        if (status == GK_OK && (tensor->extents[i] < 0 || tensor->extents[i] > GK_EXTENT_MAX)) {
            status = fail_tensor(def, "extent", i, tensor->extents[i], "0 to 2^40 is allowed", err);
        }
        tensor->strides[i] = tensor->elements;
        if (status == GK_OK && !packed) {
            status = gk_render_eval(plan, err, def->strides[i], 1, &tensor->strides[i],
                                    "tensor %s: stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK && tensor->strides[i] < 0) {
            status =
                fail_tensor(def, "stride", i, tensor->strides[i], "0 and more is allowed", err);
        }
        if (status == GK_OK &&
            __builtin_mul_overflow(tensor->elements, tensor->extents[i], &tensor->elements)) {
            status = gk_fail(err, GK_RANGE, "tensor %s: more than 2^63 elements", def->name);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

/* One past the last element addressed; an empty tensor addresses none. */
static enum gk_status render_span(const struct gk_device_props *dev, struct gk_plan_tensor *tensor,
                                  struct gk_err *err)
{
    int64_t span = tensor->offset, reach = 0;
    bool over = false;
    for (uint32_t i = 0; i < tensor->rank && tensor->elements > 0; i++) {
        over = over || __builtin_mul_overflow(tensor->extents[i] - 1, tensor->strides[i], &reach) ||
               __builtin_add_overflow(span, reach, &span);
    }
    over = over || __builtin_add_overflow(span, tensor->elements > 0 ? 1 : 0, &span);
    int64_t bytes = 0;
    over = over || __builtin_mul_overflow(span, (int64_t)gk_dtype_bytes(tensor->dtype), &bytes);
    if (over || bytes > dev->mem_bytes) {
        return gk_fail(err, GK_LIMIT, "tensor %s: %s%" PRId64 " bytes; the device has %" PRId64,
                       tensor->def->name, over ? "over " : "", over ? INT64_MAX : bytes,
                       dev->mem_bytes);
    }
    tensor->span = span;
    return GK_OK;
}

enum gk_status gk_render_tensor(const struct gk_plan *plan, const struct gk_tensor *def,
                                struct gk_plan_tensor *tensor, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    tensor->def = def;
    tensor->dtype = resolve_dtype(plan, &def->dtype);
    tensor->rank = def->rank;
    tensor->present = gk_render_truth(plan, err, def->when, &status, "tensor", def->name);
    if (status != GK_OK || !tensor->present) {
        return status;
    }
    status =
        gk_render_eval(plan, err, def->offset, 0, &tensor->offset, "tensor %s: offset", def->name);
    if (status == GK_OK) {
        status = gk_render_eval(plan, err, def->align, 256, &tensor->align, "tensor %s: align",
                                def->name);
    }
    if (status != GK_OK) {
        return status;
    }
    int64_t least = gk_dtype_bytes(tensor->dtype);
    if (tensor->offset < 0 || tensor->offset > GK_EXTENT_MAX) {
        return gk_fail(err, GK_RANGE, "tensor %s: offset is %" PRId64 "; 0 to 2^40 is allowed",
                       def->name, tensor->offset);
    }
    if (tensor->align < least || tensor->align > (1 << 20) ||
        (tensor->align & (tensor->align - 1)) != 0) {
        return gk_fail(err, GK_RANGE,
                       "tensor %s: align is %" PRId64 "; a power of two from %" PRId64
                       " (an element) to 2^20 is allowed",
                       def->name, tensor->align, least);
    }
    status = render_layout(plan, tensor, err);
    return status == GK_OK ? render_span(&plan->dev, tensor, err) : status;
}

/* ------------------------------------------------------------------ maps and workspaces */

static enum gk_status render_view(const struct gk_plan *plan, const struct gk_tensor_map *def,
                                  struct gk_plan_map *map, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    map->def = def;
    map->present = gk_render_truth(plan, err, def->when, &status, "tensor map", def->name);
    if (status != GK_OK || !map->present) {
        return status;
    }
    const struct gk_plan_tensor *tensor = &plan->tensors[def->tensor];
    if (!tensor->present) {
        return gk_fail(err, GK_INPUT,
                       "tensor map %s: tensor %s does not exist in this problem; give the map a "
                       "\"when\"",
                       def->name, tensor->def->name);
    }
    status =
        gk_render_eval(plan, err, def->offset, 0, &map->offset, "tensor map %s: offset", def->name);
    int64_t packed = gk_dtype_bytes(tensor->dtype);
    for (uint32_t i = 0; i < def->rank && status == GK_OK; i++) {
        status = gk_render_eval(plan, err, def->dims[i], 1, &map->dims[i],
                                "tensor map %s: dim %" PRIu32, def->name, i);
        if (status == GK_OK) {
            status = gk_render_eval(plan, err, def->box[i], 1, &map->box[i],
                                    "tensor map %s: box %" PRIu32, def->name, i);
        }
        if (status == GK_OK) {
            status = gk_render_eval(plan, err, def->element_strides[i], 1, &map->element_strides[i],
                                    "tensor map %s: element stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK) {
            status = gk_render_eval(plan, err, def->strides[i], packed, &map->strides[i],
                                    "tensor map %s: stride %" PRIu32, def->name, i);
        }
        if (status == GK_OK && __builtin_mul_overflow(packed, map->dims[i], &packed)) {
            status = gk_fail(err, GK_RANGE, "tensor map %s: more than 2^63 bytes", def->name);
        }
    }
    return status;
}

/* The corner of the view that lies farthest must still be in the tensor's buffer: a map that
 * promises more than was allocated reads another tensor's bytes without an error. */
static enum gk_status check_view(const struct gk_plan *plan, const struct gk_plan_map *map,
                                 struct gk_err *err)
{
    const struct gk_plan_tensor *tensor = &plan->tensors[map->def->tensor];
    int64_t bytes = gk_dtype_bytes(tensor->dtype), last = 0, reach = 0;
    bool over = __builtin_mul_overflow(map->offset, bytes, &last) || map->offset < 0;
    for (uint32_t i = 0; i < map->def->rank; i++) {
        over = over || __builtin_mul_overflow(map->dims[i] - 1, map->strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
    }
    int64_t held = (tensor->span - tensor->offset) * bytes;
    if (over || last > held - bytes) {
        return gk_fail(err, GK_INPUT,
                       "constraint tensor_map.%s.inside: the view ends at byte %" PRId64
                       " of tensor %s, which has %" PRId64,
                       map->def->name, over ? INT64_MAX : last + bytes, tensor->def->name, held);
    }
    return GK_OK;
}

enum gk_status gk_render_map(const struct gk_plan *plan, const struct gk_tensor_map *def,
                             struct gk_plan_map *map, struct gk_err *err)
{
    enum gk_status status = render_view(plan, def, map, err);
    return status == GK_OK && map->present ? check_view(plan, map, err) : status;
}

enum gk_status gk_render_workspace(const struct gk_plan *plan, const struct gk_workspace *def,
                                   struct gk_plan_workspace *workspace, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    int64_t extent = 0;
    workspace->def = def;
    workspace->present = gk_render_truth(plan, err, def->when, &status, "workspace", def->name);
    if (status != GK_OK || !workspace->present) {
        return status;
    }
    status = gk_render_eval(plan, err, def->extent, 0, &extent, "workspace %s: extent", def->name);
    if (status == GK_OK) {
        status = gk_render_eval(plan, err, def->align, 256, &workspace->align,
                                "workspace %s: align", def->name);
    }
    if (status != GK_OK) {
        return status;
    }
    int64_t size = gk_dtype_bytes(def->dtype);
    if (extent < 0 || extent > plan->dev.mem_bytes / size) {
        return gk_fail(err, GK_LIMIT,
                       "workspace %s: %" PRId64 " elements of %s; 0 to %" PRId64
                       " (the device's memory) is allowed",
                       def->name, extent, gk_dtype_name(def->dtype), plan->dev.mem_bytes / size);
    }
    if (workspace->align < size || workspace->align > (1 << 20) ||
        (workspace->align & (workspace->align - 1)) != 0) {
        return gk_fail(err, GK_RANGE,
                       "workspace %s: align is %" PRId64 "; a power of two from %" PRId64
                       " to 2^20 is allowed",
                       def->name, workspace->align, size);
    }
    workspace->bytes = extent * size;
    return GK_OK;
}
