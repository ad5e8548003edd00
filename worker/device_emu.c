/*
 * The emulated device behind the table of operations: worker/emu with its faults turned into
 * failures of a record. It catches every access outside a buffer itself, with the source line.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/device_emu.h"
#include "worker/emu/emu.h"

struct graph_item { /* a launch, or a fill where kernel is NULL */
    struct gk_device_kernel *kernel;
    struct gk_device_launch launch;
    uint64_t address, size;
    unsigned char pattern[8];
    uint32_t pattern_bytes;
};

struct gk_device_graph {
    struct graph_item *items;
    uint32_t count, room;
};

struct emu_device {
    struct gk_device base; /* first: pointers are converted */
    struct gk_emu *emu;
    struct gk_device_graph *recording; /* NULL: launches and fills run */
    uint64_t launches;                 /* outside recordings */
    bool replaying;
    bool streaming; /* between stream_begin and stream_end */
    double stream_ns;
    bool fixed; /* every launch takes `schedule` */
    enum gk_emu_schedule schedule;
    struct gk_emu_watch watch; /* zero: nobody looks */
};

static struct gk_emu *emu_of(struct gk_device *device)
{
    return ((struct emu_device *)device)->emu;
}

static enum gk_status emu_alloc(struct gk_device *device, const char *name, uint64_t bytes,
                                uint64_t align, uint64_t *address_out, struct gk_err *err)
{
    return gk_emu_alloc(emu_of(device), name, bytes, align, address_out, err);
}

static enum gk_status emu_release(struct gk_device *device, uint64_t address, struct gk_err *err)
{
    return gk_emu_free(emu_of(device), address, err);
}

static enum gk_status emu_write(struct gk_device *device, uint64_t address, const void *bytes,
                                uint64_t size, struct gk_err *err)
{
    return gk_emu_write(emu_of(device), address, bytes, size, err);
}

static enum gk_status emu_read(struct gk_device *device, uint64_t address, void *bytes,
                               uint64_t size, struct gk_err *err)
{
    return gk_emu_read(emu_of(device), address, bytes, size, err);
}

static enum gk_status emu_copy(struct gk_device *device, uint64_t to, uint64_t from, uint64_t size,
                               struct gk_err *err)
{
    unsigned char *bytes = malloc((size_t)size + 1);
    if (!bytes) {
        return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu64 " bytes", size);
    }
    enum gk_status status = gk_emu_read(emu_of(device), from, bytes, size, err);
    if (status == GK_OK) {
        status = gk_emu_write(emu_of(device), to, bytes, size, err);
    }
    free(bytes);
    return status;
}

/* ------------------------------------------------------------------ recordings */

static struct graph_item *graph_add(struct gk_device_graph *graph, struct gk_err *err)
{
    if (graph->count == graph->room) {
        uint32_t room = graph->room ? 2 * graph->room : 16;
        struct graph_item *items = realloc(graph->items, room * sizeof *items);
        if (!items) {
            (void)gk_fail(err, GK_NOMEM, "out of memory for a recording of %" PRIu32 " pieces",
                          graph->count);
            return NULL;
        }
        graph->items = items;
        graph->room = room;
    }
    memset(&graph->items[graph->count], 0, sizeof *graph->items);
    return &graph->items[graph->count++];
}

static void emu_graph_free(struct gk_device *device, struct gk_device_graph *graph)
{
    (void)device;
    if (graph) {
        free(graph->items);
        free(graph);
    }
}

