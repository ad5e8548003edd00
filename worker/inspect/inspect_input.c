/* Inputs made on the device: see inspect.h. */
#include "worker/inspect/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "worker/generate.h"
#include "worker/inspect/inspect_inside.h"
#include "worker/numeric.h"

#define GROUP 8 /* kGroup of inspect.cu: elements a thread makes at a time */

/* As inspect.cu lays it out. */
struct device_generator {
    uint32_t key[2];
    uint32_t tensor;
    int32_t kind, dtype;
    int32_t has_class;
    double args[3];
    double round;
    uint64_t quantiles;
};

struct device_spike {
    uint32_t key[2];
    uint32_t tensor;
    int32_t dtype;
    double size, share;
    int64_t row, places, edge_inside, edge_extent;
};

/* Written for each use: candidates have run since the last one, and the table is not hidden from
 * them. */
static enum gk_status upload_quantiles(struct gk_inspector *inspector, struct gk_err *err)
{
    struct gk_device *device = inspector->device;
    const uint64_t bytes = GK_QUANTILES * sizeof(float);
    enum gk_status status = inspector->quantiles
                                ? GK_OK
                                : device->ops->alloc(device, "inspector: quantiles", bytes, 256,
                                                     &inspector->quantiles, err);
    return status == GK_OK
               ? device->ops->write(device, inspector->quantiles, gk_normal_quantiles(), bytes, err)
               : status;
}

/* Whether each element surely has a place of its own: by increasing stride, each dimension steps
 * over all that those below it reach. The host writes shared places in order, threads do not. */
static bool places_differ(const struct gk_inspect_view *view)
{
    bool seen[GK_TENSOR_RANK_MAX] = {false};
    int64_t reach = 0;
    for (int32_t n = 0; n < view->rank; n++) {
        int32_t least = -1;
        for (int32_t d = 0; d < view->rank; d++) {
            if (!seen[d] && (least < 0 || view->strides[d] < view->strides[least])) {
                least = d;
            }
        }
        seen[least] = true;
        if (view->strides[least] <= reach) {
            return false;
        }
        reach += (view->extents[least] - 1) * view->strides[least];
    }
    return true;
}

static bool counts_along(enum gk_generator_kind kind)
{
    return kind == GK_GEN_OFFSETS || kind == GK_GEN_SERIES || kind == GK_GEN_PAGE_TABLE;
}

/* Leading logical elements that get a value. */
static int64_t owned_elements(const struct gk_plan_tensor *tensor,
                              const struct gk_generator_use *use)
{
    if (use->gen->kind == GK_GEN_NONE || tensor->elements == 0) {
        return 0;
    }
    if (tensor->rank == 0 || use->owned_rows >= tensor->extents[0]) {
        return tensor->elements;
    }
    const int64_t rows = use->owned_rows > 0 ? use->owned_rows : 0;
    return rows * (tensor->elements / tensor->extents[0]);
}

static enum gk_status paint_padding(struct gk_inspector *inspector,
                                    const struct gk_plan_tensor *tensor, uint64_t address,
                                    struct gk_err *err)
{
    struct gk_segment all = {.address = address,
                             .bytes = (uint64_t)tensor->span * gk_dtype_bytes(tensor->dtype),
                             .pattern_bytes = gk_dtype_bytes(tensor->dtype)};
    gk_element_poison(tensor->dtype, all.pattern);
    return gk_inspector_paint(inspector, &all, 1, err);
}

/* What lies behind the owned rows of one index of the outermost dimension is one run of bytes for
 * every combination of the dimensions outside the axis, if those inside it leave no gap. */
static bool runs_are_whole(const struct gk_plan_tensor *tensor)
{
    const int64_t row = tensor->strides[tensor->def->rows_axis];
    int64_t inside = 1;
    for (uint32_t d = 1; d < tensor->rank; d++) {
        inside *= d != tensor->def->rows_axis && tensor->strides[d] < row ? tensor->extents[d] : 1;
    }
    return inside == row;
}

struct painter {
    struct gk_inspector *inspector;
    struct gk_segment *segments; /* GK_SEGMENTS_MAX of them */
    uint32_t count;
};

static enum gk_status paint_collected(struct painter *painter, struct gk_err *err)
{
    const uint32_t count = painter->count;
    painter->count = 0;
    return count ? gk_inspector_paint(painter->inspector, painter->segments, count, err) : GK_OK;
}

/* The runs of one index of the outermost dimension. */
static enum gk_status paint_behind(struct painter *painter, const struct gk_plan_tensor *tensor,
                                   uint64_t address, int64_t outer, int64_t owned,
                                   struct gk_err *err)
{
    const uint32_t axis = tensor->def->rows_axis, size = gk_dtype_bytes(tensor->dtype);
    int64_t index[GK_TENSOR_RANK_MAX] = {[0] = outer};
    enum gk_status status = GK_OK;
    bool more = owned < tensor->extents[axis];
    index[axis] = owned;
    while (more && status == GK_OK) {
        struct gk_segment *run = &painter->segments[painter->count++];
        *run = (struct gk_segment){
            .address = address + (uint64_t)gk_tensor_place(tensor, index) * size,
            .bytes = (uint64_t)((tensor->extents[axis] - owned) * tensor->strides[axis]) * size,
            .pattern_bytes = size};
        gk_element_poison(tensor->dtype, run->pattern);
        if (painter->count == GK_SEGMENTS_MAX) {
            status = paint_collected(painter, err);
        }
        more = false;
        for (uint32_t d = tensor->rank; d-- > 1 && !more;) {
            if (d != axis && tensor->strides[d] >= tensor->strides[axis]) {
                more = ++index[d] < tensor->extents[d];
                index[d] = more ? index[d] : 0;
            }
        }
    }
    return status;
}