static enum gk_status emu_record_begin(struct gk_device *device, struct gk_err *err)
{
    struct emu_device *emu = (struct emu_device *)device;
    GK_ASSERT(!emu->recording);
    emu->recording = calloc(1, sizeof *emu->recording);
    return emu->recording ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status emu_record_end(struct gk_device *device, struct gk_device_graph **graph_out,
                                     struct gk_err *err)
{
    struct emu_device *emu = (struct emu_device *)device;
    if (!emu->recording) {
        return gk_fail(err, GK_INPUT, "no recording is open");
    }
    *graph_out = emu->recording;
    emu->recording = NULL;
    return GK_OK;
}

static enum gk_status emu_fill(struct gk_device *device, uint64_t address, uint64_t size,
                               const void *pattern, uint32_t pattern_bytes, struct gk_err *err)
{
    struct emu_device *emu = (struct emu_device *)device;
    if (emu->recording) {
        struct graph_item *item = graph_add(emu->recording, err);
        if (!item || pattern_bytes > sizeof item->pattern) {
            return GK_NOMEM;
        }
        item->address = address;
        item->size = size;
        memcpy(item->pattern, pattern, pattern_bytes);
        item->pattern_bytes = pattern_bytes;
        return GK_OK;
    }
    return gk_emu_fill(emu_of(device), address, size, pattern, pattern_bytes, err);
}

static enum gk_status emu_forget(struct gk_device *device, uint64_t address, uint64_t size,
                                 struct gk_err *err)
{
    return gk_emu_mark_unwritten(emu_of(device), address, size, err);
}

static enum gk_status emu_unwritten(struct gk_device *device, uint64_t address, uint64_t size,
                                    uint64_t *bytes_out, struct gk_err *err)
{
    return gk_emu_unwritten(emu_of(device), address, size, bytes_out, err);
}

static enum gk_status emu_load(struct gk_device *device, const struct gk_device_code *code,
                               struct gk_device_module **module_out, struct gk_err *err)
{
    struct gk_emu_module *module = NULL;
    enum gk_status status =
        gk_emu_module_load(emu_of(device), code->ptx, code->ptx_size, &module, err);
    if (status == GK_OK) {
        const struct gk_emu_watch *watch = &((struct emu_device *)device)->watch;
        if (watch->loaded) {
            watch->loaded(watch->context, code->ptx, module);
        }
        *module_out = (struct gk_device_module *)module;
    }
    return status;
}

static void emu_unload(struct gk_device *device, struct gk_device_module *module)
{
    (void)device;
    gk_emu_module_unload((struct gk_emu_module *)module);
}

static enum gk_status emu_find(struct gk_device *device, struct gk_device_module *module,
                               const char *name, struct gk_device_kernel **kernel_out,
                               struct gk_err *err)
{
    struct gk_emu_kernel *kernel = NULL;
    (void)device;
    enum gk_status status = gk_emu_kernel_find((struct gk_emu_module *)module, name, &kernel, err);
    if (status == GK_OK) {
        *kernel_out = (struct gk_device_kernel *)kernel;
    }
    return status;
}

static enum gk_failure failure_of(enum gk_emu_fault fault)
{
    switch (fault) {
    case GK_EMU_FAULT_NONE:
        return GK_FAILURE_NONE;
    case GK_EMU_FAULT_OUT_OF_BOUNDS:
    case GK_EMU_FAULT_NULL_POINTER:
    case GK_EMU_FAULT_CONST_WRITE:
        return GK_FAILURE_OUT_OF_BOUNDS;
    case GK_EMU_FAULT_MISALIGNED:
        return GK_FAILURE_MISALIGNED;
    case GK_EMU_FAULT_UNWRITTEN:
        return GK_FAILURE_UNWRITTEN_READ;
    case GK_EMU_FAULT_PENDING:
    case GK_EMU_FAULT_RACE:
        return GK_FAILURE_RACE;
    case GK_EMU_FAULT_DEADLOCK:
    case GK_EMU_FAULT_DIVERGENT:
        return GK_FAILURE_DEADLOCK;
    case GK_EMU_FAULT_WORK_LIMIT:
        return GK_FAILURE_TIMEOUT;
    case GK_EMU_FAULT_TRAP:
    case GK_EMU_FAULT_ASSERT:
        return GK_FAILURE_TRAP;
    case GK_EMU_FAULT_UNSUPPORTED:
        return GK_FAILURE_UNSUPPORTED;
    case GK_EMU_FAULT_BAD_OPERAND:
        return GK_FAILURE_BAD_OPERAND;
    case GK_EMU_FAULT_CALL_DEPTH:
        return GK_FAILURE_LAUNCH_ERROR;
    }
    return GK_FAILURE_LAUNCH_ERROR;
}

static void add_counts(const struct gk_emu_counts *counts, struct gk_device_report *report)
{
    const struct gk_counter all[] = {
        {"warp_instructions", counts->warp_instructions},
        {"global_load_requests", counts->global_load_requests},
        {"global_load_sectors", counts->global_load_sectors},
        {"global_store_requests", counts->global_store_requests},
        {"global_store_sectors", counts->global_store_sectors},
        {"global_atomics", counts->global_atomics},
        {"cp_async_bytes", counts->cp_async_bytes},
        {"bulk_load_bytes", counts->bulk_load_bytes},
        {"bulk_store_bytes", counts->bulk_store_bytes},
        {"shared_requests", counts->shared_requests},
        {"shared_wavefronts", counts->shared_wavefronts},
        {"shared_atomics", counts->shared_atomics},
        {"local_requests", counts->local_requests},
        {"tensor_flops", counts->tensor_flops},
        {"fma_ops", counts->fma_ops},
        {"fp64_ops", counts->fp64_ops},
        {"int_ops", counts->int_ops},
        {"special_ops", counts->special_ops},
        {"barrier_waits", counts->barrier_waits},
        {"divergent_branches", counts->divergent_branches},
        {"blocks", counts->blocks},
        {"warps", counts->warps},
        {"waves", counts->waves},
    };
    _Static_assert(sizeof all / sizeof all[0] <= GK_COUNTERS_MAX, "room for all counters");
    memcpy(report->counters, all, sizeof all);
    report->counter_count = (uint32_t)GK_ARRAY_COUNT(all);
}

/* Lays the arguments out as the kernel declares them: a count or size that differs is the
 * description's mistake, and running on would read arguments at wrong places. */
static enum gk_status lay_out(const struct gk_emu_kernel_info *info,
                              const struct gk_device_launch *launch, unsigned char *params,
                              struct gk_err *err)
{
    if (info->param_count != launch->arg_count) {
        return gk_fail(err, GK_INPUT, "kernel %s has %" PRIu32 " parameters, args lists %" PRIu32,
                       info->name, info->param_count, launch->arg_count);
    }
    for (uint32_t i = 0; i < launch->arg_count; i++) {
        if (info->params[i].size != launch->args[i].size) {
            return gk_fail(err, GK_INPUT,
                           "kernel %s: parameter %" PRIu32 " has %" PRIu32
                           " bytes, args gives %" PRIu32,
                           info->name, i, info->params[i].size, launch->args[i].size);
        }
        memcpy(params + info->params[i].offset, launch->args[i].bytes, launch->args[i].size);
    }
    return GK_OK;
}

/* Launches take the schedules in turn, so that the rungs of a ladder meet all of them; what is
 * replayed to be timed always takes the same one. */
static enum gk_emu_schedule next_schedule(struct emu_device *device)
{
    static const enum gk_emu_schedule TURNS[] = {GK_EMU_LATE, GK_EMU_RANDOM, GK_EMU_EARLY};

    if (device->fixed) {
        return device->schedule;
    }
    return device->replaying || device->streaming
               ? GK_EMU_EARLY
               : TURNS[device->launches++ % GK_ARRAY_COUNT(TURNS)];
}

static void show_launch(struct gk_device *device, const struct gk_emu_kernel *kernel,
                        const struct gk_device_launch *launch, const struct gk_emu_report *report)
{
    const struct gk_emu_watch *watch = &((struct emu_device *)device)->watch;
    struct gk_emu_launched launched = {
        .module = gk_emu_kernel_module(kernel), .launch = launch, .report = report};
    if (watch->launched) {
        launched.line_count = gk_emu_lines(emu_of(device), &launched.lines);
        watch->launched(watch->context, &launched);
    }
}

/* What a kernel without ptxas's report is taken to use, for the modelled occupancy. */
#define REGS_UNKNOWN 32

static enum gk_status emu_launch(struct gk_device *device, struct gk_device_kernel *kernel,
                                 const struct gk_device_launch *launch,
                                 struct gk_device_report *report_out, struct gk_err *err)
{
    struct gk_emu_kernel *emu_kernel = (struct gk_emu_kernel *)kernel;
    struct gk_emu_kernel_info info = {0};
    struct gk_device_graph *recording = ((struct emu_device *)device)->recording;
    if (recording) {
        struct graph_item *item = graph_add(recording, err);
        if (!item) {
            return GK_NOMEM;
        }
        item->kernel = kernel;
        item->launch = *launch;
        memset(report_out, 0, sizeof *report_out);
        return GK_OK;
    }
    gk_emu_kernel_info(emu_kernel, &info);
    unsigned char *params = calloc(1, (size_t)info.params_size + 8);
    struct gk_emu_report *report = calloc(1, sizeof *report);
    enum gk_status status = GK_OK;