/* Rows that nobody owns, behind those that somebody does. */
static enum gk_status paint_unowned(struct gk_inspector *inspector,
                                    const struct gk_plan_tensor *tensor, const int64_t *owned,
                                    uint64_t address, struct gk_err *err)
{
    struct painter painter = {.inspector = inspector,
                              .segments = malloc(GK_SEGMENTS_MAX * sizeof *painter.segments)};
    enum gk_status status = GK_OK;
    if (!painter.segments) {
        return gk_fail(err, GK_NOMEM, "out of memory for the padding of %s", tensor->def->name);
    }
    for (int64_t i = 0; status == GK_OK && i < tensor->extents[0]; i++) {
        status = paint_behind(&painter, tensor, address, i, owned[i], err);
    }
    status = status == GK_OK ? paint_collected(&painter, err) : status;
    free(painter.segments);
    return status;
}

/* The first `count` logical elements. */
static enum gk_status draw_elements(struct gk_inspector *inspector,
                                    const struct gk_plan_tensor *tensor, uint32_t number,
                                    const struct gk_generator_use *use, uint64_t seed,
                                    uint64_t address, uint64_t count, struct gk_err *err)
{
    const struct gk_inspect_view view = gk_inspect_view_of(tensor);
    struct device_generator gen = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                                   .tensor = number,
                                   .kind = (int32_t)use->gen->kind,
                                   .dtype = (int32_t)tensor->dtype,
                                   .has_class = use->has[1],
                                   .quantiles = inspector->quantiles};
    memcpy(gen.args, use->args, sizeof gen.args);
    gen.round = use->round;
    const struct gk_inspect_arg args[] = {{&gen, sizeof gen},
                                          {&view, sizeof view},
                                          {&address, sizeof address},
                                          {&count, sizeof count}};
    const uint32_t blocks =
        gk_inspect_blocks(inspector, GK_INSPECT_GENERATE, (count + GROUP - 1) / GROUP);
    return gk_inspect_launch(inspector, GK_INSPECT_GENERATE, blocks, args,
                             (uint32_t)GK_ARRAY_COUNT(args), err);
}

/* Over the first `count` logical elements, which are whole rows. */
static enum gk_status write_spikes(struct gk_inspector *inspector,
                                   const struct gk_plan_tensor *tensor, uint32_t number,
                                   const struct gk_spike_use *use, uint64_t seed, uint64_t address,
                                   uint64_t count, struct gk_err *err)
{
    const struct gk_inspect_view view = gk_inspect_view_of(tensor);
    const struct device_spike spike = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                                       .tensor = number,
                                       .dtype = (int32_t)tensor->dtype,
                                       .size = use->size,
                                       .share = use->share,
                                       .row = use->row,
                                       .places = use->places,
                                       .edge_inside = use->edge_inside,
                                       .edge_extent = use->edge_extent};
    const uint64_t rows = count / (uint64_t)use->row;
    const struct gk_inspect_arg args[] = {{&spike, sizeof spike},
                                          {&view, sizeof view},
                                          {&address, sizeof address},
                                          {&rows, sizeof rows}};
    return gk_inspect_launch(inspector, GK_INSPECT_SPIKE,
                             gk_inspect_blocks(inspector, GK_INSPECT_SPIKE, rows), args,
                             (uint32_t)GK_ARRAY_COUNT(args), err);
}

enum gk_status gk_inspector_generate(struct gk_inspector *inspector, const struct gk_plan *plan,
                                     uint32_t tensor, uint64_t seed, enum gk_input_kind inputs,
                                     uint64_t address, struct gk_err *err)
{
    const struct gk_plan_tensor *t = &plan->tensors[tensor];
    const struct gk_inspect_view view = gk_inspect_view_of(t);
    struct gk_generator_use use;
    int64_t *owned = NULL;
    enum gk_status status = gk_generator_resolve(plan, tensor, inputs, &use, err);
    if (status != GK_OK) {
        return status;
    }
    if (counts_along(use.gen->kind) || !places_differ(&view) ||
        (t->def->rows_axis > 0 && !runs_are_whole(t))) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "tensor %s: its elements are not independent of each other; the host "
                       "generates them",
                       t->def->name);
    }
    const uint64_t count = (uint64_t)owned_elements(t, &use);
    if (count < (uint64_t)t->span) {
        status = paint_padding(inspector, t, address, err);
    }
    if (status == GK_OK && use.gen->kind == GK_GEN_NORMAL) {
        status = upload_quantiles(inspector, err);
    }
    if (status == GK_OK && count > 0) {
        status = draw_elements(inspector, t, tensor, &use, seed, address, count, err);
    }
    if (status == GK_OK && count > 0 && use.spike.size != 0.0) {
        status = write_spikes(inspector, t, tensor, &use.spike, seed, address, count, err);
    }
    if (status == GK_OK) {
        status = gk_rows_owned(plan, tensor, seed, inputs, &owned, err);
    }
    if (status == GK_OK && owned && t->elements > 0) {
        status = paint_unowned(inspector, t, owned, address, err);
    }
    free(owned);
    return status;
}