    if (!params || !report) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
        goto out;
    }
    status = lay_out(&info, launch, params, err);
    if (status != GK_OK) {
        goto out;
    }
    struct gk_emu_launch raw = {
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .cluster = {launch->cluster[0], launch->cluster[1], launch->cluster[2]},
        .dynamic_smem_bytes = launch->smem_bytes,
        .params = params,
        .params_size = info.params_size,
        .registers_per_thread = launch->regs ? launch->regs : REGS_UNKNOWN,
        .overlaps = launch->pdl,
    };
    gk_emu_set_schedule(emu_of(device), next_schedule((struct emu_device *)device));
    status = gk_emu_launch(emu_of(device), emu_kernel, &raw, report, err);
    if (status == GK_OK || status == GK_TRIAL) {
        memset(report_out, 0, sizeof *report_out);
        report_out->failure = failure_of(report->kind);
        (void)memccpy(report_out->text, report->text, 0, sizeof report_out->text - 1);
        report_out->ns = status == GK_OK ? report->modelled_ns : 0;
        ((struct emu_device *)device)->stream_ns += report_out->ns;
        add_counts(&report->counts, report_out);
        show_launch(device, emu_kernel, launch, report);
    }
out:
    free(params);
    free(report);
    return status;
}

static enum gk_status emu_replay(struct gk_device *device, struct gk_device_graph *graph,
                                 struct gk_device_report *report_out, struct gk_err *err)
{
    double ns = 0;
    enum gk_status status = GK_OK;
    ((struct emu_device *)device)->replaying = true;
    for (uint32_t i = 0; i < graph->count && status == GK_OK; i++) {
        const struct graph_item *item = &graph->items[i];
        if (item->kernel) {
            status = emu_launch(device, item->kernel, &item->launch, report_out, err);
            ns += report_out->ns;
        } else {
            status = emu_fill(device, item->address, item->size, item->pattern, item->pattern_bytes,
                              err);
        }
    }
    ((struct emu_device *)device)->replaying = false;
    report_out->ns = status == GK_OK ? ns : 0;
    return status;
}

/* Launches run at once here: a stream is their sum. */
static enum gk_status emu_stream_begin(struct gk_device *device, struct gk_err *err)
{
    struct emu_device *emu = (struct emu_device *)device;
    if (emu->recording || emu->streaming) {
        return gk_fail(err, GK_USAGE, "stream: a recording or a stream is open already");
    }
    emu->streaming = true;
    emu->stream_ns = 0;
    return GK_OK;
}

static enum gk_status emu_stream_end(struct gk_device *device, struct gk_device_report *report_out,
                                     struct gk_err *err)
{
    struct emu_device *emu = (struct emu_device *)device;
    if (!emu->streaming) {
        return gk_fail(err, GK_USAGE, "stream: none is open");
    }
    emu->streaming = false;
    memset(report_out, 0, sizeof *report_out);
    report_out->ns = emu->stream_ns;
    return GK_OK;
}

static enum gk_emu_element element_of(enum gk_dtype dtype)
{
    switch (dtype) {
    case GK_BF16:
        return GK_EMU_ELEMENT_BF16;
    case GK_F16:
        return GK_EMU_ELEMENT_F16;
    case GK_F32:
        return GK_EMU_ELEMENT_F32;
    case GK_F64:
        return GK_EMU_ELEMENT_F64;
    case GK_I32:
        return GK_EMU_ELEMENT_I32;
    case GK_U32:
        return GK_EMU_ELEMENT_U32;
    case GK_I64:
        return GK_EMU_ELEMENT_U64;
    default: /* bytes to a copy */
        return GK_EMU_ELEMENT_U8;
    }
}

static enum gk_status emu_encode(struct gk_device *device, const struct gk_device_map *map,
                                 unsigned char bytes_out[128], struct gk_err *err)
{
    struct gk_emu_map raw = {
        .element = element_of(map->dtype),
        .rank = map->rank,
        .address = map->address,
        .swizzle = map->swizzle,
        .fill_nan = map->fill_nan,
    };
    memcpy(raw.dims, map->dims, sizeof raw.dims);
    memcpy(raw.strides, map->strides, sizeof raw.strides);
    memcpy(raw.box, map->box, sizeof raw.box);
    memcpy(raw.element_strides, map->element_strides, sizeof raw.element_strides);
    return gk_emu_map_encode(emu_of(device), &raw, bytes_out, err);
}

static void emu_limit(struct gk_device *device, int64_t thread_instructions)
{
    uint64_t warps = thread_instructions > 0 ? (uint64_t)thread_instructions / 32 : 1;
    gk_emu_set_work_limit(emu_of(device), warps ? warps : 1);
}

static enum gk_status emu_health(struct gk_device *device, struct gk_err *err)
{
    (void)device; /* no state outlives a launch */
    (void)err;
    return GK_OK;
}

static void emu_close(struct gk_device *device)
{
    gk_emu_destroy(emu_of(device));
    free(device);
}

static const struct gk_device_ops emu_ops = {
    .exact_bounds = true,
    .alloc = emu_alloc,
    .release = emu_release,
    .write = emu_write,
    .read = emu_read,
    .fill = emu_fill,
    .forget = emu_forget,
    .unwritten = emu_unwritten,
    .load = emu_load,
    .unload = emu_unload,
    .find = emu_find,
    .launch = emu_launch,
    .limit = emu_limit,
    .health = emu_health,
    .copy = emu_copy,
    .encode = emu_encode,
    .record_begin = emu_record_begin,
    .record_end = emu_record_end,
    .replay = emu_replay,
    .graph_free = emu_graph_free,
    .stream_begin = emu_stream_begin,
    .stream_end = emu_stream_end,
    .close = emu_close,
};

enum gk_status gk_device_emu_open(const char *name, struct gk_device **device_out,
                                  struct gk_err *err)
{
    return gk_device_emu_open_watched(name, 0, NULL, device_out, err);
}

void gk_device_emu_schedule(struct gk_device *device, enum gk_emu_schedule schedule)
{
    GK_ASSERT(device->ops == &emu_ops);
    ((struct emu_device *)device)->fixed = true;
    ((struct emu_device *)device)->schedule = schedule;
}

enum gk_status gk_device_emu_schedule_find(const char *name, enum gk_emu_schedule *schedule_out,
                                           struct gk_err *err)
{
    static const char *const names[] = {
        [GK_EMU_LATE] = "late", [GK_EMU_EARLY] = "early", [GK_EMU_RANDOM] = "random"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *schedule_out = (enum gk_emu_schedule)i;
            return GK_OK;
        }
    }
    return gk_fail(err, GK_USAGE, "schedule '%s': late, early and random are allowed", name);
}

enum gk_status gk_device_emu_open_watched(const char *name, uint64_t seed,
                                          const struct gk_emu_watch *watch,
                                          struct gk_device **device_out, struct gk_err *err)
{
    struct emu_device *device = calloc(1, sizeof *device);
    if (!device) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    enum gk_status status = gk_device_props_builtin(name, &device->base.props, err);
    if (status == GK_OK) {
        struct gk_emu_options options = {
            .target = device->base.props.target,
            .seed = seed,
            .memory_limit_bytes = (uint64_t)device->base.props.mem_bytes,
        };
        status = gk_emu_create(&options, &device->emu, err);
    }
    if (status == GK_OK && watch) {
        device->watch = *watch;
        status = gk_emu_count_lines(device->emu, true, err);
    }
    if (status != GK_OK) {
        gk_emu_destroy(device->emu);
        free(device);
        return status;
    }
    device->base.ops = &emu_ops;
    emu_limit(&device->base, device->base.props.work_limit);
    *device_out = &device->base;
    return GK_OK;
}
